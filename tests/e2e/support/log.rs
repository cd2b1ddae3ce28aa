//! Reads the log of a daemon: settled verdicts and lines of handlers.

use std::collections::BTreeMap;

use duebox_harness::{Daemon, LogLine};

/// One settled attempt.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    pub(crate) topic: String,
    pub(crate) id: String,
    pub(crate) attempt: i64,
    /// The settlement: done, retry, dead, released …
    pub(crate) settled: String,
    pub(crate) class: String,
    pub(crate) digest: String,
}

/// One line that a handler logged.
#[derive(Debug, Clone)]
pub(crate) struct HandlerLine {
    pub(crate) topic: String,
    pub(crate) id: String,
    pub(crate) attempt: i64,
    pub(crate) text: String,
    /// The time in Unix milliseconds, rounded down.
    pub(crate) at_ms: i64,
}

/// Whether the line reports a settled attempt.
pub(crate) fn is_verdict(line: &LogLine) -> bool {
    line.message().starts_with("job ") && !line.str("verdict").is_empty()
}

/// Whether the line was logged by a handler.
pub(crate) fn is_handler_line(line: &LogLine) -> bool {
    line.has("target", "handler")
}

/// Whether the line reports a verdict that was refused because the lease was lost.
pub(crate) fn is_lost(line: &LogLine) -> bool {
    line.message().starts_with("the lease was gone")
}

/// Whether the line reports an attempt with this settlement.
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

/// The lines of handlers so far, in their order.
pub(crate) fn handler_lines(daemon: &Daemon) -> Vec<HandlerLine> {
    let read = |line: &LogLine| HandlerLine {
        topic: line.str("topic").to_owned(),
        id: line.str("job_id").to_owned(),
        attempt: line.number("attempt").unwrap(),
        text: line.message().to_owned(),
        at_ms: line.str("timestamp").parse::<jiff::Timestamp>().unwrap().as_millisecond(),
    };
    daemon.lines().iter().filter(|line| is_handler_line(line)).map(read).collect()
}

/// How often each id occurs.
pub(crate) fn tally<'v>(ids: impl Iterator<Item = &'v String>) -> BTreeMap<&'v str, usize> {
    let mut tally = BTreeMap::new();
    for id in ids {
        *tally.entry(id.as_str()).or_default() += 1;
    }
    tally
}
