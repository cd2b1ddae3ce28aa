//! Wake-ups inside one process: one subscription to Redis serves any number of waiting pulls.
//!
//! The owner of the subscription notifies the hub. A receiver remembers a notification until it sleeps
//! next, so it is not lost between a look at the topic and the sleep that follows.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use duebox_job::TopicName;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Topics in the hub before those without a receiver are removed.
const TOPICS_MAX: usize = 1_024;

/// Wakes the receivers of every topic. Clones share the receivers.
#[derive(Clone, Default)]
pub struct WakeUpHub(Arc<Mutex<HashMap<TopicName, watch::Sender<u64>>>>);

/// Wakes one sleeping pull; ends its wait when the pull is cancelled.
pub struct WakeUpReceiver {
    notified: watch::Receiver<u64>,
    cancelled: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Why a sleep ended.
pub(crate) enum SleepEnd {
    /// It is time to look at the topic again.
    LookAgain,
    /// The pull was cancelled.
    Cancelled,
}

impl WakeUpHub {
    /// A receiver for one topic. Its waits end when `cancelled` completes.
    pub fn subscribe(
        &self,
        topic: &TopicName,
        cancelled: impl Future<Output = ()> + Send + 'static,
    ) -> WakeUpReceiver {
        let mut topics = self.0.lock();
        if topics.len() >= TOPICS_MAX {
            topics.retain(|_, sender| sender.receiver_count() > 0);
        }
        let notified = topics.entry(topic.clone()).or_default().subscribe();
        WakeUpReceiver { notified, cancelled: Box::pin(cancelled) }
    }

    /// Wakes the receivers of a topic.
    pub fn notify(&self, topic: &TopicName) {
        let topics = self.0.lock();
        if !topics.is_empty()
            && let Some(sender) = topics.get(topic)
        {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    /// Wakes all receivers: wake-ups may have been lost.
    pub fn notify_all(&self) {
        for sender in self.0.lock().values() {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

impl WakeUpReceiver {
    /// Sleeps until `until`, until it is notified, or until the pull is cancelled.
    pub(crate) async fn sleep(&mut self, until: Instant) -> SleepEnd {
        tokio::select! {
            () = &mut self.cancelled => SleepEnd::Cancelled,
            () = sleep_until(until) => SleepEnd::LookAgain,
            notified = self.notified.changed() => match notified {
                Ok(()) => SleepEnd::LookAgain,
                // The hub is gone: the poll finds what comes.
                Err(_) => {
                    sleep_until(until).await;
                    SleepEnd::LookAgain
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use super::*;

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(3_600)
    }

    #[tokio::test]
    async fn a_notification_before_the_sleep_ends_it() {
        let (hub, topic) = (WakeUpHub::default(), TopicName::new("a").unwrap());
        let mut receiver = hub.subscribe(&topic, pending());
        hub.notify(&topic);
        assert!(matches!(receiver.sleep(far()).await, SleepEnd::LookAgain));
        hub.notify_all();
        assert!(matches!(receiver.sleep(far()).await, SleepEnd::LookAgain));
        // A notification of another topic does not wake it.
        hub.notify(&TopicName::new("b").unwrap());
        let slept = tokio::time::timeout(Duration::from_millis(20), receiver.sleep(far())).await;
        assert!(slept.is_err());
    }

    #[tokio::test]
    async fn a_cancelled_pull_stops_waiting() {
        let hub = WakeUpHub::default();
        let mut receiver = hub.subscribe(&TopicName::new("a").unwrap(), async {});
        assert!(matches!(receiver.sleep(far()).await, SleepEnd::Cancelled));
    }

    #[test]
    fn topics_without_a_receiver_are_removed() {
        let hub = WakeUpHub::default();
        for number in 0..3 * TOPICS_MAX {
            drop(hub.subscribe(&TopicName::new(&format!("t{number}")).unwrap(), pending()));
        }
        assert!(hub.0.lock().len() <= TOPICS_MAX);
    }
}
