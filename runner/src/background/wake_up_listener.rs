//! Receives the wake-ups that scripts publish when they push, the changes of watched shards, and the orders to all
//! daemons, over one subscription. A lost subscription is made again; then everything is woken, because wake-ups may have
//! been lost meanwhile.

use std::pin::pin;
use std::sync::Arc;

use duebox_job::Shard;
use duebox_queue::{Listener, Notification, Queue, WakeUpHub};
use tokio::sync::mpsc;
use tracing::debug;

use super::wake_up::{WakeUp, WakeUps};
use super::watching::Watching;
use crate::background::topic_discovery::TopicDiscovery;
use crate::monotonic;
use crate::redis_host::outage::{self, Outage, RETRY_FIRST};

/// Whom notifications reach.
#[derive(Clone)]
pub struct WakeUpListener {
    /// Where to subscribe.
    pub queue: Queue,
    /// The workers to wake.
    pub wake_ups: WakeUps,
    /// Gets a watch with each subscription.
    pub watching: Arc<Watching>,
    /// A wake-up also wakes pull consumers.
    pub wake_up_hub: WakeUpHub,
    /// Gets the topics without a worker here.
    pub topic_discovery: TopicDiscovery,
    /// An order is dropped without a reply while too many wait.
    pub orders: mpsc::Sender<String>,
    /// Tells when Redis is back.
    pub outage: Arc<Outage>,
}

impl WakeUpListener {
    /// Listens until the task is aborted.
    pub async fn run(self) {
        let mut retry = RETRY_FIRST;
        loop {
            // Also that of a listener that panicked.
            self.watching.end();
            match self.queue.listen().await {
                Err(error) => debug!(%error, "cannot listen for wake-ups; polling continues"),
                Ok(listener) => {
                    retry = RETRY_FIRST;
                    self.follow(listener).await;
                }
            }
            self.watching.end();
            retry = outage::next_retry(retry);
            self.outage.wait(retry).await;
        }
    }

    /// Passes notifications on until the connection is lost.
    async fn follow(&self, mut listener: Listener) {
        self.watching.begin(listener.watch());
        self.wake_all();
        self.wake_up_hub.notify_all();
        let mut silent = pin!(self.watching.until_silent());
        loop {
            let notification = tokio::select! {
                biased;
                notification = listener.next() => notification,
                () = &mut silent => return,
            };
            match notification {
                Notification::WakeUp(shard) => {
                    self.wake_up_hub.notify(shard.topic());
                    match self.wake_up_of(&shard) {
                        Some(wake_up) => {
                            // What it would report is known already.
                            wake_up.end_watch();
                            wake_up.notify_at(monotonic::now());
                        }
                        None => self.topic_discovery.record(&shard),
                    }
                }
                Notification::Changed(shards) => {
                    for wake_up in shards.iter().filter_map(|shard| self.wake_up_of(shard)) {
                        if wake_up.end_watch() {
                            wake_up.notify_at(monotonic::now());
                        }
                    }
                }
                Notification::Control(order) => drop(self.orders.try_send(order)),
                Notification::Lost => return,
            }
        }
    }

    fn wake_up_of(&self, shard: &Shard) -> Option<Arc<WakeUp>> {
        let wake_ups = self.wake_ups.load();
        let at = wake_ups.binary_search_by(|(name, _)| name.cmp(shard)).ok()?;
        Some(Arc::clone(&wake_ups[at].1))
    }

    fn wake_all(&self) {
        for (_, wake_up) in self.wake_ups.load().iter() {
            wake_up.notify_at(monotonic::now());
        }
    }
}
