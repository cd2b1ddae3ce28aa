//! Watches the primaries of a cluster, and ends at once without one. It asks no server: the connections know.

use std::sync::Arc;
use std::time::Duration;

use duebox_queue::Queue;

use crate::redis_host::primaries::PrimaryOutages;

/// How often the connections are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Watches until the task is aborted.
pub async fn watch(queue: Queue, outages: Arc<PrimaryOutages>) {
    loop {
        let primaries = queue.cluster_primaries();
        if primaries.is_empty() {
            // One server, whose outages are those of Redis.
            std::future::pending::<()>().await;
        }
        outages.record(&primaries, &queue.primaries_away());
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
