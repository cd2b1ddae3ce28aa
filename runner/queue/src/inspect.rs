//! Looking at the queue without changing it. Every question costs O(log n) or less a topic.

use std::time::Duration;

use duebox_job::TopicName;
use redis::Value;
use serde::Serialize;

use crate::reply::{array, count, optional_score, score, text, unexpected};
use crate::script::{self, PEEK};
use crate::{Queue, QueueError};

/// How many jobs of a topic are in each state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Depths {
    /// Not yet due.
    pub pending: u64,
    /// Due, waiting for a runner.
    pub ready: u64,
    /// Leased to a runner.
    pub unack: u64,
    /// Failed, waiting for the next attempt.
    pub retry: u64,
    /// Given up.
    pub dead: u64,
    /// When the oldest ready job fell due, unix ms.
    pub oldest_ready_ms: Option<u64>,
    /// When the next pending or retried job falls due, unix ms.
    pub next_due_ms: Option<u64>,
    /// Redis' clock when it was asked, unix ms.
    pub now_ms: u64,
}

/// Commands that [`Queue::depths`] sends for one topic.
const DEPTH_COMMANDS: usize = 8;

impl Queue {
    /// Every topic that was pushed to or served, in the order of their names. Names that no topic
    /// can have are left out.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn topics(&self) -> Result<Vec<TopicName>, QueueError> {
        let mut members = redis::cmd("SMEMBERS");
        members.arg(self.topics_key());
        let mut topics = Vec::new();
        for name in array(script::run_one(&self.connection, members).await?)? {
            if let Some(topic) = text(&name).ok().and_then(|name| TopicName::new(name).ok()) {
                topics.push(topic);
            }
        }
        topics.sort();
        Ok(topics)
    }

    /// Makes topics known in `duebox:topics`.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn register(&self, topics: &[TopicName]) -> Result<(), QueueError> {
        if topics.is_empty() {
            return Ok(());
        }
        let mut add = redis::cmd("SADD");
        add.arg(self.topics_key());
        for topic in topics {
            add.arg(topic.as_str());
        }
        script::run_one(&self.connection, add).await.map(drop)
    }

    /// How soon each topic has work for a runner, in one pipeline; none if nothing is known.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn peek(&self, topics: &[TopicName]) -> Result<Vec<Option<Duration>>, QueueError> {
        if topics.is_empty() {
            return Ok(Vec::new());
        }
        let mut calls = Vec::with_capacity(topics.len());
        for topic in topics {
            let keys = self.keys(topic);
            calls.push(PEEK.call(&keys));
        }
        let answers = script::run(&self.connection, calls).await?;
        let read = |answer: Result<Value, QueueError>| {
            Ok(optional_score(&answer?)?.map(Duration::from_millis))
        };
        answers.into_iter().map(read).collect()
    }

    /// How many jobs of each topic are in each state, in one pipeline.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn depths(&self, topics: &[TopicName]) -> Result<Vec<Depths>, QueueError> {
        if topics.is_empty() {
            return Ok(Vec::new());
        }
        let mut calls = Vec::with_capacity(topics.len() * DEPTH_COMMANDS + 1);
        for topic in topics {
            let keys = self.keys(topic);
            for stage in [
                keys.key("pending"),
                keys.key("ready"),
                keys.key("unack"),
                keys.key("retry"),
                keys.key("dead"),
            ] {
                let mut size = redis::cmd("ZCARD");
                size.arg(stage);
                calls.push(size);
            }
            for stage in [keys.key("ready"), keys.key("pending"), keys.key("retry")] {
                let mut first = redis::cmd("ZRANGE");
                first.arg(stage).arg(0).arg(0).arg("WITHSCORES");
                calls.push(first);
            }
        }
        calls.push(redis::cmd("TIME"));
        let mut answers = script::run(&self.connection, calls).await?;
        let now_ms = read_time(answers.pop().unwrap_or(Ok(Value::Nil))?)?;
        let mut values = answers.into_iter();
        let mut depths = Vec::with_capacity(topics.len());
        for _ in topics {
            let fields = values.by_ref().take(DEPTH_COMMANDS).collect::<Result<Vec<_>, _>>()?;
            depths.push(Depths::read(fields, now_ms)?);
        }
        Ok(depths)
    }
}

impl Depths {
    fn read(fields: Vec<Value>, now_ms: u64) -> Result<Self, QueueError> {
        let Ok([pending, ready, unack, retry, dead, first_ready, first_pending, first_retry]) =
            <[Value; DEPTH_COMMANDS]>::try_from(fields)
        else {
            return Err(QueueError::Answer("a topic's depths are cut short".to_owned()));
        };
        let next_due = [first_score(first_pending)?, first_score(first_retry)?];
        Ok(Self {
            pending: count(&pending)?,
            ready: count(&ready)?,
            unack: count(&unack)?,
            retry: count(&retry)?,
            dead: count(&dead)?,
            oldest_ready_ms: first_score(first_ready)?,
            next_due_ms: next_due.into_iter().flatten().min(),
            now_ms,
        })
    }
}

fn first_score(range: Value) -> Result<Option<u64>, QueueError> {
    match array(range)?.as_slice() {
        [_, first] => Ok(Some(score(text(first)?))),
        _ => Ok(None),
    }
}

fn read_time(time: Value) -> Result<u64, QueueError> {
    let fields = array(time)?;
    let [seconds, micros] = fields.as_slice() else {
        return Err(unexpected(&Value::Array(fields)));
    };
    Ok(score(text(seconds)?) * 1_000 + score(text(micros)?) / 1_000)
}
