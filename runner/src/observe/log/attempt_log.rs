//! The log line of an attempt, written once its verdict is settled. It contains only costs that are not
//! zero.

use std::time::{Duration, Instant};

use duebox_job::{FailureClass, JobId, Outcome, TopicName};
use duebox_queue::Settled;
use duebox_sandbox::{AttemptTrace, Digest};
use tracing::{debug, info, warn};

use crate::monotonic;
use crate::observe::cost::Cost;

/// The target of these lines, which log filters name: it does not follow the module.
const TARGET: &str = "duebox::job";

/// One attempt that is over.
pub struct Record {
    /// The job.
    pub id: JobId,
    /// The attempt number, from 1.
    pub attempt: u32,
    /// Its outcome.
    pub outcome: Outcome,
    /// The module that ran it, if one did.
    pub digest: Option<Digest>,
    /// What it cost.
    pub cost: Cost,
    /// How long after its due time it started.
    pub late: Duration,
    /// When it started; for an attempt without a run, when it was refused.
    pub started_at: Instant,
    /// Its span and the spans of its host calls, if it is traced.
    pub traced: Option<Box<AttemptTrace>>,
    /// A release of a job that did not start in time. This is normal work and is logged at level debug.
    pub is_routine: bool,
}

impl Record {
    /// The record of an attempt that no module has run.
    pub fn not_run(id: JobId, attempt: u32, outcome: Outcome) -> Self {
        let (cost, late, started_at) = (Cost::default(), Duration::ZERO, monotonic::now());
        Self {
            id,
            attempt,
            outcome,
            digest: None,
            cost,
            late,
            started_at,
            traced: None,
            is_routine: false,
        }
    }

    /// The module, the outcome and the cost; `None` if no module ran.
    pub fn module_run(&self) -> Option<(Digest, &Outcome, &Cost)> {
        Some((self.digest?, &self.outcome, &self.cost))
    }

    /// The class of its failure, if it failed.
    pub fn class(&self) -> Option<FailureClass> {
        match &self.outcome {
            Outcome::Failed(failure) => Some(failure.class),
            Outcome::Acked | Outcome::Snoozed { .. } | Outcome::HostFault(_) => None,
        }
    }

    /// The verdict, the class of the failure, and the reason; the latter two may be empty.
    pub fn verdict_words(&self) -> (&'static str, &'static str, &str) {
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
