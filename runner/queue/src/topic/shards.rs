//! Shards: a topic may be split over several hash slots of Redis. Each shard has keys of its own
//! (`{topic}`, `{topic#1}` …). A job stays in one shard from push to end; its key selects the shard,
//! or its id if it has no key. The `meta` key of the first shard stores the number of shards, and
//! every earlier number, so that jobs pushed under an earlier number are still found.

use std::collections::HashMap;
use std::time::Duration;

use duebox_job::{JobId, Options, Shard, TopicName};
use parking_lot::Mutex;
use redis::Value;
use tokio::time::Instant;

use crate::error::QueueError;
use crate::wire::reply::{array, text};

/// How long the number of shards is cached. After a change, pushes may use the old number for this
/// long.
const BELIEVED: Duration = Duration::from_secs(1);
/// Topics in the cache; when it is full, it is emptied.
const REMEMBERED_MAX: usize = 20_000;

/// The shards of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards {
    topic: TopicName,
    pub(crate) count: u32,
    /// Every number of shards the topic has had, the current one included.
    pub(crate) seen: Vec<u32>,
}

impl Shards {
    pub(crate) fn read(topic: &TopicName, reply: Value) -> Result<Self, QueueError> {
        let number = |text: &str| {
            text.parse().ok().filter(|count| (1..=TopicName::SHARDS_MAX).contains(count))
        };
        let mut fields = array(reply)?.into_iter();
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

    /// Every shard that may hold jobs, those of earlier numbers included.
    pub fn all(&self) -> impl Iterator<Item = Shard> + '_ {
        let most = self.seen.iter().copied().max().unwrap_or(1);
        (0..most).map(|number| self.topic.shard(number))
    }

    /// True if the topic has one shard and never had more.
    pub(crate) fn is_one(&self) -> bool {
        self.seen == [1]
    }

    /// The shard of new jobs with this key, or with this id if they have no key.
    pub fn home(&self, key_or_id: &[u8]) -> Shard {
        self.topic.shard(crc32fast::hash(key_or_id) % self.count)
    }

    /// The shards where earlier numbers put jobs of this key or id, without their current home.
    pub(crate) fn old_homes(&self, key_or_id: &[u8]) -> Vec<Shard> {
        let hash = crc32fast::hash(key_or_id);
        let home = hash % self.count;
        let mut old: Vec<u32> =
            self.seen.iter().map(|count| hash % count).filter(|number| *number != home).collect();
        old.sort_unstable();
        old.dedup();
        old.into_iter().map(|number| self.topic.shard(number)).collect()
    }
}

/// What selects a job's shard: its key, so that all jobs of a key share a shard, else its id.
pub(crate) fn spread_by<'j>(id: &'j JobId, options: &'j Options) -> &'j [u8] {
    options.key().map_or(id.as_bytes(), str::as_bytes)
}

/// A cache of the shards of topics.
#[derive(Default)]
pub(crate) struct KnownShards(Mutex<HashMap<TopicName, (Instant, Shards)>>);

impl KnownShards {
    pub(crate) fn get(&self, topic: &TopicName) -> Option<Shards> {
        let known = self.0.lock();
        let (since, shards) = known.get(topic)?;
        (since.elapsed() < BELIEVED).then(|| shards.clone())
    }

    /// Removes a topic whose number of shards may have changed.
    pub(crate) fn forget(&self, topic: &TopicName) {
        self.0.lock().remove(topic);
    }

    pub(crate) fn set(&self, shards: &Shards) {
        let mut known = self.0.lock();
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

    /// The checksum is zlib's CRC-32, which every language has.
    #[test]
    fn a_job_goes_where_zlib_says() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
        let home = |count, id: &[u8]| shards(count, &[count]).home(id).number();
        // The example of docs/guide/topics.md.
        assert_eq!(home(7, b"123456789"), 5);
        assert_eq!(home(1, b"anything"), 0);
    }

    #[test]
    fn old_homes_are_all_the_others() {
        let id = b"123456789";
        let now = shards(5, &[1, 4, 2, 5]);
        let wanted: std::collections::BTreeSet<u32> =
            [1, 4, 2].iter().map(|count| 0xcbf4_3926 % count).collect();
        let old: Vec<u32> = now.old_homes(id).iter().map(Shard::number).collect();
        let home = now.home(id).number();
        let wanted: Vec<u32> = wanted.into_iter().filter(|number| *number != home).collect();
        assert_eq!(old, wanted);
        assert_eq!(now.all().count(), 5);
        assert!(shards(5, &[5]).old_homes(id).is_empty());
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
