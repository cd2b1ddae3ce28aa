//! What wakes the workers: the wake channel, for pushes through scripts, and a look at every topic
//! each `redis.poll`, for what plain commands pushed, other runners left behind, or a lost wake-up.
//!
//! Both look at many topics at once: a hundred idle ones cost one round trip a poll.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use duebox_job::TopicName;
use duebox_queue::{Notification, Queue, QueueError, WakeUpHub};
use tokio::sync::mpsc;
use tracing::debug;

use super::wake_up::Poke;
use crate::background::topic_discovery::Finder;
use crate::redis_host::outage::{self, Outage, RETRY_FIRST};

/// The workers that can be poked, each by its shard's name; in the order of the names.
pub type Pokes = Arc<ArcSwap<Vec<(TopicName, Arc<Poke>)>>>;

/// Topics that are looked at in one pipeline: some 0.9 ms of Redis' time, for which all others wait.
const TOPICS_A_LOOK: usize = 125;

/// Looks at every topic each `poll`, for ever.
pub async fn look(queue: Queue, pokes: Pokes, poll: Duration, outage: Arc<Outage>) {
    let mut tick = tokio::time::interval(poll);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        match look_once(&queue, &pokes, poll).await {
            Ok(()) => outage.over(),
            Err(error) => outage.noticed(&error),
        }
    }
}

async fn look_once(queue: &Queue, pokes: &Pokes, poll: Duration) -> Result<(), QueueError> {
    let pokes = pokes.load_full();
    for some in pokes.chunks(TOPICS_A_LOOK) {
        let topics: Vec<TopicName> = some.iter().map(|(topic, _)| topic.clone()).collect();
        let waits = queue.peek(&topics).await?;
        let now = Instant::now();
        for ((_, poke), wait) in some.iter().zip(waits) {
            // What is further off than the next look will be seen by it.
            if let Some(wait) = wait.filter(|wait| *wait <= poll * 2) {
                poke.poke(now + wait);
            }
        }
    }
    Ok(())
}

/// Listens for wake-ups and for orders, for ever. A wake-up rings for pull consumers, too. Topics without a worker here are for the finder. An
/// order that comes while too many wait is not taken; who gave it gets no answer.
pub async fn listen(
    queue: Queue,
    pokes: Pokes,
    bells: WakeUpHub,
    finder: Finder,
    orders: mpsc::Sender<String>,
) {
    let mut retry = RETRY_FIRST;
    loop {
        match queue.listen().await {
            Err(error) => debug!(%error, "cannot listen for wake-ups; polling goes on"),
            Ok(mut listener) => {
                retry = RETRY_FIRST;
                poke_all(&pokes);
                bells.notify_all();
                loop {
                    match listener.next().await {
                        Notification::WakeUp(topic) => {
                            bells.notify(&topic);
                            poke_one(&pokes, &topic, &finder);
                        }
                        Notification::Control(order) => drop(orders.try_send(order)),
                        Notification::Lost => break,
                    }
                }
            }
        }
        retry = outage::next_retry(retry);
        tokio::time::sleep(retry).await;
    }
}

fn poke_one(pokes: &Pokes, topic: &TopicName, finder: &Finder) {
    let pokes = pokes.load();
    match pokes.binary_search_by(|(name, _)| name.cmp(topic)) {
        Ok(at) => pokes[at].1.poke(Instant::now()),
        Err(_) => finder.met(topic),
    }
}

fn poke_all(pokes: &Pokes) {
    for (_, poke) in pokes.load().iter() {
        poke.poke(Instant::now());
    }
}
