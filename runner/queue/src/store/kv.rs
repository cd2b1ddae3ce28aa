//! The store of a topic: small values by name, for the handlers of its jobs. It stands under the tag of
//! the topic's first shard, whatever shard a job is in. One verb is one script; what is over is gone for
//! every verb at once, and taken away by the writing ones and by the keeper, a bounded number a call.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::TopicName;
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::constants::{BATCH_MAX, KV_NAMES_MAX};
use crate::wire::millis::millis;
use crate::wire::reply::{array, bytes, count, text, unexpected};
use crate::wire::script::{self, KV_ADD, KV_DELETE, KV_GET, KV_SET, KV_SWEEP, LuaScript};

/// Calls of one verb that make room for what it writes: the last of all names is over by then.
const ROUNDS_MAX: usize = 1 + KV_NAMES_MAX / BATCH_MAX;

/// A value, and which writing of its name it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// The value.
    pub value: Bytes,
    /// Its revision: no two writings of a name have the same. 0 for one that plain commands wrote.
    pub revision: u64,
}

/// When a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvCondition {
    /// Whatever is there.
    Always,
    /// If nothing is under the name.
    IfAbsent,
    /// If what is there has this revision.
    IfRevision(u64),
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvWrite<T> {
    /// It is done.
    Done(T),
    /// The condition does not hold; nothing was written.
    Conflict,
    /// There is no room: [`KV_NAMES_MAX`], [`KV_BYTES_MAX`](crate::KV_BYTES_MAX). Nothing was written.
    Full,
    /// What is there is no whole number of 64 bits, or the sum would be none. Nothing was written.
    NotANumber,
}

impl Queue {
    /// The value under a name of the topic's store, if there is one and its time is not over.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn kv_get(
        &self,
        topic: &TopicName,
        name: &[u8],
    ) -> Result<Option<KvEntry>, QueueError> {
        let mut call = self.kv_call(&KV_GET, topic);
        call.arg(name);
        let mut found = array(script::run_one(&self.connection, call).await?)?.into_iter();
        let (Some(value), Some(revision)) = (found.next(), found.next()) else {
            return Ok(None);
        };
        let revision = text(&revision)?.parse().map_err(|_| unexpected(&revision))?;
        Ok(Some(KvEntry { value: bytes(value)?, revision }))
    }

    /// Writes a value, for a time (1 ms to 10 years) or for ever, if the condition holds. A name has 1 to
    /// 256 bytes, a value at most 64 KiB. Without an answer it was written or not.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn kv_set(
        &self,
        topic: &TopicName,
        name: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        condition: KvCondition,
    ) -> Result<KvWrite<()>, QueueError> {
        let mut call = self.kv_call(&KV_SET, topic);
        call.arg(name).arg(value).arg(ttl.map_or(0, |ttl| millis(ttl).max(1)));
        match condition {
            KvCondition::Always => call.arg("always"),
            KvCondition::IfAbsent => call.arg("absent"),
            KvCondition::IfRevision(revision) => call.arg(revision),
        };
        for _ in 0..ROUNDS_MAX {
            let answer = script::run_one(&self.connection, call.clone()).await?;
            match text(&answer)? {
                "ok" => return Ok(KvWrite::Done(())),
                "conflict" => return Ok(KvWrite::Conflict),
                "full" => return Ok(KvWrite::Full),
                "again" => {}
                _ => return Err(unexpected(&answer)),
            }
        }
        Ok(KvWrite::Full)
    }

    /// Takes a value away. Answers whether there was one.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn kv_delete(&self, topic: &TopicName, name: &[u8]) -> Result<bool, QueueError> {
        let mut call = self.kv_call(&KV_DELETE, topic);
        call.arg(name);
        Ok(count(&script::run_one(&self.connection, call).await?)? > 0)
    }

    /// Adds to a number, which is 0 where there is none, and answers the sum. It is kept as decimal
    /// digits, for as long as it would have been. Without an answer it was added or not.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn kv_add(
        &self,
        topic: &TopicName,
        name: &[u8],
        delta: i64,
    ) -> Result<KvWrite<i64>, QueueError> {
        let mut call = self.kv_call(&KV_ADD, topic);
        call.arg(name).arg(delta);
        for _ in 0..ROUNDS_MAX {
            let answer = array(script::run_one(&self.connection, call.clone()).await?)?;
            match (answer.first().map(text).transpose()?, answer.get(1)) {
                (Some("ok"), Some(sum)) => {
                    let sum = text(sum)?.parse().map_err(|_| unexpected(sum))?;
                    return Ok(KvWrite::Done(sum));
                }
                (Some("nan"), _) => return Ok(KvWrite::NotANumber),
                (Some("full"), _) => return Ok(KvWrite::Full),
                (Some("again"), _) => {}
                _ => return Err(unexpected(&Value::Array(answer))),
            }
        }
        Ok(KvWrite::Full)
    }

    /// Takes values away whose time is over, at most [`BATCH_MAX`]. Answers how many.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn kv_sweep(&self, topic: &TopicName) -> Result<u64, QueueError> {
        let mut call = self.kv_call(&KV_SWEEP, topic);
        call.arg(BATCH_MAX);
        count(&script::run_one(&self.connection, call).await?)
    }

    fn kv_call(&self, script: &LuaScript, topic: &TopicName) -> Cmd {
        script.call(&self.keys.of(&topic.base()))
    }
}
