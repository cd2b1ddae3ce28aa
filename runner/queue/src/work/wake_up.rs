//! Bells: one for each topic that somebody waits for, rung by whoever hears the wake-ups. So many who wait
//! share one subscription.
//!
//! A ring is remembered until who waits has heard it, so none is lost between a look and a sleep.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duebox_job::TopicName;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Bells that are kept before those that nobody hears are thrown away.
const BELLS_MAX: usize = 1_024;

/// The bells of all topics. Clones are the same.
#[derive(Clone, Default)]
pub struct Bells(Arc<Mutex<HashMap<TopicName, watch::Sender<u64>>>>);

/// The bell of one topic, for one who waits; and what ends the wait before its time.
pub struct Bell {
    rung: watch::Receiver<u64>,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Why a sleep ended.
pub(crate) enum Heard {
    /// It is time to look again.
    Look,
    /// Nobody waits any more.
    Over,
}

impl Bells {
    /// The bell of a topic. The wait ends, too, when `over` does.
    pub fn bell(&self, topic: &TopicName, over: impl Future<Output = ()> + Send + 'static) -> Bell {
        let mut bells = self.lock();
        if bells.len() >= BELLS_MAX {
            bells.retain(|_, bell| bell.receiver_count() > 0);
        }
        let rung = bells.entry(topic.base()).or_default().subscribe();
        Bell { rung, over: Box::pin(over) }
    }

    /// Rings for those who wait for a topic.
    pub fn ring(&self, topic: &TopicName) {
        let bells = self.lock();
        if !bells.is_empty()
            && let Some(bell) = bells.get(&topic.base())
        {
            bell.send_modify(|rung| *rung = rung.wrapping_add(1));
        }
    }

    /// Rings for all who wait: wake-ups may have been lost.
    pub fn ring_all(&self) {
        for bell in self.lock().values() {
            bell.send_modify(|rung| *rung = rung.wrapping_add(1));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TopicName, watch::Sender<u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bell {
    /// Sleeps until then, until it rings, or until the wait is over.
    pub(crate) async fn sleep(&mut self, until: Instant) -> Heard {
        tokio::select! {
            () = &mut self.over => Heard::Over,
            () = sleep_until(until) => Heard::Look,
            rung = self.rung.changed() => match rung {
                Ok(()) => Heard::Look,
                // Nobody rings any more: what comes is found by the poll.
                Err(_) => {
                    sleep_until(until).await;
                    Heard::Look
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
    async fn a_ring_before_the_sleep_is_heard() {
        let (bells, topic) = (Bells::default(), TopicName::new("a").unwrap());
        let mut bell = bells.bell(&topic, pending());
        bells.ring(&topic.shard(3));
        assert!(matches!(bell.sleep(far()).await, Heard::Look));
        bells.ring_all();
        assert!(matches!(bell.sleep(far()).await, Heard::Look));
        // Another topic's bell is another's.
        bells.ring(&TopicName::new("b").unwrap());
        let slept = tokio::time::timeout(Duration::from_millis(20), bell.sleep(far())).await;
        assert!(slept.is_err());
    }

    #[tokio::test]
    async fn who_has_gone_waits_no_more() {
        let bells = Bells::default();
        let mut bell = bells.bell(&TopicName::new("a").unwrap(), async {});
        assert!(matches!(bell.sleep(far()).await, Heard::Over));
    }

    #[test]
    fn bells_that_nobody_hears_are_thrown_away() {
        let bells = Bells::default();
        for number in 0..3 * BELLS_MAX {
            drop(bells.bell(&TopicName::new(&format!("t{number}")).unwrap(), pending()));
        }
        assert!(bells.lock().len() <= BELLS_MAX);
    }
}
