//! Topics of which Redis refuses a call because of what one of their keys holds, for example a key of a wrong
//! type. The log names such a topic once, a metric counts its errors, and all other topics go on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use duebox_job::{Shard, TopicName};
use duebox_queue::{Queue, QueueError};
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::monotonic;

/// How many topics are told apart.
const TOPICS_MAX: usize = 1_000;
/// A loop that has not failed for this long is forgotten: it may not look at the topic any more.
const REMEMBERED: Duration = Duration::from_secs(300);
/// How long a list of topics serves the loops that go through all of them.
const LISTED_FOR: Duration = Duration::from_secs(5);

/// What looks at topics, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicLoop {
    /// Preparing the topic in Redis before it is served.
    Bind,
    /// The turns of its worker.
    Work,
    /// The poller.
    Poll,
    /// Writing its limits.
    Limits,
    /// Pruning what has ended.
    Prune,
    /// Reclaiming expired leases.
    Reclaim,
    /// Relaying follow-ups.
    Relay,
    /// Pushing the ticks of its schedules.
    Schedule,
}

/// The topics whose keys Redis refuses.
#[derive(Default)]
pub struct SickTopics {
    state: Mutex<SickState>,
    /// How many shards are sick. Without any, a loop that succeeds takes no lock.
    sick: AtomicUsize,
    /// The set of known topics is unreadable, and this was logged.
    no_topics: AtomicBool,
    /// The topics of Redis, and when they were read.
    listed: tokio::sync::Mutex<Option<(Instant, Vec<TopicName>)>>,
}

#[derive(Default)]
struct SickState {
    /// The loops that fail at a shard, each with its last failure.
    failing: BTreeMap<Shard, BTreeMap<TopicLoop, Instant>>,
    errors: BTreeMap<TopicName, u64>,
}

impl SickTopics {
    /// Takes the result of the first of several calls of a loop at a shard: the last one tells whether the
    /// loop succeeds. For an error that comes from the topic's keys, this records it and returns `None`.
    ///
    /// # Errors
    /// An error that does not come from the topic.
    pub fn first_of<T>(
        &self,
        shard: &Shard,
        by: TopicLoop,
        result: Result<T, QueueError>,
    ) -> Result<Option<T>, QueueError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => self.isolate(shard, by, Err(error)),
        }
    }

    /// Takes the result of a call of a loop at a shard. For an error that comes from the topic's keys, this
    /// records it and returns `None`.
    ///
    /// # Errors
    /// An error that does not come from the topic.
    pub fn isolate<T>(
        &self,
        shard: &Shard,
        by: TopicLoop,
        result: Result<T, QueueError>,
    ) -> Result<Option<T>, QueueError> {
        match result {
            Ok(value) => {
                self.record_success(shard, by);
                Ok(Some(value))
            }
            Err(error) if error.is_of_topic() => {
                self.record_error(shard, by, &error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Records that a loop succeeded at a shard.
    pub fn record_success(&self, shard: &Shard, by: TopicLoop) {
        if self.sick.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut state = self.state.lock();
        let Some(loops) = state.failing.get_mut(shard) else { return };
        loops.remove(&by);
        if loops.is_empty() {
            state.failing.remove(shard);
            info!(topic = %shard.topic(), shard = shard.number(), "the keys of the topic are usable again");
        }
        self.sick.store(state.failing.len(), Ordering::Relaxed);
    }

    /// Records that Redis refused a loop because of the topic's keys.
    pub fn record_error(&self, shard: &Shard, by: TopicLoop, error: &QueueError) {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.forget_old(now);
        if let Some(errors) = state.errors.get_mut(shard.topic()) {
            *errors += 1;
        } else if state.errors.len() < TOPICS_MAX {
            state.errors.insert(shard.topic().clone(), 1);
        }
        let is_known = state.failing.contains_key(shard);
        if is_known || state.failing.len() < TOPICS_MAX {
            state.failing.entry(shard.clone()).or_default().insert(by, now);
        }
        self.sick.store(state.failing.len(), Ordering::Relaxed);
        drop(state);
        if !is_known {
            let topic = shard.topic();
            warn!(%topic, shard = shard.number(), %error,
                "Redis refuses a key of the topic; other topics go on. Find and repair it with: duebox doctor {topic}");
        }
    }

    /// The topics in `duebox:topics`; none if that key is unusable, which is logged once.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn known_topics(&self, queue: &Queue) -> Result<Vec<TopicName>, QueueError> {
        match queue.topics().await {
            Ok(topics) => {
                self.no_topics.store(false, Ordering::Relaxed);
                Ok(topics)
            }
            Err(error) if error.is_of_topic() => {
                self.no_list(&error);
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    /// [`Self::known_topics`] as they were read in the last five seconds: loops of one pace ask Redis once.
    ///
    /// # Errors
    /// As [`Self::known_topics`].
    pub async fn listed_topics(&self, queue: &Queue) -> Result<Vec<TopicName>, QueueError> {
        let mut listed = self.listed.lock().await;
        let is_new = |read_at: Instant| monotonic::now() - read_at < LISTED_FOR;
        match &*listed {
            Some((read_at, topics)) if is_new(*read_at) => Ok(topics.clone()),
            _ => {
                let topics = self.known_topics(queue).await?;
                *listed = Some((monotonic::now(), topics.clone()));
                Ok(topics)
            }
        }
    }

    /// Takes the result of adding to `duebox:topics`, which no job depends on.
    ///
    /// # Errors
    /// An error that does not come from that key.
    pub fn isolate_listing(&self, result: Result<(), QueueError>) -> Result<(), QueueError> {
        match result {
            Err(error) if error.is_of_topic() => self.no_list(&error),
            result => return result,
        }
        Ok(())
    }

    fn no_list(&self, error: &QueueError) {
        if !self.no_topics.swap(true, Ordering::Relaxed) {
            warn!(%error, "Redis refuses the set of known topics; topics of the manifest go on. Repair it with: duebox doctor --repair");
        }
    }

    /// How many shards of topics have unusable keys now.
    pub fn count(&self) -> usize {
        let mut state = self.state.lock();
        state.forget_old(Instant::now());
        self.sick.store(state.failing.len(), Ordering::Relaxed);
        state.failing.len()
    }

    /// The errors of each topic so far, of at most 1,000 topics.
    pub fn errors(&self) -> Vec<(TopicName, u64)> {
        self.state.lock().errors.iter().map(|(topic, errors)| (topic.clone(), *errors)).collect()
    }
}

impl SickState {
    fn forget_old(&mut self, now: Instant) {
        self.failing.retain(|_, loops| {
            loops.retain(|_, last| now.saturating_duration_since(*last) < REMEMBERED);
            !loops.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> QueueError {
        QueueError::BadData("WRONGTYPE".to_owned())
    }

    #[test]
    fn a_topic_is_sick_until_each_loop_succeeds() {
        let sick = SickTopics::default();
        let shard = TopicName::new("mail").unwrap().first_shard();
        for by in [TopicLoop::Poll, TopicLoop::Work, TopicLoop::Poll] {
            assert_eq!(sick.isolate::<()>(&shard, by, Err(refused())).unwrap(), None);
        }
        assert_eq!((sick.count(), sick.errors()), (1, vec![(shard.topic().clone(), 3)]));
        assert_eq!(sick.isolate(&shard, TopicLoop::Poll, Ok(7)).unwrap(), Some(7));
        assert_eq!(sick.count(), 1);
        sick.record_success(&shard, TopicLoop::Work);
        assert_eq!((sick.count(), sick.errors().len()), (0, 1));
    }

    #[test]
    fn errors_of_redis_as_a_whole_are_not_of_the_topic() {
        let sick = SickTopics::default();
        let shard = TopicName::new("mail").unwrap().first_shard();
        let full = QueueError::Refused("OOM".to_owned());
        assert!(sick.isolate::<()>(&shard, TopicLoop::Work, Err(full)).is_err());
        assert_eq!(sick.count(), 0);
    }

    #[test]
    fn topics_beyond_the_limit_are_not_remembered() {
        let sick = SickTopics::default();
        for number in 0..TOPICS_MAX + 5 {
            let shard = TopicName::new(&format!("t{number}")).unwrap().first_shard();
            sick.record_error(&shard, TopicLoop::Poll, &refused());
        }
        assert_eq!((sick.count(), sick.errors().len()), (TOPICS_MAX, TOPICS_MAX));
    }
}
