//! Logs when writes do not have the copies that `redis.durability` demands, and when they have them again: one line
//! for each change, however many calls it meets.

use std::sync::Arc;

use duebox_queue::CopyStats;
use tracing::{info, warn};

/// Watches the copies until the task is aborted.
pub async fn run(stats: Arc<CopyStats>) {
    let mut missing = stats.missing();
    // It ends with the statistics, of which this task has a handle.
    while missing.changed().await.is_ok() {
        let lacks = missing.borrow_and_update().clone();
        match lacks {
            Some(lacks) => warn!(missing = %lacks,
                "writes are stored, but not as redis.durability demands: pushes are answered as unconfirmed"),
            None => info!("writes are stored as redis.durability demands again"),
        }
    }
}
