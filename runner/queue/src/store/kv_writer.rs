//! Writes to the store that are carried out once, though their replies are lost.
//!
//! A write without a reply may have been carried out. Here it is repeated under the name of its caller and
//! its number, and Redis answers a repetition as it answered the first.

use std::time::Duration;

use duebox_job::TopicName;
use parking_lot::Mutex;

use crate::client::Queue;
use crate::error::QueueError;
use crate::store::kv::{KvCall, KvCondition, KvWrite};

/// Writes to the stores of all topics. A write without a reply is repeated for up to three seconds, and is
/// still carried out at most once.
pub struct KvWriter {
    queue: Queue,
    name: String,
    callers: Mutex<Callers>,
}

#[derive(Default)]
struct Callers {
    created: u64,
    /// Those that make no write now.
    free: Vec<Caller>,
}

struct Caller {
    name: String,
    calls: u64,
}

/// A write that is under way. Its caller is free again when it ends.
struct Write<'w> {
    writer: &'w KvWriter,
    caller: Caller,
}

impl KvWriter {
    /// A writer with a name of its own.
    pub fn new(queue: Queue) -> Self {
        let name = format!("{:032x}", fastrand::u128(..));
        Self { queue, name, callers: Mutex::default() }
    }

    /// As [`Queue::kv_set`].
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer for three seconds, or refused.
    pub async fn set(
        &self,
        topic: &TopicName,
        name: &[u8],
        value: &[u8],
        ttl: Option<Duration>,
        condition: KvCondition,
    ) -> Result<KvWrite<()>, QueueError> {
        let write = self.begin();
        self.queue.kv_set_by(topic, name, value, (ttl, condition), Some(write.call())).await
    }

    /// As [`Queue::kv_delete`].
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub async fn delete(&self, topic: &TopicName, name: &[u8]) -> Result<bool, QueueError> {
        let write = self.begin();
        self.queue.kv_delete_by(topic, name, Some(write.call())).await
    }

    /// As [`Queue::kv_add`].
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    pub async fn add(
        &self,
        topic: &TopicName,
        name: &[u8],
        delta: i64,
    ) -> Result<KvWrite<i64>, QueueError> {
        let write = self.begin();
        self.queue.kv_add_by(topic, name, delta, Some(write.call())).await
    }

    fn begin(&self) -> Write<'_> {
        let mut callers = self.callers.lock();
        let mut caller = callers.free.pop().unwrap_or_else(|| {
            callers.created += 1;
            Caller { name: format!("{}:{}", self.name, callers.created), calls: 0 }
        });
        caller.calls += 1;
        Write { writer: self, caller }
    }
}

impl Write<'_> {
    fn call(&self) -> KvCall<'_> {
        KvCall { caller: &self.caller.name, number: self.caller.calls }
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        let caller =
            Caller { name: std::mem::take(&mut self.caller.name), calls: self.caller.calls };
        let mut callers = self.writer.callers.lock();
        callers.free.push(caller);
    }
}
