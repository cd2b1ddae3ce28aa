//! What a guest says. Every line that leaves here is one line of text without control characters,
//! and one job's lines together stay within its budget; what is over it is dropped and counted. The
//! budget bounds their number too: a line costs the daemon far more than its text.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duebox_job::{JobId, TopicName};

use crate::digest::Digest;
use crate::imports::log_tail::Tail;

/// How grave a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Something failed.
    Error,
    /// Something is odd; stderr of a WASI module.
    Warn,
    /// Something happened; stdout of a WASI module.
    Info,
    /// For who looks closer.
    Debug,
    /// For who looks closest.
    Trace,
}

impl Level {
    /// The level of an ABI number; above 4 is trace too.
    pub(crate) fn from_abi(level: u32) -> Self {
        match level {
            0 => Self::Error,
            1 => Self::Warn,
            2 => Self::Info,
            3 => Self::Debug,
            _ => Self::Trace,
        }
    }

    /// The level's name, lower case.
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

/// Which job, and which build of the handler, a line comes from.
#[derive(Debug, Clone, Copy)]
pub struct JobContext<'a> {
    /// The job's id.
    pub id: &'a JobId,
    /// Its topic.
    pub topic: &'a TopicName,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The module that runs it.
    pub digest: Digest,
}

/// Where lines go. Called while the guest waits, on its stack, of which 512 KiB are left: be quick,
/// do not block.
pub trait LogSink: Send + Sync {
    /// Takes one line: no line breaks, no control characters but tabs.
    fn line(&self, job: &JobContext<'_>, level: Level, text: &str);
}

/// Lines of a job whatever its budget, and bytes of budget for each line beyond them.
const LINES_FREE: usize = 64;
const BYTES_A_LINE: usize = 16;

/// One job's log.
pub(crate) struct JobLog {
    id: JobId,
    topic: TopicName,
    attempt: u32,
    digest: Digest,
    sink: Arc<dyn LogSink>,
    bytes_left: AtomicUsize,
    lines_left: AtomicUsize,
    dropped: AtomicU32,
    tail: Mutex<Tail>,
}

impl JobLog {
    pub(crate) fn new(
        id: JobId,
        topic: TopicName,
        attempt: u32,
        digest: Digest,
        sink: Arc<dyn LogSink>,
        budget: usize,
    ) -> Self {
        Self {
            id,
            topic,
            attempt,
            digest,
            sink,
            bytes_left: AtomicUsize::new(budget),
            lines_left: AtomicUsize::new(LINES_FREE + budget / BYTES_A_LINE),
            dropped: AtomicU32::new(0),
            tail: Mutex::default(),
        }
    }

    /// Takes what the guest says in one go, bad UTF-8 replaced; a line break in it makes more lines.
    /// It is dropped whole if its bytes are not left.
    pub(crate) fn say(&self, level: Level, text: &[u8]) {
        if !take(&self.bytes_left, text.len().max(1)) {
            return self.drop_one();
        }
        let text = String::from_utf8_lossy(text);
        let job = JobContext {
            id: &self.id,
            topic: &self.topic,
            attempt: self.attempt,
            digest: self.digest,
        };
        let mut tail = self.tail();
        for line in text.strip_suffix('\n').unwrap_or(&text).split('\n') {
            if take(&self.lines_left, 1) {
                let line = printable(line);
                tail.keep(level, &line);
                self.sink.line(&job, level, &line);
            } else {
                self.drop_one();
            }
        }
    }

    /// The last lines that were within the budget, each with its level before it; they are gone then.
    pub(crate) fn take_tail(&self) -> Vec<String> {
        self.tail().take()
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_one(&self) {
        let dropped = self.dropped.load(Ordering::Relaxed).saturating_add(1);
        self.dropped.store(dropped, Ordering::Relaxed);
    }

    /// How often something was dropped.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Takes an amount from what is left, or nothing if it is not there. Only the guest's own thread does,
/// so load and store cannot race.
fn take(left: &AtomicUsize, amount: usize) -> bool {
    match left.load(Ordering::Relaxed).checked_sub(amount) {
        Some(rest) => {
            left.store(rest, Ordering::Relaxed);
            true
        }
        None => false,
    }
}

/// The line without control characters; tabs stay.
fn printable(line: &str) -> Cow<'_, str> {
    let control = |c: char| c.is_control() && c != '\t';
    if line.contains(control) {
        Cow::Owned(line.chars().filter(|c| !control(*c)).collect())
    } else {
        Cow::Borrowed(line)
    }
}
