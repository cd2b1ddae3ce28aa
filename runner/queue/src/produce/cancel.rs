//! Cancels jobs before they run.

use duebox_job::{JobId, Shard, TopicName};
use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::constants::BATCH_MAX;
use crate::wire::reply::{array, text, unexpected};
use crate::wire::script::{self, CANCEL};

/// The result of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The job is removed.
    Cancelled,
    /// A runner has it: this attempt may finish, no other follows. A successor is removed.
    Leased,
    /// No live job has this id.
    None,
}

impl Cancelled {
    /// The word for it in replies, logs and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Leased => "leased",
            Self::None => "none",
        }
    }
}

impl Queue {
    /// Cancels one job.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn cancel(&self, topic: &TopicName, id: &JobId) -> Result<Cancelled, QueueError> {
        let words = self.cancel_many(topic, std::slice::from_ref(id)).await?;
        words.into_iter().next().ok_or_else(|| QueueError::BadReply("none".to_owned()))
    }

    /// Cancels jobs. Every [`BATCH_MAX`] are one atomic transition in each shard of the topic. O(log
    /// n) for each job and shard.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn cancel_many(
        &self,
        topic: &TopicName,
        ids: &[JobId],
    ) -> Result<Vec<Cancelled>, QueueError> {
        let shards = self.shards(topic).await?;
        let mut words = Vec::with_capacity(ids.len());
        for batch in ids.chunks(BATCH_MAX) {
            let call = |shard: Shard| {
                let mut call = CANCEL.call(&self.keys.of(&shard));
                for id in batch {
                    call.arg(id.as_bytes());
                }
                call
            };
            let mut met = vec![Cancelled::None; batch.len()];
            for reply in script::run(&self.connection, shards.all().map(call).collect()).await? {
                for (met, value) in met.iter_mut().zip(array(reply?)?) {
                    *met = met.or(Cancelled::read(&value)?);
                }
            }
            words.append(&mut met);
        }
        Ok(words)
    }
}

impl Cancelled {
    /// Combines the results of two shards.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Leased, _) | (_, Self::Leased) => Self::Leased,
            (Self::Cancelled, _) | (_, Self::Cancelled) => Self::Cancelled,
            (Self::None, Self::None) => Self::None,
        }
    }

    fn read(value: &Value) -> Result<Self, QueueError> {
        match text(value)? {
            "cancelled" => Ok(Self::Cancelled),
            "leased" => Ok(Self::Leased),
            "none" => Ok(Self::None),
            _ => Err(unexpected(value)),
        }
    }
}
