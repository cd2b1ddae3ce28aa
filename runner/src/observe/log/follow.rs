//! One id on all lines of one piece of work: a request, or a reload. The work runs in a scope, and each line that
//! is logged in it gets the id as its last field, whichever part of the daemon logs it.

use std::io::{self, Write};
use std::sync::Arc;

tokio::task_local! {
    static FOLLOWED: Followed;
}

/// The field that the lines of the current work get.
#[derive(Clone)]
struct Followed {
    name: &'static str,
    id: Arc<str>,
}

/// Runs work whose log lines get this field. The id is printable ASCII.
pub async fn following<W: Future>(
    name: &'static str,
    id: impl Into<Arc<str>>,
    work: W,
) -> W::Output {
    FOLLOWED.scope(Followed { name, id: id.into() }, work).await
}

/// Writes lines with the field of the current work. Each write is one line.
pub(super) struct FollowWriter<W> {
    pub(super) lines: W,
    pub(super) is_json: bool,
}

impl Followed {
    /// A line with this field at its end.
    fn added_to(&self, line: &[u8], is_json: bool) -> Vec<u8> {
        let end: &[u8] = if is_json { b"}\n" } else { b"\n" };
        let Some(start) = line.strip_suffix(end) else { return line.to_vec() };
        let field = if is_json {
            // A text is valid JSON.
            let id = serde_json::to_string(&*self.id).unwrap_or_default();
            format!(",\"{}\":{id}", self.name)
        } else {
            format!(" {}={}", self.name, self.id)
        };
        [start, field.as_bytes(), end].concat()
    }
}

impl<W: Write> Write for FollowWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match FOLLOWED.try_with(|followed| followed.added_to(line, self.is_json)) {
            Ok(longer) => self.lines.write_all(&longer)?,
            Err(_) => self.lines.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lines.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: &str, is_json: bool) -> String {
        let mut lines = Vec::new();
        FollowWriter { lines: &mut lines, is_json }.write_all(line.as_bytes()).unwrap();
        String::from_utf8(lines).unwrap()
    }

    #[tokio::test]
    async fn lines_of_the_work_get_its_id_and_others_none() {
        assert_eq!(written("{\"a\":1}\n", true), "{\"a\":1}\n");
        following("request_id", "x\"1", async {
            assert_eq!(written("{\"a\":1}\n", true), "{\"a\":1,\"request_id\":\"x\\\"1\"}\n");
            assert_eq!(written("INFO a\n", false), "INFO a request_id=x\"1\n");
        })
        .await;
        assert_eq!(written("INFO a\n", false), "INFO a\n");
    }
}
