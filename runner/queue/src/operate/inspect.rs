//! Reads the state of the queue. Every question costs O(log n) or less a topic.

use std::time::Duration;

use duebox_job::{Shard, TopicName};
use redis::{Cmd, Value};
use serde::Serialize;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::keys::ShardKeys;
use crate::wire::reply::{array, count, optional_score, read_time, score, text};
use crate::wire::score::due_of_ready;
use crate::wire::script::{self, PEEK};

/// Jobs of a topic by state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Depths {
    /// Not yet due.
    pub pending: u64,
    /// Due, waiting for a runner.
    pub ready: u64,
    /// Due, waiting for earlier jobs of their key.
    pub blocked: u64,
    /// Leased to a runner.
    pub unack: u64,
    /// Failed, waiting for the next attempt.
    pub retry: u64,
    /// Given up.
    pub dead: u64,
    /// Acked, and kept for a while.
    pub done: u64,
    /// Acked jobs whose follow-ups are not all pushed yet.
    pub outbox: u64,
    /// Reserved ids of done jobs, some of which may have expired.
    pub held: u64,
    /// True if the topic is paused.
    pub paused: bool,
    /// When the oldest ready job fell due, unix ms.
    pub oldest_ready_ms: Option<u64>,
    /// When the next job in pending or retry falls due, unix ms.
    pub next_due_ms: Option<u64>,
    /// The clock of Redis at the time of the call, unix ms.
    pub now_ms: u64,
}

/// The zsets that are counted.
const COUNTED: [&str; 8] =
    ["pending", "ready", "blocked", "unack", "retry", "dead", "done", "unique"];
/// The scores of each priority in `ready`; the first of each range is its oldest.
const READY_RANGES: [(&str, &str); 3] = [("-inf", "(0"), ("0", "1e14"), ("(1e14", "+inf")];
/// The states in which jobs wait for a time.
const TIMED: [&str; 2] = ["pending", "retry"];
/// Commands that [`Queue::depths`] sends for one topic.
const DEPTH_COMMANDS: usize = COUNTED.len() + READY_RANGES.len() + TIMED.len() + 2;

impl Queue {
    /// All topics in `duebox:topics`, by name. Invalid names are left out.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn topics(&self) -> Result<Vec<TopicName>, QueueError> {
        let mut members = redis::cmd("SMEMBERS");
        members.arg(self.keys.topics_key());
        let mut topics = Vec::new();
        for name in array(script::run_one(&self.connection, members).await?)? {
            if let Some(topic) = text(&name).ok().and_then(|name| TopicName::new(name).ok()) {
                topics.push(topic);
            }
        }
        topics.sort();
        Ok(topics)
    }

    /// Adds topics to `duebox:topics`.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn register(&self, topics: &[TopicName]) -> Result<(), QueueError> {
        if topics.is_empty() {
            return Ok(());
        }
        let mut add = redis::cmd("SADD");
        add.arg(self.keys.topics_key());
        for topic in topics {
            add.arg(topic.as_str());
        }
        script::run_one(&self.connection, add).await.map(drop)
    }

    /// True if a topic is in `duebox:topics`: a runner served it, or a script pushed to it.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn is_registered(&self, topic: &TopicName) -> Result<bool, QueueError> {
        let mut member = redis::cmd("SISMEMBER");
        member.arg(self.keys.topics_key()).arg(topic.as_str());
        Ok(count(&script::run_one(&self.connection, member).await?)? > 0)
    }

    /// How soon each shard has work for a runner, in one pipeline; none if nothing is known to come.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn peek(&self, shards: &[Shard]) -> Result<Vec<Option<Duration>>, QueueError> {
        let peek = |shard: &Shard| PEEK.call(&self.keys.of(shard));
        let answers = script::run(&self.connection, shards.iter().map(peek).collect()).await?;
        let read = |answer: Result<Value, QueueError>| {
            Ok(optional_score(&answer?)?.map(Duration::from_millis))
        };
        answers.into_iter().map(read).collect()
    }

    /// Jobs of each topic by state, over all its shards, in one pipeline; in two if the number of
    /// shards is not cached for all.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn depths(&self, topics: &[TopicName]) -> Result<Vec<Depths>, QueueError> {
        if topics.is_empty() {
            return Ok(Vec::new());
        }
        let mut calls = Vec::with_capacity(topics.len() * DEPTH_COMMANDS + 1);
        let mut counts = Vec::with_capacity(topics.len());
        for shards in self.shards_of_all(topics).await? {
            counts.push(shards.all().count());
            for shard in shards.all() {
                calls.extend(depth_commands(&self.keys.of(&shard)));
            }
        }
        calls.push(redis::cmd("TIME"));
        let mut answers = script::run(&self.connection, calls).await?;
        let now_ms = read_time(answers.pop().unwrap_or(Ok(Value::Nil))?)?;
        let mut values = answers.into_iter();
        let mut depths = Vec::with_capacity(topics.len());
        for shards in counts {
            let mut whole = Depths { now_ms, ..Depths::default() };
            for _ in 0..shards {
                let fields = values.by_ref().take(DEPTH_COMMANDS).collect::<Result<Vec<_>, _>>()?;
                whole.add(fields)?;
            }
            depths.push(whole);
        }
        Ok(depths)
    }
}

fn depth_commands(keys: &ShardKeys) -> Vec<Cmd> {
    let mut calls = Vec::with_capacity(DEPTH_COMMANDS);
    let mut ask = |command: &str, name: &str, args: &[&str]| {
        let mut call = redis::cmd(command);
        call.arg(keys.key(name)).arg(args);
        calls.push(call);
    };
    for name in COUNTED {
        ask("ZCARD", name, &[]);
    }
    ask("HLEN", "outbox", &[]);
    ask("HGET", "meta", &["paused"]);
    for (least, most) in READY_RANGES {
        ask("ZRANGEBYSCORE", "ready", &[least, most, "WITHSCORES", "LIMIT", "0", "1"]);
    }
    for name in TIMED {
        ask("ZRANGE", name, &["0", "0", "WITHSCORES"]);
    }
    calls
}

impl Depths {
    /// Adds the replies of one shard to [`depth_commands`].
    fn add(&mut self, fields: Vec<Value>) -> Result<(), QueueError> {
        let mut fields = fields.into_iter();
        let mut next = || {
            fields.next().ok_or_else(|| QueueError::Answer("a topic's depths are cut short".into()))
        };
        for number in [
            &mut self.pending,
            &mut self.ready,
            &mut self.blocked,
            &mut self.unack,
            &mut self.retry,
            &mut self.dead,
            &mut self.done,
            &mut self.held,
            &mut self.outbox,
        ] {
            *number += count(&next()?)?;
        }
        self.paused |= match next()? {
            Value::Nil => false,
            value => text(&value)? != "0",
        };
        for _ in READY_RANGES {
            let first = first_score(next()?)?.as_deref().map(due_of_ready);
            self.oldest_ready_ms = sooner(self.oldest_ready_ms, first);
        }
        for _ in TIMED {
            let first = first_score(next()?)?.as_deref().map(score);
            self.next_due_ms = sooner(self.next_due_ms, first);
        }
        Ok(())
    }
}

fn sooner(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// The first score of a range, as Redis writes it.
fn first_score(range: Value) -> Result<Option<String>, QueueError> {
    match array(range)?.as_slice() {
        [_, first] => Ok(Some(text(first)?.to_owned())),
        _ => Ok(None),
    }
}
