//! The watch over quiet shards: while Redis reports their next change, no poll asks for it.
//!
//! Each watch has a number of its own. A shard that an earlier one watched is not watched, so nothing is missed
//! when a connection is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use duebox_job::Shard;
use duebox_queue::ShardWatch;
use tokio::sync::Notify;

use super::wake_up::WakeUp;

/// How often the connection of a watch is checked: a network may lose it and tell neither end.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// The current watch, if there is one.
#[derive(Default)]
pub struct Watching {
    current: ArcSwapOption<Watch>,
    /// How many there have been.
    count: AtomicU64,
    begun: Notify,
}

/// A watch that reports changes to the listener of the wake-ups.
pub(super) struct Watch {
    /// At least 1.
    number: u64,
    shards: ShardWatch,
}

impl Watching {
    /// Replaces the current watch.
    pub(super) fn begin(&self, shards: Option<ShardWatch>) {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let watch = shards.map(|shards| Arc::new(Watch { number, shards }));
        let has_begun = watch.is_some();
        self.current.store(watch);
        if has_begun {
            self.begun.notify_one();
        }
    }

    /// Waits for the next watch, or returns at once if one has begun since the last call.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// Nothing is watched any more.
    pub(super) fn end(&self) {
        self.current.store(None);
    }

    pub(super) fn current(&self) -> Option<Arc<Watch>> {
        self.current.load_full()
    }

    /// Returns when the connection of the current watch carries no replies any more.
    pub(super) async fn until_silent(&self) {
        let Some(watch) = self.current() else { return std::future::pending().await };
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            if watch.shards.check().await.is_err() {
                return;
            }
        }
    }
}

impl Watch {
    pub(super) fn has(&self, wake_up: &WakeUp) -> bool {
        wake_up.is_watched_by(self.number)
    }

    /// Watches these shards from now on: what changes afterwards is reported. If Redis fails, they are not
    /// watched.
    pub(super) async fn begin(&self, some: &[(Shard, Arc<WakeUp>)]) {
        if some.is_empty() {
            return;
        }
        let shards: Vec<Shard> = some.iter().map(|(shard, _)| shard.clone()).collect();
        // Before Redis is asked: it may report a change at once.
        some.iter().for_each(|(_, wake_up)| wake_up.begin_watch(self.number));
        if self.shards.begin(&shards).await.is_err() {
            end(some);
        }
    }
}

/// Nothing reports changes of these shards any more.
pub(super) fn end(some: &[(Shard, Arc<WakeUp>)]) {
    for (_, wake_up) in some {
        wake_up.end_watch();
    }
}
