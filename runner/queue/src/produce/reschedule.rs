//! Changes when a waiting job falls due.

use duebox_job::{JobId, Shard, TopicName};
use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::topic::new_job::Due;
use crate::wire::reply::{text, unexpected};
use crate::wire::script::{self, RESCHEDULE};

/// The state of a job after a reschedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rescheduled {
    /// Not yet due.
    Pending,
    /// Due.
    Ready,
    /// Not yet due, with failed attempts.
    Retry,
    /// Due, behind other jobs of its key.
    Blocked,
    /// A runner has it: nothing changed.
    Leased,
    /// The due time is invalid: nothing changed.
    BadDue,
    /// No waiting job has this id.
    None,
}

impl Rescheduled {
    /// The word for it in replies, logs and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Retry => "retry",
            Self::Blocked => "blocked",
            Self::Leased => "leased",
            Self::BadDue => "bad_due",
            Self::None => "none",
        }
    }
}

impl Queue {
    /// Changes when a waiting job falls due; [`Due::Now`] makes it due now. O(log n) in each shard of
    /// the topic.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn reschedule(
        &self,
        topic: &TopicName,
        id: &JobId,
        due: Due,
    ) -> Result<Rescheduled, QueueError> {
        let shards = self.shards(topic).await?;
        let call = |shard: Shard| {
            let mut call = RESCHEDULE.call(&self.keys.of(&shard));
            call.arg(id.as_bytes()).arg(due.argument());
            call
        };
        let mut met = Rescheduled::None;
        for reply in script::run(&self.connection, shards.all().map(call).collect()).await? {
            match Rescheduled::read(&reply?)? {
                Rescheduled::None => {}
                found => met = found,
            }
        }
        Ok(met)
    }
}

impl Rescheduled {
    fn read(value: &Value) -> Result<Self, QueueError> {
        match text(value)? {
            "pending" => Ok(Self::Pending),
            "ready" => Ok(Self::Ready),
            "retry" => Ok(Self::Retry),
            "blocked" => Ok(Self::Blocked),
            "leased" => Ok(Self::Leased),
            "bad_due" => Ok(Self::BadDue),
            "none" => Ok(Self::None),
            _ => Err(unexpected(value)),
        }
    }
}
