//! Shards: a hot topic is split over slots of Redis, each with keys of its own (`{topic}`, `{topic#1}`
//! …). A job lives in the shard that its key says, or its id where it has no key, from its push to its
//! end. How many shards there are stands in the `meta` of the first, and every number there ever was
//! beside it: jobs that were pushed under another number are found where they are.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use duebox_job::{JobId, Options, TopicName};
use redis::Value;

use crate::error::QueueError;
use crate::wire::reply::{array, text};

/// How long the number of shards is believed: who changes it waits as long for the last pushes that
/// do not know.
const BELIEVED: Duration = Duration::from_secs(1);
/// Topics whose shards are remembered; beyond it all are asked anew.
const REMEMBERED_MAX: usize = 20_000;

/// Over how many slots a topic is split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards {
    topic: TopicName,
    pub(crate) count: u32,
    /// The numbers there ever were, this one among them.
    pub(crate) seen: Vec<u32>,
}

impl Shards {
    /// A topic, or one of its shards, by itself.
    pub(crate) fn one(topic: &TopicName) -> Self {
        Self { topic: topic.clone(), count: 1, seen: vec![1] }
    }

    pub(crate) fn read(topic: &TopicName, answer: Value) -> Result<Self, QueueError> {
        let number = |text: &str| {
            text.parse().ok().filter(|count| (1..=TopicName::SHARDS_MAX).contains(count))
        };
        let mut fields = array(answer)?.into_iter();
        let mut next = || match fields.next() {
            None | Some(Value::Nil) => Ok(String::new()),
            Some(field) => text(&field).map(str::to_owned),
        };
        let count = number(&next()?).unwrap_or(1);
        let mut seen: Vec<u32> = next()?.split(' ').filter_map(number).collect();
        if !seen.contains(&count) {
            seen.push(count);
        }
        Ok(Self { topic: topic.clone(), count, seen })
    }

    /// How many shards new jobs are spread over; 1 to 64.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Every shard in which jobs may be, those of earlier numbers too.
    pub fn all(&self) -> impl Iterator<Item = TopicName> + '_ {
        let most = self.seen.iter().copied().max().unwrap_or(1);
        (0..most).map(|number| self.shard(number))
    }

    /// One of them. A shard that is looked at by itself is the only one.
    fn shard(&self, number: u32) -> TopicName {
        if self.topic.shard_number() > 0 {
            return self.topic.clone();
        }
        self.topic.shard(number)
    }

    /// True if all jobs of the topic are in one shard, and always were.
    pub(crate) fn is_one(&self) -> bool {
        self.seen == [1]
    }

    /// The shard for new jobs of this key, or of this id where they have none.
    pub fn home(&self, key_or_id: &[u8]) -> TopicName {
        self.shard(crc32fast::hash(key_or_id) % self.count)
    }

    /// The shards where jobs of this key or id went under other numbers than now, without the one
    /// where they go now.
    pub(crate) fn old_homes(&self, key_or_id: &[u8]) -> Vec<TopicName> {
        let hash = crc32fast::hash(key_or_id);
        let home = hash % self.count;
        let mut old: Vec<u32> =
            self.seen.iter().map(|count| hash % count).filter(|number| *number != home).collect();
        old.sort_unstable();
        old.dedup();
        old.into_iter().map(|number| self.shard(number)).collect()
    }
}

/// What says in which shard of its topic a job lives: its key, so that jobs of one key meet, or its id.
pub(crate) fn spread_by<'j>(id: &'j JobId, options: &'j Options) -> &'j [u8] {
    options.key().map_or(id.as_bytes(), str::as_bytes)
}

/// What is known of topics' shards, and since when.
#[derive(Default)]
pub(crate) struct KnownShards(Mutex<HashMap<TopicName, (Instant, Shards)>>);

impl KnownShards {
    pub(crate) fn get(&self, topic: &TopicName) -> Option<Shards> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, shards) = known.get(topic)?;
        (since.elapsed() < BELIEVED).then(|| shards.clone())
    }

    /// The number of shards may be another now.
    pub(crate) fn forget(&self, topic: &TopicName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }

    pub(crate) fn set(&self, shards: &Shards) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(shards.topic.clone(), (Instant::now(), shards.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(count: u32, seen: &[u32]) -> Shards {
        Shards { topic: TopicName::new("t").unwrap(), count, seen: seen.to_vec() }
    }

    /// The checksum is the one of zlib, which every language has.
    #[test]
    fn a_job_goes_where_zlib_says() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
        let home = |count, id: &[u8]| shards(count, &[count]).home(id).shard_number();
        // The one that docs/topics.md shows.
        assert_eq!(home(7, b"123456789"), 5);
        assert_eq!(home(1, b"anything"), 0);
    }

    #[test]
    fn old_homes_are_all_the_others() {
        let id = b"123456789";
        let now = shards(5, &[1, 4, 2, 5]);
        let wanted: std::collections::BTreeSet<u32> =
            [1, 4, 2].iter().map(|count| 0xcbf4_3926 % count).collect();
        let old: Vec<u32> = now.old_homes(id).iter().map(TopicName::shard_number).collect();
        let home = now.home(id).shard_number();
        let wanted: Vec<u32> = wanted.into_iter().filter(|number| *number != home).collect();
        assert_eq!(old, wanted);
        assert_eq!(now.all().count(), 5);
        assert!(shards(5, &[5]).old_homes(id).is_empty());
    }

    #[test]
    fn a_shard_by_itself_is_its_own_only_one() {
        let third = TopicName::new("t").unwrap().shard(2);
        let alone = Shards::one(&third);
        assert_eq!(alone.all().collect::<Vec<_>>(), std::slice::from_ref(&third));
        assert_eq!(alone.home(b"any"), third);
        assert!(alone.is_one());
    }

    #[test]
    fn what_stands_in_redis_is_read_with_care() {
        let read = |count: &str, seen: &str| {
            let field = |text: &str| Value::BulkString(text.as_bytes().to_vec());
            let topic = TopicName::new("t").unwrap();
            Shards::read(&topic, Value::Array(vec![field(count), field(seen)])).unwrap()
        };
        assert_eq!(read("", ""), shards(1, &[1]));
        assert_eq!(read("3", "1 3"), shards(3, &[1, 3]));
        assert_eq!(read("65", "0 x 2"), shards(1, &[2, 1]));
        assert_eq!(read("4", ""), shards(4, &[4]));
    }
}
