//! The key-value store of a topic: small values by name, for the handlers of its jobs. It lives in
//! the topic's first shard, whatever shard a job is in. A verb is one script. An expired value is
//! invisible at once; writes and maintenance delete expired values, a bounded number a call.

use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::TopicName;
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::constants::{BATCH_MAX, KV_NAMES_MAX};
use crate::wire::millis::millis;
use crate::wire::reply::{array, bytes, count, text, unexpected};
use crate::wire::script::{self, KV_ADD, KV_DELETE, KV_GET, KV_PRUNE, KV_SET, LuaScript};

/// Calls that one write makes at most to free space: after the last, every expired name is deleted.
const ROUNDS_MAX: usize = 1 + KV_NAMES_MAX / BATCH_MAX;
/// The wait before a write without a reply is repeated; it doubles each time.
const REPEAT_FIRST: Duration = Duration::from_millis(20);

/// A value and its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// The value.
    pub value: Bytes,
    /// The revision: no two writes of a name share one. 0 for a value that plain commands wrote.
    pub revision: u64,
}

/// The condition of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvCondition {
    /// Always: write whatever the name holds.
    Always,
    /// The name has no value.
    IfAbsent,
    /// The value has this revision.
    IfRevision(u64),
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvWrite<T> {
    /// Written.
    Done(T),
    /// The condition does not hold; nothing was written.
    Conflict,
    /// The store is full ([`KV_NAMES_MAX`], [`KV_BYTES_MAX`](crate::KV_BYTES_MAX)); nothing was
    /// written.
    Full,
    /// The value or the sum is not a 64-bit integer; nothing was written.
    NotANumber,
}

/// Who makes a write, and which one of its writes this is: repeating it after a lost reply is the same
/// write.
#[derive(Debug, Clone, Copy)]
pub(super) struct KvCall<'a> {
    pub(super) caller: &'a str,
    pub(super) number: u64,
    /// It fails if there is no reply by then, however often it was sent.
    pub(super) until: Instant,
}

impl Queue {
    /// The value of a name, if it has one that has not expired.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn kv_get(
        &self,
        topic: &TopicName,
        name: &[u8],
    ) -> Result<Option<KvEntry>, QueueError> {
        let mut call = self.kv_call(&KV_GET, topic);
        call.arg(name);
        let mut found =
            array(script::run_one_idempotent(&self.connection, call).await?)?.into_iter();
        let (Some(value), Some(revision)) = (found.next(), found.next()) else {
            return Ok(None);
        };
        let revision = text(&revision)?.parse().map_err(|_| unexpected(&revision))?;
        Ok(Some(KvEntry { value: bytes(value)?, revision }))
    }

    /// Writes a value if the condition holds; without a `ttl` (1 ms to 10 years) it does not expire.
    /// A name has 1 to 256 bytes, a value at most 64 KiB. Without a reply the value may have been
    /// written.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn kv_set(
        &self,
        topic: &TopicName,
        name: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        condition: KvCondition,
    ) -> Result<KvWrite<()>, QueueError> {
        self.kv_set_by(topic, name, value, (ttl, condition), None).await
    }

    pub(super) async fn kv_set_by(
        &self,
        topic: &TopicName,
        name: &[u8],
        value: &[u8],
        (ttl, condition): (Option<Duration>, KvCondition),
        by: Option<KvCall<'_>>,
    ) -> Result<KvWrite<()>, QueueError> {
        let mut call = self.kv_call(&KV_SET, topic);
        call.arg(name).arg(value).arg(ttl.map_or(0, |ttl| millis(ttl).max(1)));
        match condition {
            KvCondition::Always => call.arg("always"),
            KvCondition::IfAbsent => call.arg("absent"),
            KvCondition::IfRevision(revision) => call.arg(revision),
        };
        for _ in 0..ROUNDS_MAX {
            let reply = match (condition, by) {
                (KvCondition::Always, None) => {
                    script::run_one_idempotent(&self.connection, call.clone()).await?
                }
                _ => self.kv_write(&call, by).await?,
            };
            match text(&reply)? {
                "ok" => return Ok(KvWrite::Done(())),
                "conflict" => return Ok(KvWrite::Conflict),
                "full" => return Ok(KvWrite::Full),
                "again" => {}
                _ => return Err(unexpected(&reply)),
            }
        }
        Ok(KvWrite::Full)
    }

    /// Deletes a value; false if the name had no value.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn kv_delete(&self, topic: &TopicName, name: &[u8]) -> Result<bool, QueueError> {
        self.kv_delete_by(topic, name, None).await
    }

    pub(super) async fn kv_delete_by(
        &self,
        topic: &TopicName,
        name: &[u8],
        by: Option<KvCall<'_>>,
    ) -> Result<bool, QueueError> {
        let mut call = self.kv_call(&KV_DELETE, topic);
        call.arg(name);
        let reply = self.kv_write(&call, by).await?;
        match text(&reply)? {
            "1" => Ok(true),
            "0" => Ok(false),
            _ => Err(unexpected(&reply)),
        }
    }

    /// Adds to a number and returns the sum. A missing value counts as 0. The number is stored as
    /// decimal digits, and its expiry does not change. Without a reply it may have been added.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn kv_add(
        &self,
        topic: &TopicName,
        name: &[u8],
        delta: i64,
    ) -> Result<KvWrite<i64>, QueueError> {
        self.kv_add_by(topic, name, delta, None).await
    }

    pub(super) async fn kv_add_by(
        &self,
        topic: &TopicName,
        name: &[u8],
        delta: i64,
        by: Option<KvCall<'_>>,
    ) -> Result<KvWrite<i64>, QueueError> {
        let mut call = self.kv_call(&KV_ADD, topic);
        call.arg(name).arg(delta);
        for _ in 0..ROUNDS_MAX {
            let reply = array(self.kv_write(&call, by).await?)?;
            match (reply.first().map(text).transpose()?, reply.get(1)) {
                (Some("ok"), Some(sum)) => {
                    let sum = text(sum)?.parse().map_err(|_| unexpected(sum))?;
                    return Ok(KvWrite::Done(sum));
                }
                (Some("nan"), _) => return Ok(KvWrite::NotANumber),
                (Some("full"), _) => return Ok(KvWrite::Full),
                (Some("again"), _) => {}
                _ => return Err(unexpected(&Value::Array(reply))),
            }
        }
        Ok(KvWrite::Full)
    }

    /// Deletes expired values, at most [`BATCH_MAX`]; returns their number.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn kv_prune(&self, topic: &TopicName) -> Result<u64, QueueError> {
        let mut call = self.kv_call(&KV_PRUNE, topic);
        call.arg(BATCH_MAX);
        count(&script::run_one(&self.connection, call).await?)
    }

    /// Sends a write. With a caller it is repeated while its reply is lost, until the caller's deadline.
    async fn kv_write(&self, call: &Cmd, by: Option<KvCall<'_>>) -> Result<Value, QueueError> {
        let mut call = call.clone();
        let Some(KvCall { caller, number, until }) = by else {
            return script::run_one(&self.connection, call).await;
        };
        call.arg(caller).arg(number);
        let mut lost = QueueError::NoReply("no reply in time".to_owned());
        let repeats = async {
            let mut wait = REPEAT_FIRST;
            loop {
                match script::run_one(&self.connection, call.clone()).await {
                    Err(error @ QueueError::NoReply(_)) => lost = error,
                    reply => return reply,
                }
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
        };
        match tokio::time::timeout_at(until.into(), repeats).await {
            Ok(reply) => reply,
            Err(_elapsed) => Err(lost),
        }
    }

    fn kv_call(&self, script: &LuaScript, topic: &TopicName) -> Cmd {
        script.call(&self.keys.of_first(topic))
    }
}
