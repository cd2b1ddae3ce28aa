//! The last attempts of a topic in this process, for the API and the page.
//!
//! A turn costs one lock and copies of at most [`KEPT`] attempts, however many it settled.

use std::collections::VecDeque;

use duebox_queue::Settled;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use super::attempt_record::AttemptRecord;
use super::log::attempt_log::millis;

/// Attempts kept of a topic.
const KEPT: usize = 20;
/// The longest reason, in bytes.
const REASON_MAX: usize = 256;

/// One attempt that is over.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = LatestAttempt)]
pub struct RecentAttempt {
    /// The job's id.
    id: String,
    /// When its verdict was settled, in unix ms of the local clock.
    at_ms: u64,
    /// The attempt number, from 1.
    attempt: u32,
    /// The verdict of the handler or of the runner: `ack`, `nack`, `drop`, `snooze`, `release`.
    verdict: &'static str,
    /// What became of the job: `done`, `retry`, `dead`, `snoozed`, `released` …
    settled: &'static str,
    /// The class of its failure; empty if it did not fail.
    class: &'static str,
    /// The reason, for people; at most 256 bytes.
    reason: String,
    /// The module that ran it, 64 hex digits.
    digest: Option<String>,
    /// How long it ran, in ms.
    wall_ms: f64,
    /// How long after its due time it started, in ms.
    late_ms: f64,
}

/// The last attempts of one topic in this process.
#[derive(Default)]
pub struct RecentAttempts(Mutex<VecDeque<RecentAttempt>>);

impl RecentAttempts {
    /// Adds settled attempts in the order in which they ended. A job released because it did not start in time has
    /// had no attempt and is left out.
    pub fn add<'r>(&self, attempts: impl DoubleEndedIterator<Item = (&'r AttemptRecord, Settled)>) {
        let attempts = attempts.rev().filter(|(record, _)| !record.is_routine);
        let last: Vec<_> = attempts.take(KEPT).collect();
        if last.is_empty() {
            return;
        }
        let at_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        let noted: Vec<RecentAttempt> = last
            .into_iter()
            .rev()
            .map(|(record, settled)| RecentAttempt::of(record, settled, at_ms))
            .collect();
        let mut kept = self.0.lock();
        let too_many = (kept.len() + noted.len()).saturating_sub(KEPT);
        kept.drain(..too_many);
        kept.extend(noted);
    }

    /// The attempts, the last one first.
    pub fn attempts(&self) -> Vec<RecentAttempt> {
        let kept = self.0.lock();
        kept.iter().rev().cloned().collect()
    }
}

impl RecentAttempt {
    fn of(record: &AttemptRecord, settled: Settled, at_ms: u64) -> Self {
        let (verdict, class, reason) = record.verdict_words();
        let end = reason.floor_char_boundary(REASON_MAX);
        Self {
            id: record.id.to_string(),
            at_ms,
            attempt: record.attempt,
            verdict,
            settled: settled.word(),
            class,
            reason: reason[..end].to_owned(),
            digest: record.digest.map(|digest| digest.to_string()),
            wall_ms: millis(record.cost.wall),
            late_ms: millis(record.late),
        }
    }
}

#[cfg(test)]
mod tests {
    use duebox_job::{Failure, FailureClass, JobId, Outcome};

    use super::*;

    fn record(number: usize, outcome: Outcome) -> AttemptRecord {
        AttemptRecord::not_run(JobId::from_redis(number.to_string()), 1, outcome)
    }

    #[test]
    fn the_last_attempts_are_kept_newest_first() {
        let recent = RecentAttempts::default();
        let many: Vec<AttemptRecord> =
            (0..1_000).map(|number| record(number, Outcome::Acked)).collect();
        recent.add(many.iter().map(|record| (record, Settled::Done)));
        let failure =
            Failure { class: FailureClass::Trap, reason: "ä".repeat(1_000), retry_after: None };
        let failed = record(1_000, Outcome::Failed(failure));
        recent.add([(&failed, Settled::Dead)].into_iter());
        recent.add([].into_iter());
        let kept = recent.attempts();
        assert_eq!((kept.len(), kept[0].id.as_str(), kept[19].id.as_str()), (20, "1000", "981"));
        assert_eq!((kept[0].class, kept[0].settled, kept[0].reason.len()), ("trap", "dead", 256));
        assert_eq!((kept[1].verdict, kept[1].settled), ("ack", "done"));
    }

    #[test]
    fn releases_of_unstarted_jobs_do_not_replace_attempts() {
        let recent = RecentAttempts::default();
        let acked = record(0, Outcome::Acked);
        recent.add([(&acked, Settled::Done)].into_iter());
        let release = |number| {
            let record = record(number, Outcome::HostFault("not started".to_owned()));
            AttemptRecord { is_routine: true, ..record }
        };
        let released: Vec<AttemptRecord> = (1..100).map(release).collect();
        recent.add(released.iter().map(|record| (record, Settled::Released)));
        let kept = recent.attempts();
        assert_eq!((kept.len(), kept[0].id.as_str()), (1, "0"));
    }
}
