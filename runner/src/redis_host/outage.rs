//! An outage of Redis, as the log tells it: once when it begins and once when it is over, however
//! many workers notice.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use duebox_queue::QueueError;
use tracing::{info, warn};

/// The first wait before Redis is asked again.
pub const RETRY_FIRST: Duration = Duration::from_millis(50);
/// The longest wait before Redis is asked again.
pub const RETRY_MAX: Duration = Duration::from_secs(2);

/// What is known of the connection to Redis, shared by all who use it.
#[derive(Default)]
pub struct Outage {
    since: Mutex<Option<Instant>>,
}

impl Outage {
    /// True while Redis fails, as far as anybody noticed.
    pub fn lasts(&self) -> bool {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Redis did not do what it was asked.
    pub fn noticed(&self, error: &QueueError) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.is_none() {
            *since = Some(Instant::now());
            warn!(%error, "Redis fails; jobs wait and verdicts are kept until it is back");
        }
    }

    /// Redis answered.
    pub fn over(&self) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(since) = since.take() {
            info!(outage_ms = since.elapsed().as_millis() as u64, "Redis is back");
        }
    }
}

/// The wait after a failed try: doubled each time, and spread so that workers do not come as one.
pub fn next_retry(last: Duration) -> Duration {
    (last * 2).min(RETRY_MAX).mul_f64(0.75 + 0.5 * fastrand::f64())
}
