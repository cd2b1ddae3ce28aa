//! A job that has run: its outcome, what it produced and what it cost.

use std::time::Instant;

use bytes::Bytes;
use duebox_job::{FollowUp, Outcome};
use duebox_sandbox::{AttemptTrace, Digest, RunReport};

use crate::observe::cost::Cost;

/// A job that has run.
pub struct EndedJob {
    /// The worker's key of the job.
    pub key: u64,
    /// Its outcome.
    pub outcome: Outcome,
    /// What it produced in addition to its outcome.
    pub output: AttemptOutput,
    /// The module that ran it.
    pub digest: Digest,
    /// When it was started.
    pub started_at: Instant,
    /// What it cost.
    pub cost: Cost,
    /// Whether its failure opened the topic's breaker.
    pub opened: bool,
}

/// What an attempt produces in addition to its outcome.
#[derive(Default)]
pub struct AttemptOutput {
    /// The result that its handler set.
    pub result: Option<Bytes>,
    /// The follow-up jobs that its handler asked for.
    pub follow_ups: Vec<FollowUp>,
    /// The error that ended the guest, with its backtrace.
    pub trace: Option<String>,
    /// The last lines of its log, if it failed.
    pub log_tail: Vec<String>,
    /// Its span and the spans of its host calls, if it is traced.
    pub traced: Option<Box<AttemptTrace>>,
}

impl AttemptOutput {
    /// The bytes of what is stored in Redis, about.
    pub(super) fn bytes(&self) -> usize {
        let follow_ups: usize = self.follow_ups.iter().map(FollowUp::bytes).sum();
        self.result.as_ref().map_or(0, Bytes::len) + follow_ups
    }

    pub(super) fn of(report: RunReport) -> (Outcome, Self) {
        let RunReport {
            outcome,
            result,
            follow_ups,
            backtrace: trace,
            log_tail,
            attempt_trace: traced,
            ..
        } = report;
        (outcome, Self { result, follow_ups, trace, log_tail, traced })
    }
}
