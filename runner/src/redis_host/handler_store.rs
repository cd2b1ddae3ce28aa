//! The store that handlers have, in Redis: where the sandbox asks and the queue answers. It has a
//! connection of its own, so that no value of a guest stands before the jobs of others.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::TopicName;
use duebox_queue::{KvCondition, KvWrite, LatencyStats, Queue, QueueError};
use duebox_sandbox::{Condition, Entry, KeyValue, KvError};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

// The sandbox tells handlers which bounds there are, and the queue keeps them.
const _: () = assert!(duebox_queue::KV_NAMES_MAX == duebox_sandbox::KEYS_MAX);
const _: () = assert!(duebox_queue::KV_BYTES_MAX == duebox_sandbox::BYTES_MAX);

/// The stores of all topics, in Redis.
pub struct RedisKv(Queue);

impl RedisKv {
    /// The stores behind this handle, which nothing else should use.
    pub fn new(queue: Queue) -> Self {
        Self(queue)
    }

    /// What the stores asked of Redis so far.
    pub fn traffic(&self) -> Arc<LatencyStats> {
        self.0.latency_stats()
    }
}

impl KeyValue for RedisKv {
    fn get<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Entry>, KvError>> {
        async move {
            let found = self.0.kv_get(topic, key).await.map_err(away)?;
            Ok(found.map(|found| Entry { value: found.value, revision: found.revision }))
        }
        .boxed()
    }

    fn set<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        value: Bytes,
        ttl: Option<Duration>,
        condition: Condition,
    ) -> BoxFuture<'a, Result<bool, KvError>> {
        let condition = match condition {
            Condition::Always => KvCondition::Always,
            Condition::IfAbsent => KvCondition::IfAbsent,
            Condition::IfRevision(revision) => KvCondition::IfRevision(revision),
        };
        async move {
            let wrote = self.0.kv_set(topic, key, &value, ttl, condition).await.map_err(away)?;
            Ok(done(wrote)?.is_some())
        }
        .boxed()
    }

    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<bool, KvError>> {
        async move { self.0.kv_delete(topic, key).await.map_err(away) }.boxed()
    }

    fn add<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        delta: i64,
    ) -> BoxFuture<'a, Result<i64, KvError>> {
        async move {
            let added = self.0.kv_add(topic, key, delta).await.map_err(away)?;
            let none = || KvError::Unavailable("Redis set a condition of its own".to_owned());
            done(added)?.ok_or_else(none)
        }
        .boxed()
    }
}

/// What was done, or nothing where a condition did not hold.
fn done<T>(write: KvWrite<T>) -> Result<Option<T>, KvError> {
    match write {
        KvWrite::Done(done) => Ok(Some(done)),
        KvWrite::Conflict => Ok(None),
        KvWrite::Full => Err(KvError::Full),
        KvWrite::NotANumber => Err(KvError::NotANumber),
    }
}

fn away(error: QueueError) -> KvError {
    KvError::Unavailable(error.to_string())
}
