//! What happened to each topic in the last ten minutes, for `/v1/topics`.

use std::collections::HashMap;

use duebox_job::TopicName;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::state::ServerState;
use crate::observe::history::{RATE_SECONDS, Recent};

/// Attempts of the last ten minutes.
#[derive(Default, Serialize, ToSchema)]
pub(super) struct RecentCounts {
    /// Attempts of any outcome.
    attempts: u32,
    /// Failed attempts.
    failed: u32,
    /// Jobs that became dead.
    died: u32,
    /// 99 of 100 attempts started at most so long after their due time; null without attempts.
    late_p99_ms: Option<f64>,
    /// 99 of 100 attempts ran at most so long; null without attempts.
    ran_p99_ms: Option<f64>,
}

/// What happened recently, by topic.
pub(super) struct RecentByTopic {
    by_topic: HashMap<TopicName, Recent>,
    /// The seconds of the rate; `None` in the first second.
    seconds: Option<f64>,
}

impl RecentByTopic {
    /// Reads the history.
    pub(super) fn read(server: &ServerState) -> Self {
        let (history, now_ms) = (&server.recorder.history, server.recorder.now_ms());
        let seconds = now_ms.saturating_sub(history.began_ms()) as f64 / 1_000.0;
        let seconds = (seconds >= 1.0).then_some(seconds.min(RATE_SECONDS));
        Self { by_topic: history.recent(now_ms), seconds }
    }

    /// The attempts per second over the last ten seconds, if known, and the last ten minutes of a topic.
    pub(super) fn of_topic(&self, name: &TopicName) -> (Option<f64>, RecentCounts) {
        let recent = self.by_topic.get(name).copied().unwrap_or_default();
        let tally = recent.sample.tally;
        let rate = self.seconds.map(|seconds| f64::from(recent.last.0) / seconds);
        let counts = RecentCounts {
            attempts: tally.attempts(),
            failed: tally.failed(),
            died: tally.dead(),
            late_p99_ms: tally.late_ms(0.99),
            ran_p99_ms: tally.ran_ms(0.99),
        };
        (rate, counts)
    }
}
