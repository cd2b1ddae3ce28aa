//! Asks Redis over how many shards a topic is split, and in which of them a job is.

use std::collections::BTreeMap;

use duebox_job::{JobId, Shard, TopicName};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::{QueueError, for_each_topic};
use crate::topic::shards::Shards;
use crate::wire::constants::BATCH_MAX;
use crate::wire::reply::{array, count};
use crate::wire::script::{self, FORGET_SHARDS, LOCATE};

/// Keys that exist as long as a shard holds anything that a call may ask for.
const KEPT: [&str; 7] = ["jobs", "unack", "dead", "done", "unique", "outbox", "inbox"];
/// The reply of `locate` for an id that is live or leased.
const LIVE: u64 = 2;

impl Queue {
    /// The shards of a topic, as of at most a second ago.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn shards(&self, topic: &TopicName) -> Result<Shards, QueueError> {
        match self.known_shards.get(topic) {
            Some(shards) => Ok(shards),
            None => self.ask_shards(topic).await,
        }
    }

    /// The shards of several topics, in one pipeline. No round trip if all are cached. A topic whose keys
    /// Redis refuses has an error of its own.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn shards_of_all(
        &self,
        topics: &[TopicName],
    ) -> Result<Vec<Result<Shards, QueueError>>, QueueError> {
        let known: Vec<Option<Shards>> =
            topics.iter().map(|topic| self.known_shards.get(topic)).collect();
        let unknown = topics.iter().zip(&known).filter(|(_, known)| known.is_none());
        let calls = unknown.map(|(topic, _)| self.shards_call(topic)).collect();
        let mut replies = script::run_idempotent(&self.connection, calls).await?.into_iter();
        let mut all = Vec::with_capacity(topics.len());
        for (topic, known) in topics.iter().zip(known) {
            all.push(match known {
                Some(shards) => Ok(shards),
                None => {
                    let reply = replies.next().unwrap_or(Ok(Value::Nil));
                    reply.and_then(|reply| self.learn_shards(topic, reply))
                }
            });
        }
        for_each_topic(all)
    }

    /// The shard of each job: where its id is already known under an earlier number of shards, else
    /// its home. A job is given by its key (or its id, where it has no key) and by its id. If two
    /// pushes of one id run at once and one of them has a stale number of shards, neither may find
    /// the other.
    pub(crate) async fn shard_of_each(
        &self,
        topic: &TopicName,
        jobs: Vec<(&[u8], &JobId)>,
    ) -> Result<Vec<Shard>, QueueError> {
        let shards = self.shards(topic).await?;
        if shards.is_one() {
            return Ok(vec![topic.first_shard(); jobs.len()]);
        }
        let mut shard_of_each: Vec<Shard> =
            jobs.iter().map(|(spread_by, _)| shards.home(spread_by)).collect();
        let mut asked: BTreeMap<Shard, Vec<usize>> = BTreeMap::new();
        for (at, (spread_by, _)) in jobs.iter().enumerate() {
            for old in shards.old_homes(spread_by) {
                asked.entry(old).or_default().push(at);
            }
        }
        for (shard, at) in asked {
            for some in at.chunks(BATCH_MAX) {
                let ids = some.iter().map(|&at| jobs[at].1);
                let call = self.locate(&shard, ids);
                let replies = array(script::run_one_idempotent(&self.connection, call).await?)?;
                for (&at, found) in some.iter().zip(&replies) {
                    if count(found)? > 0 {
                        shard_of_each[at] = shard.clone();
                    }
                }
            }
        }
        Ok(shard_of_each)
    }

    /// Forgets earlier numbers of shards if their shards are empty. Call it before the number changes
    /// again, so that the list stays short. True if only the current number is known now.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn forget_old_shards(&self, topic: &TopicName) -> Result<bool, QueueError> {
        let shards = self.ask_shards(topic).await?;
        if shards.seen == [shards.count] {
            return Ok(true);
        }
        let exist = |shard: Shard| {
            let keys = self.keys.of(&shard);
            let mut exist = redis::cmd("EXISTS");
            exist.arg(KEPT.map(|name| keys.key(name)).as_slice());
            exist
        };
        for reply in
            script::run_idempotent(&self.connection, shards.all().map(exist).collect()).await?
        {
            if count(&reply?)? > 0 {
                return Ok(false);
            }
        }
        let seen: Vec<String> = shards.seen.iter().map(u32::to_string).collect();
        let mut call = FORGET_SHARDS.call(&self.keys.of_first(topic));
        call.arg(shards.count).arg(seen.join(" "));
        let is_done = count(&script::run_one_idempotent(&self.connection, call).await?)? > 0;
        self.known_shards.forget(topic);
        Ok(is_done)
    }

    /// True for each id, at most [`BATCH_MAX`], that is live or leased in any shard of the topic.
    pub(crate) async fn live_anywhere(
        &self,
        shards: &Shards,
        ids: &[JobId],
    ) -> Result<Vec<bool>, QueueError> {
        let calls = shards.all().map(|shard| self.locate(&shard, ids.iter()));
        let mut live = vec![false; ids.len()];
        for reply in script::run_idempotent(&self.connection, calls.collect()).await? {
            for (live, found) in live.iter_mut().zip(&array(reply?)?) {
                *live |= count(found)? == LIVE;
            }
        }
        Ok(live)
    }

    fn locate<'i>(&self, shard: &Shard, ids: impl Iterator<Item = &'i JobId>) -> Cmd {
        let mut call = LOCATE.call(&self.keys.of(shard));
        for id in ids {
            call.arg(id.as_bytes());
        }
        call
    }

    /// The shards of a topic, without the cache.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn shards_now(&self, topic: &TopicName) -> Result<Shards, QueueError> {
        self.ask_shards(topic).await
    }

    async fn ask_shards(&self, topic: &TopicName) -> Result<Shards, QueueError> {
        let reply = script::run_one_idempotent(&self.connection, self.shards_call(topic)).await?;
        self.learn_shards(topic, reply)
    }

    fn shards_call(&self, topic: &TopicName) -> Cmd {
        let mut call = redis::cmd("HMGET");
        call.arg(self.keys.of_first(topic).key("meta")).arg("shards").arg("shards_seen");
        call
    }

    fn learn_shards(&self, topic: &TopicName, reply: Value) -> Result<Shards, QueueError> {
        let shards = Shards::read(topic, reply)?;
        self.known_shards.set(&shards);
        Ok(shards)
    }
}
