//! The last attempts of a topic in this process, for the API and the page; and of its last failed attempts also the
//! last lines of their logs, so that a job's timeline has several attempts with their logs.
//!
//! A turn costs one lock and copies of at most [`KEPT`] attempts and [`FAILED_KEPT`] failed ones, however many it settled.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use duebox_queue::Settled;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use super::attempt_record::AttemptRecord;
use super::log::attempt_log::millis;

/// Attempts kept of a topic.
const KEPT: usize = 20;
/// Failed attempts kept of a topic, with their logs.
const FAILED_KEPT: usize = 64;
/// The longest log of an attempt that is kept, in bytes; of a longer one its end.
const LOG_MAX: usize = 4 << 10;
/// The logs of a topic, and of all topics of this process, in bytes.
const TOPIC_LOGS_MAX: usize = 64 << 10;
const LOGS_MAX: usize = 4 << 20;
/// The bytes of all logs that are kept now.
static LOG_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The longest reason, in bytes.
const REASON_MAX: usize = 256;

/// One attempt that is over.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = LatestAttempt)]
pub struct RecentAttempt {
    /// The job's id.
    pub(crate) id: String,
    /// When its verdict was settled, in unix ms of the local clock.
    pub(crate) at_ms: u64,
    /// The attempt number, from 1.
    pub(crate) attempt: u32,
    /// The verdict of the handler or of the runner: `ack`, `nack`, `drop`, `snooze`, `release`.
    pub(crate) verdict: &'static str,
    /// What became of the job: `done`, `retry`, `dead`, `snoozed`, `released` …
    pub(crate) settled: &'static str,
    /// The class of its failure; empty if it did not fail.
    pub(crate) class: &'static str,
    /// The reason, for people; at most 256 bytes.
    pub(crate) reason: String,
    /// The module that ran it, 64 hex digits.
    pub(crate) digest: Option<String>,
    /// How long it ran, in ms.
    pub(crate) wall_ms: f64,
    /// How long after its due time it started, in ms.
    pub(crate) late_ms: f64,
}

/// A failed attempt with the end of its log.
#[derive(Debug, Clone, PartialEq)]
pub struct FailedAttempt {
    /// The attempt.
    pub attempt: RecentAttempt,
    /// The last lines of its log.
    pub log: Vec<String>,
    /// True if earlier lines are not kept.
    pub is_cut: bool,
}

/// The last attempts of one topic in this process.
#[derive(Default)]
pub struct RecentAttempts(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    last: VecDeque<RecentAttempt>,
    failed: VecDeque<FailedAttempt>,
    log_bytes: usize,
}

impl RecentAttempts {
    /// Adds settled attempts in the order in which they ended. A job released because it did not start in time has
    /// had no attempt and is left out.
    pub fn add<'r>(&self, attempts: impl DoubleEndedIterator<Item = (&'r AttemptRecord, Settled)>) {
        let attempts: Vec<_> = attempts.rev().filter(|(record, _)| !record.is_routine).collect();
        if attempts.is_empty() {
            return;
        }
        let at_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        let noted = |(record, settled): &(&AttemptRecord, Settled)| {
            RecentAttempt::of(record, *settled, at_ms)
        };
        let last: Vec<_> = attempts.iter().take(KEPT).map(noted).collect();
        let failed = attempts.iter().filter(|(record, _)| record.class().is_some());
        let failed: Vec<_> =
            failed.take(FAILED_KEPT).map(|one| FailedAttempt::of(noted(one), &one.0.log)).collect();
        let mut kept = self.0.lock();
        let too_many = (kept.last.len() + last.len()).saturating_sub(KEPT);
        kept.last.drain(..too_many);
        kept.last.extend(last.into_iter().rev());
        failed.into_iter().rev().for_each(|attempt| kept.add_failed(attempt));
    }

    /// The attempts, the last one first.
    pub fn attempts(&self) -> Vec<RecentAttempt> {
        let kept = self.0.lock();
        kept.last.iter().rev().cloned().collect()
    }

    /// The attempts of one job, the earliest first; of failed ones with their logs.
    pub fn of_job(&self, id: &str) -> Vec<FailedAttempt> {
        let kept = self.0.lock();
        let last = kept.last.iter().filter(|attempt| attempt.id == id && attempt.class.is_empty());
        let bare = |attempt: &RecentAttempt| FailedAttempt {
            attempt: attempt.clone(),
            log: Vec::new(),
            is_cut: false,
        };
        let failed = kept.failed.iter().filter(|failed| failed.attempt.id == id).cloned();
        let mut all: Vec<FailedAttempt> = failed.chain(last.map(bare)).collect();
        all.sort_by_key(|failed| failed.attempt.at_ms);
        all
    }
}

impl Kept {
    /// Adds a failed attempt. Earlier ones are dropped as far as they exceed the number and the bytes; where the
    /// logs of all topics are at their limit, it is kept without its log.
    fn add_failed(&mut self, mut failed: FailedAttempt) {
        while self.failed.len() >= FAILED_KEPT
            || (!self.failed.is_empty() && self.log_bytes + failed.log_bytes() > TOPIC_LOGS_MAX)
        {
            self.drop_first();
        }
        let bytes = failed.log_bytes();
        if LOG_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes > LOGS_MAX {
            LOG_BYTES.fetch_sub(bytes, Ordering::Relaxed);
            failed.is_cut |= !failed.log.is_empty();
            failed.log = Vec::new();
        }
        self.log_bytes += failed.log_bytes();
        self.failed.push_back(failed);
    }

    fn drop_first(&mut self) {
        let bytes = self.failed.pop_front().map_or(0, |failed| failed.log_bytes());
        self.log_bytes -= bytes;
        LOG_BYTES.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        LOG_BYTES.fetch_sub(self.log_bytes, Ordering::Relaxed);
    }
}

impl FailedAttempt {
    /// An attempt with the last lines of a log, as far as they fit.
    fn of(attempt: RecentAttempt, log: &[String]) -> Self {
        let mut bytes = 0;
        let fitting = log.iter().rev().take_while(|line| {
            bytes += line.len();
            bytes <= LOG_MAX
        });
        let first = log.len() - fitting.count();
        Self { attempt, log: log[first..].to_vec(), is_cut: first > 0 }
    }

    fn log_bytes(&self) -> usize {
        self.log.iter().map(String::len).sum()
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

    /// A failed attempt of a job with log lines of so many bytes.
    fn failed(id: usize, number: u32, lines: usize, bytes: usize) -> AttemptRecord {
        let failure =
            Failure { class: FailureClass::Nack, reason: "shut".to_owned(), retry_after: None };
        let log = vec!["x".repeat(bytes); lines];
        AttemptRecord { attempt: number, log, ..record(id, Outcome::Failed(failure)) }
    }

    #[test]
    fn failed_attempts_keep_the_end_of_their_logs_within_the_bounds() {
        let recent = RecentAttempts::default();
        let add = |record: &AttemptRecord| recent.add([(record, Settled::Retry)].into_iter());
        add(&failed(1, 1, 2, 10));
        add(&failed(1, 2, 10, 1_000));
        // Acked attempts of other jobs do not replace them.
        let many: Vec<AttemptRecord> =
            (100..1_000).map(|number| record(number, Outcome::Acked)).collect();
        recent.add(many.iter().map(|record| (record, Settled::Done)));
        let job = recent.of_job("1");
        let kept =
            |failed: &FailedAttempt| (failed.attempt.attempt, failed.log.len(), failed.is_cut);
        assert_eq!(job.iter().map(kept).collect::<Vec<_>>(), [(1, 2, false), (2, 4, true)]);
        assert_eq!((recent.of_job("999").len(), recent.of_job("2").len()), (1, 0));
        for number in 2..200 {
            add(&failed(number, 1, 4, 1_000));
        }
        assert!(recent.of_job("1").is_empty());
        let state = recent.0.lock();
        assert_eq!((state.failed.len(), state.log_bytes), (16, 64_000));
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
