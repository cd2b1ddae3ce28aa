//! Outages of Redis. The log reports an outage once when it begins and once when it ends, however many
//! workers notice it. Its end wakes all that wait for Redis.

use std::time::{Duration, Instant};

use duebox_queue::QueueError;
use tokio::sync::watch;
use tracing::{info, warn};

/// The first wait before a retry, and the shortest one.
pub const RETRY_FIRST: Duration = Duration::from_millis(50);
/// The longest wait before a retry, without jitter.
pub const RETRY_MAX: Duration = Duration::from_secs(2);

/// Whether Redis is available, shared by all its users in this process.
#[derive(Default)]
pub struct Outage {
    state: watch::Sender<OutageState>,
}

#[derive(Default)]
struct OutageState {
    /// When the outage that lasts was noticed.
    since: Option<Instant>,
    /// It is an error of the connection, not of a command.
    is_disconnected: bool,
    /// When Redis was last reached again after the connection was lost.
    restored_at: Option<Instant>,
    /// How often Redis may have lost its data.
    losses: u64,
}

impl Outage {
    /// Whether an outage was noticed and is not over.
    pub fn lasts(&self) -> bool {
        self.state.borrow().since.is_some()
    }

    /// Records that a command failed.
    pub fn noticed(&self, error: &QueueError) {
        let is_disconnected =
            matches!(error, QueueError::NoAnswer(_) | QueueError::Unreachable { .. });
        self.state.send_if_modified(|state| {
            let is_new = state.since.is_none();
            let is_worse = is_disconnected && !state.is_disconnected;
            if is_new {
                state.since = Some(Instant::now());
                warn!(%error, "Redis fails; jobs wait and verdicts are kept until it is back");
            }
            state.is_disconnected |= is_disconnected;
            is_new || is_worse
        });
    }

    /// Records that a command succeeded.
    pub fn over(&self) {
        if self.lasts() {
            self.end();
        }
    }

    /// Records that the connection was lost and made again. This ends an outage, unless Redis refuses
    /// commands.
    pub fn reconnected(&self) {
        let refuses = {
            let state = self.state.borrow();
            state.since.is_some() && !state.is_disconnected
        };
        if !refuses {
            self.end();
        }
    }

    fn end(&self) {
        self.state.send_modify(|state| {
            let now = Instant::now();
            if let Some(since) = state.since.take() {
                state.losses += 1;
                info!(outage_ms = since.elapsed().as_millis() as u64, "Redis is back");
            }
            state.is_disconnected = false;
            state.restored_at = Some(now);
        });
    }

    /// Records that Redis may have lost what this daemon has written.
    pub fn data_may_be_lost(&self) {
        self.state.send_modify(|state| state.losses += 1);
    }

    /// How often Redis may have lost its data so far.
    pub fn losses(&self) -> u64 {
        self.state.borrow().losses
    }

    /// Waits until Redis may have lost its data more often than this.
    pub async fn lost_data_again(&self, losses: u64) {
        let mut state = self.state.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        drop(state.wait_for(|state| state.losses > losses).await);
    }

    /// When Redis was last reached again after the connection was lost.
    pub fn restored_at(&self) -> Option<Instant> {
        self.state.borrow().restored_at
    }

    /// Waits until the connection to Redis fails.
    pub async fn begins(&self) {
        let mut state = self.state.subscribe();
        drop(state.wait_for(|state| state.is_disconnected).await);
    }

    /// Waits before a retry: at most for `longest`, and not longer than the outage lasts.
    pub async fn wait(&self, longest: Duration) {
        let shortest = longest.min(RETRY_FIRST);
        tokio::time::sleep(shortest).await;
        let mut state = self.state.subscribe();
        tokio::select! {
            () = tokio::time::sleep(longest.saturating_sub(shortest)) => {}
            _ = state.wait_for(|state| state.since.is_none()) => {}
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

    fn no_answer() -> QueueError {
        QueueError::NoAnswer("gone".to_owned())
    }

    #[tokio::test]
    async fn its_end_wakes_all_that_wait() {
        let outage = Arc::<Outage>::default();
        outage.noticed(&no_answer());
        let waiting: Vec<_> = (0..9)
            .map(|_| {
                let outage = Arc::clone(&outage);
                tokio::spawn(async move { outage.wait(Duration::from_secs(3_600)).await })
            })
            .collect();
        let waited = tokio::time::timeout(RETRY_FIRST * 3, outage.wait(RETRY_FIRST * 9)).await;
        assert!(waited.is_err(), "it lasts");
        outage.reconnected();
        for task in waiting {
            let waited = tokio::time::timeout(duebox_harness::patience(), task).await;
            waited.unwrap().unwrap();
        }
        assert_eq!((outage.lasts(), outage.losses()), (false, 1));
    }

    #[test]
    fn a_refusal_does_not_end_with_a_connection() {
        let outage = Outage::default();
        outage.noticed(&QueueError::Refused("OOM".to_owned()));
        outage.reconnected();
        assert!(outage.lasts());
        outage.noticed(&no_answer());
        outage.reconnected();
        assert!(!outage.lasts());
    }
}
