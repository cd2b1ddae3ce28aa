//! What the log says of one attempt, once the queue has its verdict: one line, at info. Of its cost it
//! says what is not zero.

use std::time::{Duration, Instant};

use duebox_job::{FailureClass, JobId, Outcome, TopicName};
use duebox_queue::Settled;
use duebox_sandbox::{AttemptTrace, Digest};
use tracing::{info, warn};

use crate::observe::cost::Cost;

/// One attempt that is over.
pub struct Record {
    /// The job.
    pub id: JobId,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// What came of it.
    pub outcome: Outcome,
    /// The module that ran it; none if none did.
    pub digest: Option<Digest>,
    /// What it cost.
    pub cost: Cost,
    /// How long after its due time it was started.
    pub late: Duration,
    /// When it was started; for one that no module has begun, when that was known.
    pub started_at: Instant,
    /// Its place in a trace and the calls below it, if it is recorded.
    pub traced: Option<Box<AttemptTrace>>,
}

impl Record {
    /// Of an attempt that no module has begun.
    pub fn not_run(id: JobId, attempt: u32, outcome: Outcome) -> Self {
        let (cost, late, started_at) = (Cost::default(), Duration::ZERO, Instant::now());
        Self { id, attempt, outcome, digest: None, cost, late, started_at, traced: None }
    }

    /// What came of it, and what it cost, by the module that ran it; none if none did.
    pub fn ran(&self) -> Option<(Digest, &Outcome, &Cost)> {
        Some((self.digest?, &self.outcome, &self.cost))
    }

    /// What it failed of, if it did.
    pub fn class(&self) -> Option<FailureClass> {
        match &self.outcome {
            Outcome::Failed(failure) => Some(failure.class),
            Outcome::Acked | Outcome::Snoozed { .. } | Outcome::HostFault(_) => None,
        }
    }

    /// The verdict, the class of a failure, and why; empty where there is nothing to say.
    pub fn said(&self) -> (&'static str, &'static str, &str) {
        match &self.outcome {
            Outcome::Acked => ("ack", "", ""),
            Outcome::Failed(failure) => {
                let class = failure.class.name();
                let verdict = if class == "drop" { "drop" } else { "nack" };
                (verdict, class, failure.reason.as_str())
            }
            Outcome::Snoozed { reason, .. } => ("snooze", "", reason.as_str()),
            Outcome::HostFault(reason) => ("release", "", reason.as_str()),
        }
    }

    /// Writes the line.
    pub fn log(&self, topic: &TopicName, settled: Settled) {
        let (verdict, class, reason) = self.said();
        if settled == Settled::Lost {
            warn!(%topic, job_id = %self.id, attempt = self.attempt, verdict,
                "the lease was gone when the verdict came; another runner has the job, or settled it");
            return;
        }
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let digest = self.digest.map(|digest| digest.short()).unwrap_or_default();
        let cost = &self.cost;
        info!(
            %topic, job_id = %self.id, attempt = self.attempt, verdict, class, reason,
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

/// A line says what there is to say.
fn if_any(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

/// Milliseconds with three decimals.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}
