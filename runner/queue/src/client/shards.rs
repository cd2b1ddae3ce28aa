//! Asks Redis over how many shards a topic is split, and in which of them a job is.

use std::collections::BTreeMap;

use duebox_job::{JobId, TopicName};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::topic::shards::Shards;
use crate::wire::constants::BATCH_MAX;
use crate::wire::reply::{array, count};
use crate::wire::script::{self, FORGET_SHARDS, LOCATE};

/// What a shard has as long as it has anything that may be asked for.
const KEPT: [&str; 7] = ["jobs", "unack", "dead", "done", "unique", "outbox", "inbox"];
/// What `locate` answers for an id that is live or leased.
const LIVE: u64 = 2;

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
            let keys = self.keys.of(&shard);
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
        let mut call = FORGET_SHARDS.call(&self.keys.of(topic));
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
        let mut call = LOCATE.call(&self.keys.of(shard));
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
        call.arg(self.keys.of(topic).key("meta")).arg("shards").arg("shards_seen");
        call
    }

    fn learn_shards(&self, topic: &TopicName, answer: Value) -> Result<Shards, QueueError> {
        let shards = Shards::read(topic, answer)?;
        self.known_shards.set(&shards);
        Ok(shards)
    }
}
