//! Shards: a hot topic is split over slots of Redis, each with keys of its own (`{topic}`, `{topic#1}`
//! …). A job lives in the shard that its key says, or its id where it has no key, from its push to its
//! end. How many shards there are stands in the `meta` of the first, and every number there ever was
//! beside it: jobs that were pushed under another number are found where they are.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use duebox_job::{JobId, Options, TopicName};
use redis::{Cmd, Value};

use crate::reply::{array, count, text};
use crate::script::{self, FORGET_SHARDS, LOCATE};
use crate::{BATCH_MAX, Queue, QueueError};

/// How long the number of shards is believed: who changes it waits as long for the last pushes that
/// do not know.
const BELIEVED: Duration = Duration::from_secs(1);
/// Topics whose shards are remembered; beyond it all are asked anew.
const REMEMBERED_MAX: usize = 20_000;

/// What a shard has as long as it has anything that may be asked for.
const KEPT: [&str; 7] = ["jobs", "unack", "dead", "done", "unique", "outbox", "inbox"];
/// What `locate` answers for an id that is live or leased.
const LIVE: u64 = 2;

/// Over how many slots a topic is split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards {
    topic: TopicName,
    count: u32,
    /// The numbers there ever were, this one among them.
    seen: Vec<u32>,
}

impl Shards {
    /// A topic, or one of its shards, by itself.
    fn one(topic: &TopicName) -> Self {
        Self { topic: topic.clone(), count: 1, seen: vec![1] }
    }

    fn read(topic: &TopicName, answer: Value) -> Result<Self, QueueError> {
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
    fn get(&self, topic: &TopicName) -> Option<Shards> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, shards) = known.get(topic)?;
        (since.elapsed() < BELIEVED).then(|| shards.clone())
    }

    /// The number of shards may be another now.
    pub(crate) fn forget(&self, topic: &TopicName) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
    }

    fn set(&self, shards: &Shards) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(shards.topic.clone(), (Instant::now(), shards.clone()));
    }
}

impl Queue {
    /// Over how many slots a topic is split, as of a second ago at most. One of its shards but the
    /// first is by itself.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn shards(&self, topic: &TopicName) -> Result<Shards, QueueError> {
        if topic.shard_number() > 0 {
            return Ok(Shards::one(topic));
        }
        match self.known_shards.get(topic) {
            Some(shards) => Ok(shards),
            None => self.ask_shards(topic).await,
        }
    }

    /// The same of several topics, in one pipeline; none where it is known of all of them.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn shards_of_all(&self, topics: &[TopicName]) -> Result<Vec<Shards>, QueueError> {
        let known = |topic: &TopicName| match topic.shard_number() {
            0 => self.known_shards.get(topic),
            _ => Some(Shards::one(topic)),
        };
        let known: Vec<Option<Shards>> = topics.iter().map(known).collect();
        let unknown = topics.iter().zip(&known).filter(|(_, known)| known.is_none());
        let calls = unknown.map(|(topic, _)| self.shards_call(topic)).collect();
        let mut answers = script::run(&self.connection, calls).await?.into_iter();
        let mut all = Vec::with_capacity(topics.len());
        for (topic, known) in topics.iter().zip(known) {
            all.push(match known {
                Some(shards) => shards,
                None => self.learn_shards(topic, answers.next().unwrap_or(Ok(Value::Nil))?)?,
            });
        }
        Ok(all)
    }

    /// The shard in which each of some jobs lives, or is to live: where its id is known from earlier
    /// numbers of shards, or else at home. Jobs are given by their key, or their id where they have
    /// none, and by their id. Two pushes of one id at once, of which one does not know the number of
    /// shards yet, may both find it nowhere.
    pub(crate) async fn places(
        &self,
        topic: &TopicName,
        jobs: Vec<(&[u8], &JobId)>,
    ) -> Result<Vec<TopicName>, QueueError> {
        let shards = self.shards(topic).await?;
        if shards.is_one() {
            return Ok(vec![topic.clone(); jobs.len()]);
        }
        let mut places: Vec<TopicName> =
            jobs.iter().map(|(spread_by, _)| shards.home(spread_by)).collect();
        let mut asked: BTreeMap<TopicName, Vec<usize>> = BTreeMap::new();
        for (at, (spread_by, _)) in jobs.iter().enumerate() {
            for old in shards.old_homes(spread_by) {
                asked.entry(old).or_default().push(at);
            }
        }
        for (shard, at) in asked {
            for some in at.chunks(BATCH_MAX) {
                let ids = some.iter().map(|&at| jobs[at].1);
                let call = self.locate(&shard, ids);
                let answers = array(script::run_one(&self.connection, call).await?)?;
                for (&at, found) in some.iter().zip(&answers) {
                    if count(found)? > 0 {
                        places[at] = shard.clone();
                    }
                }
            }
        }
        Ok(places)
    }

    /// Forgets the earlier numbers of a topic's shards if nothing is left in any of them. Who changes
    /// the number calls it before, so that the numbers there were do not add up for ever. Answers
    /// whether only the present one is known now.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn forget_old_shards(&self, topic: &TopicName) -> Result<bool, QueueError> {
        let shards = self.ask_shards(topic).await?;
        if shards.seen == [shards.count] {
            return Ok(true);
        }
        let exist = |shard: TopicName| {
            let keys = self.keys(&shard);
            let mut exist = redis::cmd("EXISTS");
            exist.arg(KEPT.map(|name| keys.key(name)).as_slice());
            exist
        };
        for answer in script::run(&self.connection, shards.all().map(exist).collect()).await? {
            if count(&answer?)? > 0 {
                return Ok(false);
            }
        }
        let seen: Vec<String> = shards.seen.iter().map(u32::to_string).collect();
        let mut call = FORGET_SHARDS.call(&self.keys(topic));
        call.arg(shards.count).arg(seen.join(" "));
        let is_done = count(&script::run_one(&self.connection, call).await?)? > 0;
        self.known_shards.forget(topic);
        Ok(is_done)
    }

    /// Which of these ids, at most [`BATCH_MAX`], are live or leased in any of a topic's shards.
    pub(crate) async fn live_anywhere(
        &self,
        shards: &Shards,
        ids: &[JobId],
    ) -> Result<Vec<bool>, QueueError> {
        let calls = shards.all().map(|shard| self.locate(&shard, ids.iter()));
        let mut live = vec![false; ids.len()];
        for answer in script::run(&self.connection, calls.collect()).await? {
            for (live, found) in live.iter_mut().zip(&array(answer?)?) {
                *live |= count(found)? == LIVE;
            }
        }
        Ok(live)
    }

    fn locate<'i>(&self, shard: &TopicName, ids: impl Iterator<Item = &'i JobId>) -> Cmd {
        let mut call = LOCATE.call(&self.keys(shard));
        for id in ids {
            call.arg(id.as_bytes());
        }
        call
    }

    /// The same, as of now.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn shards_now(&self, topic: &TopicName) -> Result<Shards, QueueError> {
        if topic.shard_number() > 0 {
            return Ok(Shards::one(topic));
        }
        self.ask_shards(topic).await
    }

    async fn ask_shards(&self, topic: &TopicName) -> Result<Shards, QueueError> {
        let answer = script::run_one(&self.connection, self.shards_call(topic)).await?;
        self.learn_shards(topic, answer)
    }

    fn shards_call(&self, topic: &TopicName) -> Cmd {
        let mut call = redis::cmd("HMGET");
        call.arg(self.keys(topic).key("meta")).arg("shards").arg("shards_seen");
        call
    }

    fn learn_shards(&self, topic: &TopicName, answer: Value) -> Result<Shards, QueueError> {
        let shards = Shards::read(topic, answer)?;
        self.known_shards.set(&shards);
        Ok(shards)
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
        // The one that docs/guide/topics.md shows.
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
