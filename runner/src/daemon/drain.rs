//! The drain: nothing new is leased, what runs may finish within `runner.drain_timeout`, and the rest is given
//! back to Redis.

use std::time::{Duration, Instant};

use tracing::info;

use super::served::Leaving;
use super::{Owned, Supervisor, redis, systemd};
use crate::observe::health::Phase;

/// How long a drain waits for Redis to remove the status of this daemon.
const FORGET_MAX: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Drains, and stops all that the supervisor owns.
    pub(super) async fn drain(self) {
        let Self { manifest, services, topics, owned, .. } = self;
        let Owned { managed, mut server, exporting, telling, mut background } = owned;
        let drain_timeout = manifest.runner.drain_timeout;
        let began = Instant::now();
        services.records.health.enters(Phase::Draining);
        systemd::stopping(drain_timeout);
        let until = began + drain_timeout;
        info!("draining: what has not started is given back, what runs may finish");
        let all: Vec<Leaving> = topics.leave_all(until);
        let close = async {
            if let Some(server) = &mut server {
                server.drain(until.saturating_duration_since(Instant::now())).await;
            }
        };
        let end = async {
            for leaving in all {
                leaving.ended().await;
            }
        };
        tokio::join!(close, end);
        let records = &services.records;
        tokio::join!(records.traces.stop(exporting), records.events.stop(telling));
        background.shutdown().await;
        // Without an answer the status lapses by itself.
        let forget = services.queue.remove_status(&services.runner_id);
        drop(tokio::time::timeout(FORGET_MAX, forget).await);
        redis::stop(managed).await;
        // Probes were answered until now.
        drop(server);
        info!(drain_ms = began.elapsed().as_millis() as u64, "drained");
    }
}
