//! The log line of an attempt, written once its verdict is settled. It contains only costs that are not
//! zero.

use std::time::Duration;

use duebox_job::TopicName;
use duebox_queue::Settled;
use tracing::{debug, info, warn};

use crate::observe::attempt_record::AttemptRecord;

/// The target of these lines, which log filters name: it does not follow the module.
const TARGET: &str = "duebox::job";

impl AttemptRecord {
    /// Writes the line.
    pub fn log(&self, topic: &TopicName, settled: Settled) {
        let (verdict, class, reason) = self.verdict_words();
        if settled == Settled::Lost {
            warn!(target: TARGET, %topic, job_id = %self.id, attempt = self.attempt, verdict,
                "the lease was lost before the verdict; another runner has the job, or settled it");
            return;
        }
        if self.is_routine && settled == Settled::Released {
            debug!(target: TARGET, %topic, job_id = %self.id, attempt = self.attempt, "job released: it did not start in time");
            return;
        }
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let digest = self.digest.map(|digest| digest.short()).unwrap_or_default();
        let cost = &self.cost;
        info!(
            target: TARGET, %topic, job_id = %self.id, attempt = self.attempt, verdict, class, reason,
            settled = settled.word(), digest,
            wall_ms = millis(cost.wall), late_ms = millis(self.late),
            cpu_ms = self.digest.map(|_| millis(cost.cpu)), memory_peak_bytes = if_any(cost.memory_peak),
            fuel = cost.fuel, host_calls = if_any(cost.host_calls),
            bytes_in = if_any(cost.bytes_in), bytes_out = if_any(cost.bytes_out),
            log_lines_dropped = if_any(cost.log_lines_dropped),
            "job {}", settled.word()
        );
    }
}

/// Omits counts of zero.
fn if_any(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

/// Milliseconds with three decimals.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}
