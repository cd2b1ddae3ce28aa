//! A job that has run: its outcome, what it produced and what it cost.

use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::{Failure, FailureClass, FollowUp, Outcome};
use duebox_sandbox::{AttemptTrace, Digest, RunReport};

use super::lease_number::LeaseNumber;
use crate::observe::cost::Cost;

/// A job that has run.
pub struct EndedJob {
    /// The job's lease.
    pub lease: LeaseNumber,
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

impl EndedJob {
    /// Whether it was acked after less CPU time.
    pub(super) fn is_acked_within(&self, cpu_time: Duration) -> bool {
        matches!(self.outcome, Outcome::Acked) && self.cost.cpu < cpu_time
    }
}

/// How often a job was snoozed, and how often it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snoozes {
    /// How often it was snoozed before this attempt.
    pub had: u32,
    /// How often it may be snoozed in all (`max_snoozes`).
    pub max: u32,
}

impl Snoozes {
    /// The outcome that counts: a snooze beyond the last one is a nack, for the queue and for everything that
    /// records or judges attempts.
    pub fn judge(self, outcome: Outcome) -> Outcome {
        let reason = match outcome {
            Outcome::Snoozed { reason, .. } if self.had >= self.max => reason,
            other => return other,
        };
        let spent = format!("it was snoozed as often as max_snoozes allows ({})", self.max);
        let reason = if reason.is_empty() { spent } else { format!("{spent}: {reason}") };
        Outcome::Failed(Failure { class: FailureClass::Nack, reason, retry_after: None })
    }
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
    /// What it read, in its stored form, if it is recorded and its job will be dead.
    pub recording: Option<Vec<u8>>,
}

impl AttemptOutput {
    /// The bytes of what is stored in Redis, about.
    pub(super) fn bytes(&self) -> usize {
        let follow_ups: usize = self.follow_ups.iter().map(FollowUp::bytes).sum();
        let recording = self.recording.as_ref().map_or(0, Vec::len);
        self.result.as_ref().map_or(0, Bytes::len) + follow_ups + recording
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
        (outcome, Self { result, follow_ups, trace, log_tail, traced, recording: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_snooze_beyond_the_last_one_is_a_nack() {
        let snoozed = |reason: &str| Outcome::Snoozed {
            delay: Duration::from_secs(1),
            reason: reason.to_owned(),
        };
        let allowed = Snoozes { had: 2, max: 3 }.judge(snoozed("busy"));
        assert!(matches!(allowed, Outcome::Snoozed { .. }));
        let spent = Snoozes { had: 3, max: 3 };
        assert!(matches!(spent.judge(Outcome::Acked), Outcome::Acked));
        for (said, ends) in [("busy", "allows (3): busy"), ("", "allows (3)")] {
            let Outcome::Failed(failure) = spent.judge(snoozed(said)) else { unreachable!() };
            assert_eq!((failure.class, failure.retry_after), (FailureClass::Nack, None));
            assert!(failure.reason.ends_with(ends), "{}", failure.reason);
        }
    }
}
