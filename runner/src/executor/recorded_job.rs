//! A job whose attempt is recorded, because its topic has `record = "failures"`.

use std::sync::Arc;

use duebox_job::Outcome;
use duebox_sandbox::{Handler, HostServices, Invocation, RunReport};
use jiff::Timestamp;

use super::Snoozes;
use crate::manifest::{RecordPolicy, Topic};
use crate::observe::recording::{Recorder, Recording};
use crate::observe::redaction::Redaction;

/// A job that is recorded while it runs.
pub(super) struct RecordedJob {
    job: Invocation,
    recorder: Arc<Recorder>,
    started_at_ms: u64,
}

impl RecordedJob {
    /// Begins to record; `None` if the topic records nothing.
    pub(super) fn begin(topic: &Topic, job: &Invocation) -> Option<Self> {
        (topic.record == RecordPolicy::Failures).then(|| Self {
            job: job.clone(),
            recorder: Arc::default(),
            started_at_ms: u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0),
        })
    }

    /// The host services, with the recorder.
    pub(super) fn services(&self, services: &HostServices) -> Arc<HostServices> {
        let recorder = Arc::clone(&self.recorder);
        Arc::new(HostServices { interceptor: Some(recorder), ..services.clone() })
    }

    /// The recording in its stored form, if the job will be dead.
    pub(super) fn finish(
        self,
        report: &RunReport,
        snoozes: Snoozes,
        topic: &Topic,
        handler: &Handler,
    ) -> Option<Vec<u8>> {
        let Outcome::Failed(failure) = snoozes.judge(report.outcome.clone()) else { return None };
        let (attempt, max_attempts) = (self.job.attempt, self.job.max_attempts);
        topic.is_fatal(failure.class, attempt, max_attempts).then(|| {
            let redaction = Redaction::of_config(handler.config(), &topic.secrets);
            let run = (&*self.recorder, report);
            let module = (handler.digest(), handler.snapshot_seed());
            Recording::new(&self.job, module, self.started_at_ms, run, &redaction).to_json()
        })
    }
}
