//! Outages of Redis. The log reports an outage once when it begins and once when it ends, however many
//! workers notice it. Its end wakes all that wait for Redis.

use std::pin::pin;
use std::time::{Duration, Instant};

use duebox_queue::QueueError;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{info, warn};

use crate::monotonic;

/// The first wait before a retry, and the shortest one.
pub const RETRY_FIRST: Duration = Duration::from_millis(50);
/// The longest wait before a retry, without jitter.
pub const RETRY_MAX: Duration = Duration::from_secs(2);

/// Whether Redis is available, shared by all its users in this process.
#[derive(Default)]
pub struct Outage {
    state: Mutex<OutageState>,
    /// Wakes in the order of waiting. A watch channel does not, and a simulation must repeat.
    changed: Notify,
}

#[derive(Default)]
struct OutageState {
    /// When the outage that lasts was noticed.
    since: Option<Instant>,
    /// It is an error of the connection, not of a command.
    is_disconnected: bool,
    /// Redis refuses commands that write: it is a replica, or out of memory, for example.
    refuses_writes: bool,
    /// How often Redis may have lost its data.
    losses: u64,
}

impl Outage {
    /// Whether an outage was noticed and is not over.
    pub fn is_ongoing(&self) -> bool {
        self.state.lock().since.is_some()
    }

    /// Records that a command failed.
    pub fn record_error(&self, error: &QueueError) {
        let is_disconnected = error.is_disconnected();
        let mut state = self.state.lock();
        if state.since.is_none() {
            state.since = Some(monotonic::now());
            warn!(%error, "Redis fails; jobs wait and verdicts are kept until it is back");
        }
        let refuses_writes = matches!(error, QueueError::Refused(_));
        let is_worse =
            is_disconnected && !state.is_disconnected || refuses_writes && !state.refuses_writes;
        state.is_disconnected |= is_disconnected;
        state.refuses_writes |= refuses_writes;
        drop(state);
        if is_worse {
            self.changed.notify_waiters();
        }
    }

    /// Records that commands that write succeeded.
    pub fn record_write(&self) {
        if self.is_ongoing() {
            self.end();
        }
    }

    /// Records that a command that only reads succeeded. This ends an outage, unless Redis refuses to
    /// write.
    pub fn record_read(&self) {
        let ends = {
            let state = self.state.lock();
            state.since.is_some() && !state.refuses_writes
        };
        if ends {
            self.end();
        }
    }

    /// Records that the connection was lost and made again. This ends an outage, unless Redis refuses
    /// commands.
    pub fn record_reconnect(&self) {
        let refuses = {
            let state = self.state.lock();
            state.since.is_some() && !state.is_disconnected
        };
        if !refuses {
            self.end();
        }
    }

    fn end(&self) {
        let (mut state, now) = (self.state.lock(), monotonic::now());
        if let Some(since) = state.since.take() {
            state.losses += 1;
            info!(outage_ms = (now - since).as_millis() as u64, "Redis is back");
        }
        state.is_disconnected = false;
        state.refuses_writes = false;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Records that Redis may have lost what this daemon has written.
    pub fn data_may_be_lost(&self) {
        self.state.lock().losses += 1;
        self.changed.notify_waiters();
    }

    /// How often Redis may have lost its data so far.
    pub fn losses(&self) -> u64 {
        self.state.lock().losses
    }

    /// Waits until Redis may have lost its data more often than this.
    pub async fn lost_data_again(&self, losses: u64) {
        self.wait_for(|state| state.losses > losses).await;
    }

    /// Waits until the connection to Redis fails, or Redis refuses to write.
    pub async fn begins(&self) {
        self.wait_for(|state| state.is_disconnected || state.refuses_writes).await;
    }

    /// Waits until no outage lasts.
    pub async fn ends(&self) {
        self.wait_for(|state| state.since.is_none()).await;
    }

    /// Waits before a retry: at most for `longest`, and not longer than the outage lasts.
    pub async fn wait(&self, longest: Duration) {
        let shortest = longest.min(RETRY_FIRST);
        tokio::time::sleep(shortest).await;
        tokio::select! {
            biased;
            () = tokio::time::sleep(longest.saturating_sub(shortest)) => {}
            () = self.ends() => {}
        }
    }

    async fn wait_for(&self, is_met: impl Fn(&OutageState) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            if is_met(&self.state.lock()) {
                return;
            }
            changed.await;
        }
    }
}

/// The wait after a failed retry: doubled each time, with jitter so that workers do not retry together.
pub fn next_retry(last: Duration) -> Duration {
    (last * 2).min(RETRY_MAX).mul_f64(0.75 + 0.5 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn no_reply() -> QueueError {
        QueueError::NoReply("gone".to_owned())
    }

    #[tokio::test]
    async fn its_end_wakes_all_that_wait() {
        let outage = Arc::<Outage>::default();
        outage.record_error(&no_reply());
        let waiting: Vec<_> = (0..9)
            .map(|_| {
                let outage = Arc::clone(&outage);
                tokio::spawn(async move { outage.wait(Duration::from_secs(3_600)).await })
            })
            .collect();
        let waited = tokio::time::timeout(RETRY_FIRST * 3, outage.wait(RETRY_FIRST * 9)).await;
        assert!(waited.is_err(), "it lasts");
        outage.record_reconnect();
        for task in waiting {
            let waited = tokio::time::timeout(duebox_harness::patience(), task).await;
            waited.unwrap().unwrap();
        }
        assert_eq!((outage.is_ongoing(), outage.losses()), (false, 1));
    }

    #[test]
    fn a_refusal_does_not_end_with_a_connection() {
        let outage = Outage::default();
        outage.record_error(&QueueError::Refused("OOM".to_owned()));
        outage.record_reconnect();
        assert!(outage.is_ongoing());
        outage.record_error(&no_reply());
        outage.record_reconnect();
        assert!(!outage.is_ongoing());
    }

    #[test]
    fn a_refusal_to_write_does_not_end_with_a_read() {
        let outage = Outage::default();
        outage.record_error(&QueueError::Refused("READONLY".to_owned()));
        outage.record_read();
        assert!(outage.is_ongoing());
        outage.record_write();
        outage.record_error(&no_reply());
        outage.record_read();
        assert!(!outage.is_ongoing());
    }
}
