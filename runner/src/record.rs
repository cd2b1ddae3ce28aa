//! What the log says of one attempt, once the queue has its verdict: one line, at info.

use std::time::Duration;

use duebox_job::{JobId, Outcome, TopicName};
use duebox_queue::Settled;
use duebox_sandbox::Digest;
use tracing::{info, warn};

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
    /// How long it ran.
    pub wall: Duration,
    /// How long after its due time it was started.
    pub late: Duration,
}

impl Record {
    /// Of an attempt that no module has begun.
    pub fn not_run(id: JobId, attempt: u32, outcome: Outcome) -> Self {
        let (wall, late) = (Duration::ZERO, Duration::ZERO);
        Self { id, attempt, outcome, digest: None, wall, late }
    }

    /// Writes the line.
    pub fn log(&self, topic: &TopicName, settled: Settled) {
        let (verdict, class, reason) = match &self.outcome {
            Outcome::Acked => ("ack", "", ""),
            Outcome::Failed(failure) => {
                let class = failure.class.name();
                let verdict = if class == "drop" { "drop" } else { "nack" };
                (verdict, class, failure.reason.as_str())
            }
            Outcome::Snoozed { reason, .. } => ("snooze", "", reason.as_str()),
            Outcome::HostFault(reason) => ("release", "", reason.as_str()),
        };
        if settled == Settled::Lost {
            warn!(%topic, job_id = %self.id, attempt = self.attempt, verdict,
                "the lease was gone when the verdict came; another runner has the job, or settled it");
            return;
        }
        let digest = self.digest.map(|digest| digest.short()).unwrap_or_default();
        info!(
            %topic, job_id = %self.id, attempt = self.attempt, verdict, class, reason,
            settled = settled.word(), digest,
            wall_ms = millis(self.wall), late_ms = millis(self.late),
            "job {}", settled.word()
        );
    }
}

/// Milliseconds with three decimals.
fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}
