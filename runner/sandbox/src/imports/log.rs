//! The import `log`, and the log of one job.
//!
//! Every line that leaves the sandbox is one line of text without control characters. The lines of a job
//! stay within its budget of bytes and lines. Lines over the budget are dropped and counted. A line of more
//! than 64 KiB is split.

mod tail;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use duebox_job::{JobId, TopicName};
use parking_lot::Mutex;
use wasmtime::{Caller, Linker};

use self::tail::LogTail;
use crate::digest::Digest;
use crate::imports::abi::NAMESPACE;
use crate::imports::call::{GuestState, view};
use crate::imports::pieces;

/// The import, and whether it takes a pointer.
pub(crate) const IMPORTS: [(&str, bool); 1] = [(LOG, true)];

const LOG: &str = "log";

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// An operation failed.
    Error,
    /// Something is unexpected. Standard error of a WASI module has this level.
    Warn,
    /// A normal event. Standard output of a WASI module has this level.
    Info,
    /// Details for debugging.
    Debug,
    /// The finest details.
    Trace,
}

impl Level {
    /// The level of a number in the ABI. Numbers above 4 mean trace.
    fn from_abi(level: u32) -> Self {
        match level {
            0 => Self::Error,
            1 => Self::Warn,
            2 => Self::Info,
            3 => Self::Debug,
            _ => Self::Trace,
        }
    }

    /// The level's name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The job, and the build of its handler, that a line comes from.
#[derive(Debug, Clone, Copy)]
pub struct JobContext<'a> {
    /// The job's id.
    pub id: &'a JobId,
    /// The job's topic.
    pub topic: &'a TopicName,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The digest of the module that runs the job.
    pub digest: Digest,
}

/// Receives the log lines of guests.
///
/// It is called while the guest waits, on the guest's stack, of which 512 KiB are available. An
/// implementation must be fast and must not block.
pub trait LogSink: Send + Sync {
    /// Receives one line. It has no line breaks, and no control characters except tabs.
    fn line(&self, job: &JobContext<'_>, level: Level, text: &str);
}

/// The state of a guest that writes a log.
pub(crate) trait HasLog: GuestState {
    fn log(&self) -> &Arc<JobLog>;
}

/// Lines that a job may write whatever its budget is.
const LINES_MIN: usize = 64;
/// Bytes of budget for each further line. A line costs the daemon far more than its text.
const BYTES_PER_LINE: usize = 16;

/// The longest line, in bytes.
const LINE_MAX: usize = 64 << 10;
/// A guest yields after it has written lines that cost as much as this many bytes of text.
const COST_MAX: usize = 256 << 10;
/// What a line costs apart from its text.
const LINE_COST: usize = 512;

/// The log of one job.
pub(crate) struct JobLog {
    id: JobId,
    topic: TopicName,
    attempt: u32,
    digest: Digest,
    sink: Arc<dyn LogSink>,
    bytes_left: AtomicUsize,
    lines_left: AtomicUsize,
    dropped: AtomicU32,
    tail: Mutex<LogTail>,
}

impl JobLog {
    /// A log with a budget in bytes.
    pub(crate) fn new(job: &JobContext<'_>, sink: Arc<dyn LogSink>, budget: usize) -> Self {
        Self {
            id: job.id.clone(),
            topic: job.topic.clone(),
            attempt: job.attempt,
            digest: job.digest,
            sink,
            bytes_left: AtomicUsize::new(budget),
            lines_left: AtomicUsize::new(LINES_MIN + budget / BYTES_PER_LINE),
            dropped: AtomicU32::new(0),
            tail: Mutex::default(),
        }
    }

    /// Writes a text of the host, or one that the host has cut. Each line break begins a new line. If the
    /// budget is too small for the text, the whole text is dropped.
    pub(crate) fn write(&self, level: Level, text: &[u8]) {
        if !self.take_bytes(text) {
            return;
        }
        for line in Lines::of(text) {
            self.line(level, line);
        }
    }

    /// Like [`write`](Self::write), for a text of any length: the guest yields between the lines.
    pub(crate) async fn write_in_pieces(&self, level: Level, text: &[u8]) {
        if !self.take_bytes(text) {
            return;
        }
        let mut cost = 0;
        for line in Lines::of(text) {
            if cost > COST_MAX {
                pieces::pause().await;
                cost = 0;
            }
            self.line(level, line);
            cost += line.len() + LINE_COST;
        }
    }

    /// Takes the budget of a text. Without one it counts the text as dropped.
    fn take_bytes(&self, text: &[u8]) -> bool {
        let has_room = take(&self.bytes_left, text.len().max(1));
        if !has_room {
            self.count_dropped();
        }
        has_room
    }

    /// Writes one line, with invalid UTF-8 replaced.
    fn line(&self, level: Level, line: &[u8]) {
        if !take(&self.lines_left, 1) {
            return self.count_dropped();
        }
        let text = String::from_utf8_lossy(line);
        let line = printable(&text);
        let job = JobContext {
            id: &self.id,
            topic: &self.topic,
            attempt: self.attempt,
            digest: self.digest,
        };
        self.tail.lock().push(level.name(), &line);
        self.sink.line(&job, level, &line);
    }

    /// Takes the last lines within the budget, each with its level.
    pub(crate) fn take_tail(&self) -> Vec<String> {
        self.tail.lock().take()
    }

    fn count_dropped(&self) {
        let dropped = self.dropped.load(Ordering::Relaxed).saturating_add(1);
        self.dropped.store(dropped, Ordering::Relaxed);
    }

    /// How many lines, or calls of `log`, were dropped.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The lines of a text; at least one. A line that is too long is split between characters.
struct Lines<'a>(Option<&'a [u8]>);

impl<'a> Lines<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self(Some(text.strip_suffix(b"\n").unwrap_or(text)))
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.0?;
        let window = &rest[..rest.len().min(LINE_MAX + 1)];
        let (line, next) = match window.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&rest[..end], Some(&rest[end + 1..])),
            None if rest.len() <= LINE_MAX => (rest, None),
            None => {
                // At most three bytes of a character follow its first one.
                let is_inside = |at: &usize| rest[*at] & 0xc0 == 0x80;
                let back = (LINE_MAX - 3..=LINE_MAX).rev().find(|at| !is_inside(at));
                let (line, next) = rest.split_at(back.unwrap_or(LINE_MAX));
                (line, Some(next))
            }
        };
        self.0 = next;
        Some(line)
    }
}

/// Subtracts an amount, or nothing if there is less left. Only the thread that runs the guest writes to
/// these counters, so a load and a store cannot race.
fn take(left: &AtomicUsize, amount: usize) -> bool {
    match left.load(Ordering::Relaxed).checked_sub(amount) {
        Some(rest) => {
            left.store(rest, Ordering::Relaxed);
            true
        }
        None => false,
    }
}

/// The line without control characters except tabs.
fn printable(line: &str) -> Cow<'_, str> {
    let control = |c: char| c.is_control() && c != '\t';
    if line.contains(control) {
        Cow::Owned(line.chars().filter(|c| !control(*c)).collect())
    } else {
        Cow::Borrowed(line)
    }
}

/// Links the import.
pub(crate) fn link<T: HasLog>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap_async(NAMESPACE, LOG, |caller, (level, p, l)| {
        Box::new(log::<T>(caller, level, p, l))
    })?;
    Ok(())
}

async fn log<T: HasLog>(
    mut caller: Caller<'_, T>,
    level: u32,
    p: u32,
    l: u32,
) -> wasmtime::Result<()> {
    let view = view(&mut caller, LOG)?;
    let (text, log) = (view.read(p, l)?, Arc::clone(view.guest.log()));
    log.write_in_pieces(Level::from_abi(level), text).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<usize> {
        Lines::of(text).map(<[u8]>::len).collect()
    }

    #[test]
    fn a_text_has_at_least_one_line_and_long_lines_are_split_between_characters() {
        assert_eq!(lines(b""), [0]);
        assert_eq!(lines(b"\n"), [0]);
        assert_eq!(lines(b"a\n\nbc"), [1, 0, 2]);
        assert_eq!(lines(&[b'x'; LINE_MAX]), [LINE_MAX]);
        assert_eq!(lines(&[b'x'; LINE_MAX + 1]), [LINE_MAX, 1]);
        let wide = format!("x{}", "\u{20ac}".repeat(LINE_MAX / 3));
        assert_eq!(lines(wide.as_bytes()).iter().sum::<usize>(), wide.len());
        assert!(Lines::of(wide.as_bytes()).all(|line| std::str::from_utf8(line).is_ok()));
        assert_eq!(lines(&[0x80; LINE_MAX + 9]), [LINE_MAX, 9], "not UTF-8 at all");
    }
}
