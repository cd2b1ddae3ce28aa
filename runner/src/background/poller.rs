//! Wakes the workers that no wake-up reached: a poll of every topic each `redis.poll` finds pushes by plain
//! commands, jobs left by other runners, and lost wake-ups.
//!
//! A shard without work for the next moments is watched instead: Redis reports its next change, and until then it is not
//! polled. A poll reads many topics in one pipeline: a hundred idle topics cost one round trip.

use std::sync::Arc;
use std::time::Duration;

use duebox_job::Shard;
use duebox_queue::{Queue, QueueError};

use super::wake_up::{WakeUp, WakeUps};
use super::watching::{self, Watching};
use crate::monotonic;
use crate::observe::sick_topics::{SickTopics, TopicLoop};
use crate::redis_host::outage::Outage;

/// Topics in one pipeline: about 0.9 ms of Redis' time, during which all other clients wait.
const TOPICS_PER_PIPELINE: usize = 125;

/// Looks at topics on behalf of their workers.
#[derive(Clone)]
pub struct Poller {
    /// Where the topics are.
    pub queue: Queue,
    /// The workers to wake.
    pub wake_ups: WakeUps,
    /// Tells what need not be looked at.
    pub watching: Arc<Watching>,
    /// How often each topic is looked at that is not watched.
    pub every: Duration,
    /// Topics that Redis cannot look at.
    pub sick_topics: Arc<SickTopics>,
    /// Hears whether Redis replies.
    pub outage: Arc<Outage>,
}

impl Poller {
    /// Polls until the task is aborted.
    pub async fn run(self) {
        let mut tick = tokio::time::interval(self.every);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            // With a new watch, quiet shards are watched from then on.
            tokio::select! {
                biased;
                _ = tick.tick() => {}
                () = self.watching.begun() => {}
            }
            match self.poll_all().await {
                Ok(()) => self.outage.record_read(),
                Err(error) => self.outage.record_error(&error),
            }
        }
    }

    async fn poll_all(&self) -> Result<(), QueueError> {
        let watch = self.watching.current();
        let is_watched = |wake_up: &WakeUp| watch.as_ref().is_some_and(|watch| watch.has(wake_up));
        let all = self.wake_ups.load_full();
        let unwatched = all.iter().filter(|(_, wake_up)| !is_watched(wake_up));
        for some in unwatched.cloned().collect::<Vec<_>>().chunks(TOPICS_PER_PIPELINE) {
            if let Some(watch) = &watch {
                let quiet = some.iter().filter(|(_, wake_up)| wake_up.is_quiet());
                watch.begin(&quiet.cloned().collect::<Vec<_>>()).await;
            }
            // After the watch has begun, so that each change is seen by one of them.
            self.look(some).await.inspect_err(|_| watching::end(some))?;
        }
        Ok(())
    }

    async fn look(&self, some: &[(Shard, Arc<WakeUp>)]) -> Result<(), QueueError> {
        let shards: Vec<Shard> = some.iter().map(|(shard, _)| shard.clone()).collect();
        let waits = self.queue.peek(&shards).await?;
        let now = monotonic::now();
        for ((shard, wake_up), wait) in some.iter().zip(waits) {
            let wait = self.sick_topics.isolate(shard, TopicLoop::Poll, wait)?;
            let is_quiet = wait.is_some_and(|wait| wait.is_none_or(|wait| wait > self.every * 2));
            wake_up.set_quiet(is_quiet);
            // The next poll finds jobs that are due later, if there is one.
            let is_watched = is_quiet && wake_up.is_watched();
            if !is_quiet {
                wake_up.end_watch();
            }
            if let Some(wait) = wait.flatten().filter(|_| !is_quiet || is_watched) {
                wake_up.notify_at(now + wait);
            }
        }
        Ok(())
    }
}
