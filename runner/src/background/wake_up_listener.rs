//! Receives the wake-ups that scripts publish when they push, and the orders to all daemons, over one
//! subscription. A lost subscription is made again; then everything is woken, because wake-ups may have
//! been lost meanwhile.

use std::sync::Arc;

use duebox_job::Shard;
use duebox_queue::{Notification, Queue, WakeUpHub};
use tokio::sync::mpsc;
use tracing::debug;

use super::wake_up::WakeUps;
use crate::background::topic_discovery::TopicDiscovery;
use crate::monotonic;
use crate::redis_host::outage::{self, Outage, RETRY_FIRST};

/// Listens for wake-ups and orders until the task is aborted. A wake-up also wakes pull consumers. Topics
/// without a worker here go to the topic discovery. An order is dropped without a reply while too many wait.
pub async fn listen(
    queue: Queue,
    wake_ups: WakeUps,
    wake_up_hub: WakeUpHub,
    topic_discovery: TopicDiscovery,
    orders: mpsc::Sender<String>,
    outage: Arc<Outage>,
) {
    let mut retry = RETRY_FIRST;
    loop {
        match queue.listen().await {
            Err(error) => debug!(%error, "cannot listen for wake-ups; polling continues"),
            Ok(mut listener) => {
                retry = RETRY_FIRST;
                wake_all(&wake_ups);
                wake_up_hub.notify_all();
                loop {
                    match listener.next().await {
                        Notification::WakeUp(shard) => {
                            wake_up_hub.notify(shard.topic());
                            wake_one(&wake_ups, &shard, &topic_discovery);
                        }
                        Notification::Control(order) => drop(orders.try_send(order)),
                        Notification::Lost => break,
                    }
                }
            }
        }
        retry = outage::next_retry(retry);
        outage.wait(retry).await;
    }
}

fn wake_one(wake_ups: &WakeUps, shard: &Shard, topic_discovery: &TopicDiscovery) {
    let wake_ups = wake_ups.load();
    match wake_ups.binary_search_by(|(name, _)| name.cmp(shard)) {
        Ok(at) => wake_ups[at].1.notify_at(monotonic::now()),
        Err(_) => topic_discovery.record(shard),
    }
}

fn wake_all(wake_ups: &WakeUps) {
    for (_, wake_up) in wake_ups.load().iter() {
        wake_up.notify_at(monotonic::now());
    }
}
