//! A wake-up: tells a worker that its topic has work, now or soon.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use duebox_job::Shard;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The wake-up of each worker, sorted by the name of its shard.
pub type WakeUps = Arc<ArcSwap<Vec<(Shard, Arc<WakeUp>)>>>;

/// Wakes one sleeping worker. Of several wake-ups the earliest counts.
#[derive(Default)]
pub struct WakeUp {
    notify: Notify,
    look_at: Mutex<Option<Instant>>,
}

impl WakeUp {
    /// Reports work at `when`.
    pub fn notify_at(&self, when: Instant) {
        let mut look_at = self.look_at.lock();
        if look_at.is_none_or(|known| when < known) {
            *look_at = Some(when);
            self.notify.notify_one();
        }
    }

    /// Waits for a wake-up, and returns when there is work.
    pub async fn notified(&self) -> Instant {
        loop {
            let look_at = self.look_at.lock().take();
            match look_at {
                Some(when) => return when,
                None => self.notify.notified().await,
            }
        }
    }
}
