//! Reads the state of the queue. Every question costs O(log n) or less a topic.

use std::time::Duration;

use duebox_job::{Shard, TopicName};
use redis::{Cmd, Value};
use serde::Serialize;

use crate::client::Queue;
use crate::error::{QueueError, for_each_topic};
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
    /// Why some of this could not be read and counts 0: a key of a wrong type, for example.
    pub fault: Option<String>,
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

/// The keys of which a topic with a job, a past or settings has one.
const TOPIC_KEYS: [&str; 11] = [
    "meta", "jobs", "pending", "ready", "blocked", "unack", "retry", "dead", "done", "outbox", "kv",
];

impl Queue {
    /// All topics in `duebox:topics`, by name. Invalid names are left out.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn topics(&self) -> Result<Vec<TopicName>, QueueError> {
        let mut members = redis::cmd("SMEMBERS");
        members.arg(self.keys.topics_key());
        let mut topics = Vec::new();
        for name in array(script::run_one_idempotent(&self.connection, members).await?)? {
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
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn register(&self, topics: &[TopicName]) -> Result<(), QueueError> {
        if topics.is_empty() {
            return Ok(());
        }
        let mut add = redis::cmd("SADD");
        add.arg(self.keys.topics_key());
        for topic in topics {
            add.arg(topic.as_str());
        }
        script::run_one_idempotent(&self.connection, add).await.map(drop)
    }

    /// True if a topic is in `duebox:topics`: a runner served it, or a script pushed to it. False if that
    /// key holds something else.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn is_registered(&self, topic: &TopicName) -> Result<bool, QueueError> {
        let mut member = redis::cmd("SISMEMBER");
        member.arg(self.keys.topics_key()).arg(topic.as_str());
        match script::run_one_idempotent(&self.connection, member).await {
            Err(error) if error.is_of_topic() => Ok(false),
            reply => Ok(count(&reply?)? > 0),
        }
    }

    /// True if Redis knows a topic: it is registered, or a plain producer has pushed to it.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn has_topic(&self, topic: &TopicName) -> Result<bool, QueueError> {
        if self.is_registered(topic).await? {
            return Ok(true);
        }
        let mut exists = redis::cmd("EXISTS");
        let keys = self.keys.of_first(topic);
        for name in TOPIC_KEYS {
            exists.arg(keys.key(name));
        }
        Ok(count(&script::run_one_idempotent(&self.connection, exists).await?)? > 0)
    }

    /// How soon each shard has work for a runner; none if nothing is known to come. A shard whose keys Redis
    /// refuses has an error of its own. On a single server one command asks whether any of them holds a job: an
    /// idle daemon asks no more. Otherwise one pipeline asks each shard whether anything waits or is leased, and a
    /// second one looks at those where it does.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn peek(
        &self,
        shards: &[Shard],
    ) -> Result<Vec<Result<Option<Duration>, QueueError>>, QueueError> {
        if shards.len() > 1 && !self.connection.is_cluster() {
            let any =
                script::run_idempotent(&self.connection, vec![self.hold_jobs(shards)]).await?;
            // An error, as for a key that the user may not read, is told for each shard.
            if let [Ok(found)] = &any[..]
                && count(found) == Ok(0)
            {
                return Ok(shards.iter().map(|_| Ok(None)).collect());
            }
        }
        let asked =
            shards.iter().map(|shard| self.hold_jobs(std::slice::from_ref(shard))).collect();
        let counts = script::run_idempotent(&self.connection, asked).await?;
        let counts: Vec<_> =
            counts.into_iter().map(|reply| reply.and_then(|reply| count(&reply))).collect();
        let busy = shards.iter().zip(&counts).filter(|(_, keys)| matches!(keys, Ok(1..)));
        let looks = busy.map(|(shard, _)| PEEK.call(&self.keys.of(shard))).collect();
        let mut looks = script::run_idempotent(&self.connection, looks).await?.into_iter();
        let missing = || QueueError::BadReply("a reply is missing".to_owned());
        let read = |keys: Result<u64, QueueError>| match keys? {
            0 => Ok(None),
            _ => {
                let reply = looks.next().ok_or_else(missing)??;
                Ok(optional_score(&reply)?.map(Duration::from_millis))
            }
        };
        for_each_topic(counts.into_iter().map(read))
    }

    /// Asks how many keys with jobs that wait or are leased some shards have.
    fn hold_jobs(&self, shards: &[Shard]) -> Cmd {
        let mut call = redis::cmd("EXISTS");
        call.arg(self.keys.of_each(shards, &["pending", "ready", "unack", "retry"]));
        call
    }

    /// Jobs of each topic by state, over all its shards, in one pipeline; in two if the number of
    /// shards is not cached for all. What Redis refuses counts 0, and [`Depths::fault`] says why.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn depths(&self, topics: &[TopicName]) -> Result<Vec<Depths>, QueueError> {
        if topics.is_empty() {
            return Ok(Vec::new());
        }
        let mut calls = Vec::with_capacity(topics.len() * DEPTH_COMMANDS + 1);
        let mut asked = Vec::with_capacity(topics.len());
        for (topic, shards) in topics.iter().zip(self.shards_of_all(topics).await?) {
            let (shards, fault) = match shards {
                Ok(shards) => (shards.all().collect(), None),
                Err(error) => (vec![topic.first_shard()], Some(error.to_string())),
            };
            for shard in &shards {
                calls.extend(depth_commands(&self.keys.of(shard)));
            }
            asked.push((shards.len(), fault));
        }
        calls.push(redis::cmd("TIME"));
        let mut replies = script::run_idempotent(&self.connection, calls).await?;
        let now_ms = read_time(replies.pop().unwrap_or(Ok(Value::Nil))?)?;
        let mut values = for_each_topic(replies)?.into_iter();
        let mut depths = Vec::with_capacity(topics.len());
        for (shards, fault) in asked {
            let mut whole = Depths { now_ms, fault, ..Depths::default() };
            for _ in 0..shards {
                whole.add(values.by_ref().take(DEPTH_COMMANDS));
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
    fn add(&mut self, replies: impl Iterator<Item = Result<Value, QueueError>>) {
        let mut fields = Fields { replies, fault: None };
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
            let read = fields.next(|value| count(&value)).unwrap_or_default();
            *number = number.saturating_add(read);
        }
        let is_paused = |value| match value {
            Value::Nil => Ok(false),
            value => Ok(text(&value)? != "0"),
        };
        self.paused |= fields.next(is_paused).unwrap_or_default();
        for _ in READY_RANGES {
            let first = fields.next(first_score).flatten();
            self.oldest_ready_ms = sooner(self.oldest_ready_ms, first.as_deref().map(due_of_ready));
        }
        for _ in TIMED {
            let first = fields.next(first_score).flatten();
            self.next_due_ms = sooner(self.next_due_ms, first.as_deref().map(score));
        }
        if let Some(error) = fields.fault {
            self.fault.get_or_insert_with(|| error.to_string());
        }
    }
}

/// The replies of one shard, and the first error among them.
struct Fields<I> {
    replies: I,
    fault: Option<QueueError>,
}

impl<I: Iterator<Item = Result<Value, QueueError>>> Fields<I> {
    /// Reads the next reply; none if it cannot be read.
    fn next<T>(&mut self, read: impl FnOnce(Value) -> Result<T, QueueError>) -> Option<T> {
        let missing = || Err(QueueError::BadReply("a topic's depths are cut short".to_owned()));
        match self.replies.next().unwrap_or_else(missing).and_then(read) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault.get_or_insert(error);
                None
            }
        }
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
