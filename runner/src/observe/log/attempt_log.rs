//! The log line of an attempt, written once its verdict is settled, and of a job whose lease expired: at level info,
//! an attempt that failed at warn, a job that died at error. It contains no empty field, and no cost that is zero.

use std::fmt;
use std::time::Duration;

use duebox_job::{FailureClass, JobId, TopicName, format_duration};
use duebox_queue::Settled;
use tracing::{debug, error, info, warn};

use crate::millis::{exact_millis, millis};
use crate::observe::attempt_record::AttemptRecord;

/// The target of these lines, which log filters name: it does not follow the module.
const TARGET: &str = "duebox::job";

/// The target of traces: at level debug, because a trace has many lines.
const TRACE_TARGET: &str = "duebox::trace";

/// Logs the trace of a guest that trapped: its calls, innermost first.
pub fn log_trace(topic: &TopicName, id: &JobId, attempt: u32, trace: &str) {
    debug!(target: TRACE_TARGET, %topic, job_id = %id, attempt, trace, "trace of the attempt");
}

/// Writes the line of a settled attempt at a level.
macro_rules! line {
    ($log:ident, $record:ident, $topic:ident, $settled:ident) => {{
        let (verdict, class, reason) = $record.verdict_words();
        let cost = &$record.cost;
        $log!(
            target: TARGET, topic = %$topic, job_id = %$record.id, attempt = $record.attempt, verdict,
            class = if_text(class), reason = if_text(reason), settled = $settled.word(),
            next_attempt_in_ms = $record.next_attempt($settled).map(exact_millis),
            digest = $record.digest.map(|digest| tracing::field::display(digest.short())),
            wall_ms = exact_millis(cost.wall), late_ms = exact_millis($record.late),
            cpu_ms = $record.digest.map(|_| exact_millis(cost.cpu)),
            memory_peak_bytes = if_any(cost.memory_peak),
            fuel = cost.fuel, host_calls = if_any(cost.host_calls),
            bytes_in = if_any(cost.bytes_in), bytes_out = if_any(cost.bytes_out),
            log_lines_dropped = if_any(cost.log_lines_dropped),
            "{}", $record.describe($settled)
        );
    }};
}

impl AttemptRecord {
    /// Writes the line.
    pub fn log(&self, topic: &TopicName, settled: Settled) {
        let (verdict, ..) = self.verdict_words();
        if settled == Settled::Lost {
            warn!(target: TARGET, %topic, job_id = %self.id, attempt = self.attempt, verdict,
                "the lease was lost before the verdict; another runner has the job, or settled it");
            return;
        }
        if self.is_routine && settled == Settled::Released {
            debug!(target: TARGET, %topic, job_id = %self.id, attempt = self.attempt, "job released: it did not start in time");
            return;
        }
        match (settled, self.class()) {
            (Settled::Dead, _) => line!(error, self, topic, settled),
            (Settled::Retry | Settled::Discarded, Some(_)) => line!(warn, self, topic, settled),
            _ => line!(info, self, topic, settled),
        }
    }

    /// When the next attempt is due, if this one is followed by another.
    fn next_attempt(&self, settled: Settled) -> Option<Duration> {
        let is_followed = matches!(settled, Settled::Retry | Settled::Snoozed | Settled::Released);
        self.next_in.filter(|_| is_followed)
    }

    /// What became of the job, for people.
    fn describe(&self, settled: Settled) -> Description<'_> {
        Description { record: self, settled }
    }
}

/// What became of a job, as the text of its line: written into the line itself, since there is one for each job.
struct Description<'a> {
    record: &'a AttemptRecord,
    settled: Settled,
}

impl fmt::Display for Description<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, settled } = *self;
        write!(to, "job {}", settled.word())?;
        if let (Some(max), Some(_)) = (record.max_attempts, record.class()) {
            write!(to, ": attempt {} of {max} failed", record.attempt)?;
        }
        let Some(next_in) = record.next_attempt(settled) else { return Ok(()) };
        // Milliseconds of a long wait tell nothing; the field has them.
        let ms = millis(next_in);
        let ms = if ms < 10_000 { ms } else { ms - ms % 1_000 };
        write!(to, ", the next one is in {}", format_duration(Duration::from_millis(ms)))
    }
}

/// Writes the line of a job whose lease expired.
pub fn log_reclaimed(topic: &TopicName, id: &JobId, became: Settled) {
    let (class, settled) = (FailureClass::Crashed.name(), became.word());
    match became {
        Settled::Dead => error!(target: TARGET, %topic, job_id = %id, class, settled,
            "job dead: its runners died or lost the lease as often as max_crashes allows"),
        Settled::Discarded => warn!(target: TARGET, %topic, job_id = %id, class, settled,
            "job discarded: its runners died or lost the lease as often as max_crashes allows"),
        _ => info!(target: TARGET, %topic, job_id = %id, settled,
            "reclaimed: its runner died or lost the lease; no attempt is spent"),
    }
}

/// Omits empty texts.
fn if_text(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Omits counts of zero.
fn if_any(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

#[cfg(test)]
mod tests {
    use duebox_job::{Failure, Outcome};

    use super::*;

    fn failed(next_in: Option<Duration>) -> AttemptRecord {
        let (class, reason) = (FailureClass::Trap, "unreachable".to_owned());
        let outcome = Outcome::Failed(Failure { class, reason, retry_after: None });
        let record = AttemptRecord::not_run(JobId::from_redis("42"), 2, outcome);
        AttemptRecord { max_attempts: Some(5), next_in, ..record }
    }

    #[test]
    fn a_retried_job_tells_when_its_next_attempt_is() {
        let minutes = Some(Duration::from_secs(120));
        let text = failed(minutes).describe(Settled::Retry).to_string();
        assert_eq!(text, "job retry: attempt 2 of 5 failed, the next one is in 2m");
        assert_eq!(
            failed(minutes).describe(Settled::Dead).to_string(),
            "job dead: attempt 2 of 5 failed"
        );
        let acked = AttemptRecord::not_run(JobId::from_redis("42"), 1, Outcome::Acked);
        assert_eq!(acked.describe(Settled::Done).to_string(), "job done");
        let snoozed = AttemptRecord { next_in: minutes, ..acked };
        assert_eq!(
            snoozed.describe(Settled::Snoozed).to_string(),
            "job snoozed, the next one is in 2m"
        );
    }
}
