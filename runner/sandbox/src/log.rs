//! What a guest says. Every line that leaves here is one line of text without control characters,
//! and one job's lines together stay within its budget; what is over it is dropped and counted.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use duebox_job::{JobId, TopicName};

use crate::digest::Digest;

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

/// One job's log.
pub(crate) struct JobLog {
    id: JobId,
    topic: TopicName,
    attempt: u32,
    digest: Digest,
    sink: Arc<dyn LogSink>,
    left: AtomicUsize,
    dropped: AtomicU32,
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
        let (left, dropped) = (AtomicUsize::new(budget), AtomicU32::new(0));
        Self { id, topic, attempt, digest, sink, left, dropped }
    }

    /// Takes what the guest says in one go, bad UTF-8 replaced; a line break in it makes more lines.
    pub(crate) fn say(&self, level: Level, text: &[u8]) {
        if !self.spend(text.len()) {
            return;
        }
        let text = String::from_utf8_lossy(text);
        let job = JobContext {
            id: &self.id,
            topic: &self.topic,
            attempt: self.attempt,
            digest: self.digest,
        };
        let text = text.strip_suffix('\n').unwrap_or(&text);
        for line in text.split('\n') {
            self.sink.line(&job, level, &printable(line));
        }
    }

    /// Takes the bytes of a text from the budget; false, and counted, if they are not left.
    fn spend(&self, bytes: usize) -> bool {
        // Only the guest's own thread spends, so load and store cannot race.
        let left = self.left.load(Ordering::Relaxed);
        match left.checked_sub(bytes.max(1)) {
            Some(rest) => {
                self.left.store(rest, Ordering::Relaxed);
                true
            }
            None => {
                let dropped = self.dropped.load(Ordering::Relaxed).saturating_add(1);
                self.dropped.store(dropped, Ordering::Relaxed);
                false
            }
        }
    }

    /// How often something was dropped.
    pub(crate) fn dropped(&self) -> u32 {
        self.dropped.load(Ordering::Relaxed)
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
