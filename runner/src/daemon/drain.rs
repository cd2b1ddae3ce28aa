//! The drain: no new job is leased, running jobs may finish within `runner.drain_timeout`, and the others
//! are released.

use std::time::{Duration, Instant};

use tracing::info;

use super::served::Leaving;
use super::{Owned, Supervisor, redis, systemd};
use crate::observe::health::Phase;

/// How long after its deadline a drain may still send what the daemon has recorded. During an outage of
/// Redis it is not sent.
const CLOSE_MAX: Duration = Duration::from_secs(1);
/// How long it may do so in any case.
const CLOSE_MIN: Duration = Duration::from_millis(100);

impl Supervisor {
    /// Drains, and stops everything that the supervisor owns.
    pub(super) async fn drain(self) {
        let Self { manifest, services, topics, owned, .. } = self;
        let Owned { managed, mut server, export_task, events_task, mut background } = owned;
        let drain_timeout = manifest.runner.drain_timeout;
        let began = Instant::now();
        services.records.health.enter(Phase::Draining);
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
        let is_outage = services.outage.is_ongoing();
        let records = &services.records;
        let close = async {
            tokio::join!(records.traces.stop(export_task), records.events.stop(events_task));
            background.shutdown().await;
            // Without a reply the status expires by itself.
            if !is_outage {
                if let Some(server) = &server {
                    server.publish_history().await;
                }
                drop(services.queue.remove_status(&services.runner_id).await);
            }
        };
        let close_by = if is_outage { until } else { until + CLOSE_MAX };
        let close_by = close_by.max(Instant::now() + CLOSE_MIN);
        drop(tokio::time::timeout_at(close_by.into(), close).await);
        redis::stop(managed).await;
        // Probes are answered until here.
        drop(server);
        info!(drain_ms = began.elapsed().as_millis() as u64, "drained");
    }
}
