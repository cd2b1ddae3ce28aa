//! One attempt of one job, as the runner hands it to a handler.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, TopicName};

/// What a handler is told about the job it runs on.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The job's id.
    pub id: JobId,
    /// Its topic.
    pub topic: TopicName,
    /// Its payload. The runner refuses one over [`Handler::payload_max`](crate::Handler::payload_max)
    /// before it runs anything; here it is taken as it is.
    pub payload: Bytes,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Attempts the job has in all, from 1.
    pub max_attempts: u32,
    /// When the job fell due, in unix milliseconds.
    pub due_at_ms: u64,
    /// The job's headers. One that cannot stand in a block (ABI.md, "Rules") is left out of it.
    pub headers: BTreeMap<String, String>,
    /// Wall clock of this attempt, counted from the call of [`Handler::run`](crate::Handler::run).
    pub ttr: Duration,
}

/// The longest name of a header, in bytes.
const HEADER_NAME_MAX: usize = 64;
/// The longest block of headers, in bytes.
const BLOCK_MAX: usize = 16 << 10;

impl Invocation {
    /// The headers as a block: lines `name: value\n`, at most 16 KiB, well-formed whatever the
    /// headers hold.
    pub(crate) fn headers_block(&self) -> String {
        let mut block = String::new();
        for (name, value) in &self.headers {
            let line = name.len() + value.len() + ": \n".len();
            if !header_fits(name, value) || block.len() + line > BLOCK_MAX {
                continue;
            }
            block.push_str(name);
            block.push_str(": ");
            block.push_str(value);
            block.push('\n');
        }
        block
    }
}

fn header_fits(name: &str, value: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    (1..=HEADER_NAME_MAX).contains(&name.len())
        && name.bytes().all(allowed)
        && !value.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_headers(headers: &[(&str, &str)]) -> Invocation {
        Invocation {
            id: JobId::new("1").unwrap(),
            topic: TopicName::new("t").unwrap(),
            payload: Bytes::new(),
            attempt: 1,
            max_attempts: 1,
            due_at_ms: 0,
            headers: headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
            ttr: Duration::from_secs(1),
        }
    }

    #[test]
    fn a_block_is_a_line_for_each_header() {
        let job = with_headers(&[("trace-id", "a: b"), ("x.1_y", ""), ("ümlaut", "no")]);
        assert_eq!(job.headers_block(), "trace-id: a: b\nx.1_y: \n");
    }

    #[test]
    fn no_header_can_forge_another() {
        let job = with_headers(&[("a", "1\nb: 2"), ("c\nd", "3"), ("", "4"), ("E", "5")]);
        assert_eq!(job.headers_block(), "");
    }

    #[test]
    fn a_block_stays_within_16_kib() {
        let long = "v".repeat(10_000);
        let job = with_headers(&[("a", &long), ("b", &long), ("c", "short")]);
        assert_eq!(job.headers_block(), format!("a: {long}\nc: short\n"));
    }
}
