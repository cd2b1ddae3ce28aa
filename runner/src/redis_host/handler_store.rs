//! The key-value store of handlers: it implements the sandbox's `KeyValue` with the queue. It has its own
//! connection, so that large values do not delay jobs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::TopicName;
use duebox_queue::{
    ConnectionTask, KvCondition, KvWrite, KvWriter, LatencyStats, Queue, QueueError,
};
use duebox_sandbox::{KeyValue, KvCondition as Condition, KvEntry as Entry, KvError};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

// The sandbox documents these limits to handlers, and the queue enforces them.
const _: () = assert!(duebox_queue::KV_NAMES_MAX == duebox_sandbox::KV_KEYS_MAX);
const _: () = assert!(duebox_queue::KV_BYTES_MAX == duebox_sandbox::KV_BYTES_MAX);

/// The stores of all topics, in Redis.
pub struct RedisKv {
    queue: Queue,
    writer: KvWriter,
}

impl RedisKv {
    /// Creates the stores on a queue handle that nothing else should use.
    pub fn new(queue: Queue) -> Self {
        Self { writer: KvWriter::new(queue.clone()), queue }
    }

    /// The Redis traffic of the stores so far.
    pub fn traffic(&self) -> Arc<LatencyStats> {
        self.queue.latency_stats()
    }

    /// What became of the task that keeps the connection.
    pub fn connection_task(&self) -> Arc<ConnectionTask> {
        self.queue.connection_task()
    }
}

impl KeyValue for RedisKv {
    fn get<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Entry>, KvError>> {
        async move {
            let found = self.queue.kv_get(topic, key).await.map_err(unavailable)?;
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
            let wrote =
                self.writer.set(topic, key, &value, ttl, condition).await.map_err(unavailable)?;
            Ok(write_result(wrote)?.is_some())
        }
        .boxed()
    }

    fn delete<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<bool, KvError>> {
        async move { self.writer.delete(topic, key).await.map_err(unavailable) }.boxed()
    }

    fn add<'a>(
        &'a self,
        topic: &'a TopicName,
        key: &'a [u8],
        delta: i64,
    ) -> BoxFuture<'a, Result<i64, KvError>> {
        async move {
            let added = self.writer.add(topic, key, delta).await.map_err(unavailable)?;
            let conflict = || {
                KvError::Unavailable(
                    "Redis reported a conflict for an unconditional write".to_owned(),
                )
            };
            write_result(added)?.ok_or_else(conflict)
        }
        .boxed()
    }
}

/// The result of a write, or `None` if its condition did not hold.
fn write_result<T>(write: KvWrite<T>) -> Result<Option<T>, KvError> {
    match write {
        KvWrite::Done(done) => Ok(Some(done)),
        KvWrite::Conflict => Ok(None),
        KvWrite::Full => Err(KvError::Full),
        KvWrite::NotANumber => Err(KvError::NotANumber),
    }
}

fn unavailable(error: QueueError) -> KvError {
    KvError::Unavailable(error.to_string())
}
