//! Outages of Redis. The log reports an outage once when it begins and once when it ends, however many
//! workers notice it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use duebox_queue::QueueError;
use tracing::{info, warn};

/// The first wait before a retry.
pub const RETRY_FIRST: Duration = Duration::from_millis(50);
/// The longest wait before a retry, without jitter.
pub const RETRY_MAX: Duration = Duration::from_secs(2);

/// Whether Redis is available, shared by all its users in this process.
#[derive(Default)]
pub struct Outage {
    since: Mutex<Option<Instant>>,
}

impl Outage {
    /// Whether an outage was noticed and is not over.
    pub fn lasts(&self) -> bool {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Records that a command failed.
    pub fn noticed(&self, error: &QueueError) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.is_none() {
            *since = Some(Instant::now());
            warn!(%error, "Redis fails; jobs wait and verdicts are kept until it is back");
        }
    }

    /// Records that a command succeeded.
    pub fn over(&self) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = since.take() {
            info!(outage_ms = since.elapsed().as_millis() as u64, "Redis is back");
        }
    }
}

/// The wait after a failed retry: doubled each time, with jitter so that workers do not retry together.
pub fn next_retry(last: Duration) -> Duration {
    (last * 2).min(RETRY_MAX).mul_f64(0.75 + 0.5 * fastrand::f64())
}
