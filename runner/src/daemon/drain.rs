//! The drain: no new job is leased, running jobs may finish within `runner.drain_timeout`, and the others
//! are released.

use std::time::{Duration, Instant};

use tracing::info;

use super::served::Leaving;
use super::{Owned, Supervisor, redis, systemd};
use crate::observe::health::Phase;

/// How long a drain waits for Redis to remove this daemon's status.
const FORGET_MAX: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Drains, and stops everything that the supervisor owns.
    pub(super) async fn drain(self) {
        let Self { manifest, services, topics, owned, .. } = self;
        let Owned { managed, mut server, export_task, events_task, mut background } = owned;
        let drain_timeout = manifest.runner.drain_timeout;
        let began = Instant::now();
        services.records.health.enters(Phase::Draining);
        systemd::stopping(drain_timeout);
        let until = began + drain_timeout;
        info!("draining: jobs that have not started are released, running jobs may finish");
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
        tokio::join!(records.traces.stop(export_task), records.events.stop(events_task));
        background.shutdown().await;
        // Without a reply the status expires by itself.
        let forget = services.queue.remove_status(&services.runner_id);
        drop(tokio::time::timeout(FORGET_MAX, forget).await);
        redis::stop(managed).await;
        // Probes are answered until here.
        drop(server);
        info!(drain_ms = began.elapsed().as_millis() as u64, "drained");
    }
}
