//! What is recorded of an attempt: the log line, events, spans, recent attempts and module stats are made from it.

use std::time::{Duration, Instant};

use duebox_job::{FailureClass, JobId, Outcome};
use duebox_sandbox::{AttemptTrace, Digest};

use super::cost::Cost;
use crate::monotonic;

/// One attempt that is over.
pub struct AttemptRecord {
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
    /// The number of attempts that the job has, if it failed.
    pub max_attempts: Option<u32>,
    /// How long after its verdict the next attempt is due, if there is one.
    pub next_in: Option<Duration>,
    /// The last lines of its log, if it failed.
    pub log: Vec<String>,
    /// When it started; for an attempt without a run, when it was refused.
    pub started_at: Instant,
    /// Its span and the spans of its host calls, if it is traced.
    pub traced: Option<Box<AttemptTrace>>,
    /// A release of a job that did not start in time. This is normal work and is logged at level debug.
    pub is_routine: bool,
}

impl AttemptRecord {
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
            max_attempts: None,
            next_in: None,
            log: Vec::new(),
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
}
