//! The topics of which pushes told `duebox:topics` a moment ago. A call without the `SADD` takes Redis a tenth less.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use parking_lot::Mutex;

use crate::wire::connection::now;

/// How long the set is taken to hold a topic. After `FLUSHALL` a topic that jobs are pushed to is missing in it for as
/// long.
const BELIEVED: Duration = Duration::from_secs(1);
/// Topics that are remembered at most.
const REMEMBERED_MAX: usize = 10_000;

/// The topics, and when the set was told.
#[derive(Default)]
pub(crate) struct AnnouncedTopics(Mutex<HashMap<TopicName, Instant>>);

impl AnnouncedTopics {
    /// True if the set was told of a topic lately, and after Redis was last out of reach: another server may have
    /// taken its place.
    pub(crate) fn is_announced(&self, topic: &TopicName, unreachable_at: Option<Instant>) -> bool {
        let Some(&at) = self.0.lock().get(topic) else { return false };
        now().saturating_duration_since(at) < BELIEVED
            && unreachable_at.is_none_or(|then| then < at)
    }

    /// The set was told of a topic.
    pub(crate) fn set(&self, topic: &TopicName) {
        let mut topics = self.0.lock();
        if topics.len() >= REMEMBERED_MAX {
            topics.clear();
        }
        topics.insert(topic.clone(), now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_announced_again_after_redis_was_out_of_reach() {
        let (topics, topic) = (AnnouncedTopics::default(), TopicName::new("t").unwrap());
        let before = now();
        assert!(!topics.is_announced(&topic, None));
        topics.set(&topic);
        assert!(topics.is_announced(&topic, None));
        assert!(topics.is_announced(&topic, before.checked_sub(Duration::from_millis(1))));
        assert!(!topics.is_announced(&topic, Some(now())));
    }
}
