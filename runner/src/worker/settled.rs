//! Counts, logs and publishes what a turn has settled, while the next turn is at Redis or before the worker sleeps.

use duebox_queue::Settled;
use tracing::warn;

use super::Worker;
use super::unsettled::JudgedJob;
use crate::monotonic;
use crate::observe::log;

/// Jobs that a turn has settled.
pub(super) struct SettledJobs {
    pub(super) judged: Vec<JudgedJob>,
    /// What became of each.
    pub(super) became: Vec<Settled>,
}

impl Worker {
    /// Reports what the turn before has settled, if it is not reported yet.
    pub(super) fn report_settled(&mut self) {
        let Some(SettledJobs { judged, became }) = self.unreported.take() else { return };
        let attempts = judged.iter().map(|job| &job.record).zip(became.iter().copied());
        self.parts.stats.recent_attempts.add(attempts.clone());
        self.parts.stats.failure_reasons.add(attempts.clone().map(|(record, _)| record));
        let is_pressed = log::is_pressed();
        for (record, settled) in attempts {
            self.parts.stats.counters.count_settled(settled, record.class());
            self.parts.services.events.report_settled(self.parts.shard.topic(), record, settled);
            self.parts.services.traces.send_attempt(self.parts.shard.topic(), record, settled);
            if self.sampler.should_log(settled, is_pressed) {
                record.log(self.parts.shard.topic(), settled);
            }
        }
        if let Some(jobs) = self.sampler.take_omitted(monotonic::now()) {
            warn!(topic = %self.parts.shard.topic(), jobs,
                "acks were not logged: stderr is read too slowly");
        }
    }
}
