//! A wake-up: tells a worker that its topic has work, now or soon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use duebox_job::Shard;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The wake-up of each worker, sorted by the name of its shard.
pub type WakeUps = Arc<ArcSwap<Vec<(Shard, Arc<WakeUp>)>>>;

/// Wakes one sleeping worker. Of several wake-ups the earliest counts.
pub struct WakeUp {
    notify: Notify,
    look_at: Mutex<Option<Instant>>,
    /// The last look found no work for the next moments. True before the first look.
    is_quiet: AtomicBool,
    /// The number of the watch that reports changes of the shard; 0 if none does.
    watched_by: AtomicU64,
}

impl Default for WakeUp {
    fn default() -> Self {
        Self {
            notify: Notify::default(),
            look_at: Mutex::default(),
            is_quiet: AtomicBool::new(true),
            watched_by: AtomicU64::new(0),
        }
    }
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

    /// Whether the last look found no work for the next moments.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_quiet.load(Ordering::Relaxed)
    }

    /// Records what a look found.
    pub(super) fn set_quiet(&self, is_quiet: bool) {
        self.is_quiet.store(is_quiet, Ordering::Relaxed);
    }

    /// The watch of this number reports the next change of the shard.
    pub(super) fn begin_watch(&self, number: u64) {
        self.watched_by.store(number, Ordering::SeqCst);
    }

    /// Whether a watch reports the next change of the shard.
    pub(super) fn is_watched(&self) -> bool {
        self.watched_by.load(Ordering::SeqCst) != 0
    }

    /// Whether the watch of this number reports the next change of the shard.
    pub(super) fn is_watched_by(&self, number: u64) -> bool {
        self.watched_by.load(Ordering::SeqCst) == number
    }

    /// Nothing reports changes of the shard any more. Whether something did.
    pub(super) fn end_watch(&self) -> bool {
        self.watched_by.swap(0, Ordering::SeqCst) != 0
    }
}
