//! Forgetting what has ended: dead and done jobs past their time, and marks of ids and follow-ups.
//! Every call is bounded and says how much it forgot; no live key is touched. What goes by age or count
//! is asked for shard by shard.

use std::time::Duration;

use duebox_job::{JobId, TopicName};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::constants::BATCH_MAX;
use crate::wire::millis::millis;
use crate::wire::reply::{array, count, unexpected};
use crate::wire::script::{self, KV_SWEEP, LuaScript, PRUNE, SWEEP};

/// What a topic has as long as there is anything that may be forgotten of it.
const FORGETTABLE: [&str; 5] = ["dead", "done", "unique", "inbox", "kv:at"];
/// Entries of each kind that are forgotten of one topic while others wait for theirs.
const TOGETHER_MAX: usize = 100;

/// What a topic keeps of jobs that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// How long a dead job is kept.
    pub dead_for: Duration,
    /// How many of them are.
    pub dead_most: u64,
    /// How long a done job is kept.
    pub done_for: Duration,
    /// How many of them are.
    pub done_most: u64,
}

/// What was forgotten in a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tidied {
    /// Dead jobs.
    pub dead: u64,
    /// Done jobs.
    pub done: u64,
    /// Marks.
    pub marks: Swept,
    /// Values of the topic's store.
    pub values: u64,
    /// There may be more to forget: ask again.
    pub more: bool,
}

/// Marks that were forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Of ids that were held after their job was done.
    pub held: u64,
    /// Of follow-ups that were pushed here.
    pub follow_ups: u64,
}

impl Queue {
    /// Forgets dead jobs that died longer ago than `age`, at most [`BATCH_MAX`]. Answers how many.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn prune_older(&self, topic: &TopicName, age: Duration) -> Result<u64, QueueError> {
        self.prune_by(topic, "before", millis(age)).await
    }

    /// Forgets the oldest dead jobs above `kept`, at most [`BATCH_MAX`]. Answers how many.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn prune_above(&self, topic: &TopicName, kept: u64) -> Result<u64, QueueError> {
        self.prune_by(topic, "above", kept).await
    }

    /// Forgets these dead jobs, every [`BATCH_MAX`] of a shard in one atomic transition. Answers how
    /// many there were.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn prune(&self, topic: &TopicName, ids: &[JobId]) -> Result<u64, QueueError> {
        let shards = self.shards(topic).await?;
        let mut pruned = 0;
        for batch in ids.chunks(BATCH_MAX) {
            for shard in shards.all() {
                let mut call = PRUNE.call(&self.keys.of(&shard));
                call.arg("dead").arg("ids");
                for id in batch {
                    call.arg(id.as_bytes());
                }
                pruned += count(&script::run_one(&self.connection, call).await?)?;
            }
        }
        Ok(pruned)
    }

    /// Forgets what a topic does not keep any more, and marks and values whose time is over: at most
    /// [`BATCH_MAX`] of each, in one pipeline.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn tidy(&self, topic: &TopicName, keep: &Keep) -> Result<Tidied, QueueError> {
        let calls = self.tidy_calls(topic, keep, BATCH_MAX);
        Tidied::read(&mut script::run(&self.connection, calls).await?.into_iter(), BATCH_MAX)
    }

    /// The same for several topics, at most 100 of each kind a topic. Where no topic has anything that
    /// may be forgotten, it is one round trip and one command a topic; else there is one round trip more.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn tidy_all(&self, topics: &[(TopicName, Keep)]) -> Result<Vec<Tidied>, QueueError> {
        let mut tidied = vec![Tidied::default(); topics.len()];
        let exist = |(topic, _): &(TopicName, Keep)| {
            let keys = self.keys.of(topic);
            let mut exist = redis::cmd("EXISTS");
            exist.arg(FORGETTABLE.map(|name| keys.key(name)).as_slice());
            exist
        };
        let (mut asked, mut calls) = (Vec::new(), Vec::new());
        let found = script::run(&self.connection, topics.iter().map(exist).collect()).await?;
        for (found, ((topic, keep), tidied)) in
            found.into_iter().zip(topics.iter().zip(&mut tidied))
        {
            if count(&found?)? > 0 {
                calls.extend(self.tidy_calls(topic, keep, TOGETHER_MAX));
                asked.push(tidied);
            }
        }
        let mut answers = script::run(&self.connection, calls).await?.into_iter();
        for tidied in asked {
            *tidied = Tidied::read(&mut answers, TOGETHER_MAX)?;
        }
        Ok(tidied)
    }

    fn tidy_calls(&self, topic: &TopicName, keep: &Keep, most: usize) -> Vec<Cmd> {
        let keys = self.keys.of(topic);
        let prune = |yard: &str, by: &str, bound: u64| {
            let mut call = PRUNE.call(&keys);
            call.arg(yard).arg(by).arg(bound).arg(most);
            call
        };
        let sweep = |script: &LuaScript| {
            let mut call = script.call(&keys);
            call.arg(most);
            call
        };
        vec![
            prune("dead", "before", millis(keep.dead_for)),
            prune("dead", "above", keep.dead_most),
            prune("done", "before", millis(keep.done_for)),
            prune("done", "above", keep.done_most),
            sweep(&SWEEP),
            sweep(&KV_SWEEP),
        ]
    }

    /// Forgets marks whose time is over, at most [`BATCH_MAX`] of each kind.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn sweep(&self, topic: &TopicName) -> Result<Swept, QueueError> {
        let mut call = SWEEP.call(&self.keys.of(topic));
        call.arg(BATCH_MAX);
        Swept::read(script::run_one(&self.connection, call).await?)
    }

    async fn prune_by(&self, topic: &TopicName, by: &str, bound: u64) -> Result<u64, QueueError> {
        let mut call = PRUNE.call(&self.keys.of(topic));
        call.arg("dead").arg(by).arg(bound).arg(BATCH_MAX);
        count(&script::run_one(&self.connection, call).await?)
    }
}

impl Tidied {
    /// What the calls of one topic answered, each of which forgot `most` at most.
    fn read(
        answers: &mut impl Iterator<Item = Result<Value, QueueError>>,
        most: usize,
    ) -> Result<Self, QueueError> {
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
        let pruned = [count(&next()?)?, count(&next()?)?, count(&next()?)?, count(&next()?)?];
        let (marks, values) = (Swept::read(next()?)?, count(&next()?)?);
        let largest = pruned.into_iter().chain([marks.held, marks.follow_ups, values]).max();
        Ok(Self {
            dead: pruned[0] + pruned[1],
            done: pruned[2] + pruned[3],
            marks,
            values,
            more: largest >= Some(most as u64),
        })
    }
}

impl Swept {
    fn read(answer: Value) -> Result<Self, QueueError> {
        let marks = array(answer)?;
        let [held, follow_ups] = marks.as_slice() else {
            return Err(unexpected(&Value::Array(marks)));
        };
        Ok(Self { held: count(held)?, follow_ups: count(follow_ups)? })
    }
}
