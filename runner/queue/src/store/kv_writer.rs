//! Writes to the store that are carried out once, though their replies are lost.
//!
//! A write without a reply may have been carried out. Here it is repeated under the name of its caller and
//! its number, and Redis answers a repetition as it answered the first.

use std::time::{Duration, Instant};

use duebox_job::TopicName;

use crate::client::Queue;
use crate::error::QueueError;
use crate::store::kv::{KvCall, KvCondition, KvWrite};
use crate::wire::callers::{Callers, NumberedCall};

/// How long a write is repeated. It never takes longer, whatever Redis does.
const REPEAT_WITHIN: Duration = Duration::from_secs(3);

/// Writes to the stores of all topics. A write without a reply is repeated for up to three seconds, and is
/// still carried out at most once.
pub struct KvWriter {
    queue: Queue,
    callers: Callers,
}

/// A write that is under way.
struct Write<'w> {
    call: NumberedCall<'w>,
    until: Instant,
}

impl KvWriter {
    /// A writer with a name of its own.
    pub fn new(queue: Queue) -> Self {
        Self { queue, callers: Callers::default() }
    }

    /// As [`Queue::kv_set`].
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply for three seconds, or refused.
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
        Write { call: self.callers.begin(), until: Instant::now() + REPEAT_WITHIN }
    }
}

impl Write<'_> {
    fn call(&self) -> KvCall<'_> {
        KvCall { caller: self.call.caller(), number: self.call.number(), until: self.until }
    }
}
