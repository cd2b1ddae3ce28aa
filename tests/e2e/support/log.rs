//! What a daemon's log says happened to jobs: the verdicts it settled, and the lines of handlers.

use std::collections::BTreeMap;

use duebox_harness::{Daemon, LogLine};

/// One attempt that was settled.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    pub(crate) topic: String,
    pub(crate) id: String,
    pub(crate) attempt: i64,
    /// What the queue made of it: done, retry, dead, released …
    pub(crate) settled: String,
    pub(crate) class: String,
    pub(crate) digest: String,
}

/// One line that a handler logged.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) topic: String,
    pub(crate) id: String,
    pub(crate) attempt: i64,
    pub(crate) text: String,
    /// When, in unix milliseconds, a part of one cut off.
    pub(crate) at_ms: i64,
}

/// True for the line that tells how an attempt was settled.
pub(crate) fn is_verdict(line: &LogLine) -> bool {
    line.message().starts_with("job ") && !line.str("verdict").is_empty()
}

/// True for a line of a handler.
pub(crate) fn is_said(line: &LogLine) -> bool {
    line.has("target", "handler")
}

/// True for a verdict that was refused because the lease was gone.
pub(crate) fn is_lost(line: &LogLine) -> bool {
    line.message().starts_with("the lease was gone")
}

/// True for the verdict of an attempt that was settled so.
pub(crate) fn settled_as(line: &LogLine, settled: &str) -> bool {
    is_verdict(line) && line.has("settled", settled)
}

/// The verdicts so far, in their order.
pub(crate) fn verdicts(daemon: &Daemon) -> Vec<Verdict> {
    let read = |line: &LogLine| Verdict {
        topic: line.str("topic").to_owned(),
        id: line.str("job_id").to_owned(),
        attempt: line.number("attempt").unwrap(),
        settled: line.str("settled").to_owned(),
        class: line.str("class").to_owned(),
        digest: line.str("digest").to_owned(),
    };
    daemon.lines().iter().filter(|line| is_verdict(line)).map(read).collect()
}

/// What handlers said so far, in its order.
pub(crate) fn said(daemon: &Daemon) -> Vec<Said> {
    let read = |line: &LogLine| Said {
        topic: line.str("topic").to_owned(),
        id: line.str("job_id").to_owned(),
        attempt: line.number("attempt").unwrap(),
        text: line.message().to_owned(),
        at_ms: line.str("timestamp").parse::<jiff::Timestamp>().unwrap().as_millisecond(),
    };
    daemon.lines().iter().filter(|line| is_said(line)).map(read).collect()
}

/// How often each id stands here.
pub(crate) fn tally<'v>(ids: impl Iterator<Item = &'v String>) -> BTreeMap<&'v str, usize> {
    let mut tally = BTreeMap::new();
    for id in ids {
        *tally.entry(id.as_str()).or_default() += 1;
    }
    tally
}
