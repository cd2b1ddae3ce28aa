//! Forgetting what has ended: dead and done jobs past their time, and marks of ids and follow-ups.
//! Every call is bounded and says how much it forgot; no live key is touched.

use std::time::Duration;

use duebox_job::{JobId, TopicName};

use crate::reply::{array, count, unexpected};
use crate::script::{self, PRUNE, SWEEP};
use crate::settle::millis;
use crate::{BATCH_MAX, Queue, QueueError};

/// Marks that were forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Ids that were held after their job was done.
    pub held: u64,
    /// Follow-ups that were pushed here.
    pub follow_ups: u64,
}

impl Queue {
    /// Forgets dead jobs that died longer ago than `age`, at most [`BATCH_MAX`]. Answers how many.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn prune_older(&self, topic: &TopicName, age: Duration) -> Result<u64, QueueError> {
        self.prune_by(topic, "dead", "before", millis(age)).await
    }

    /// Forgets the oldest dead jobs above `kept`, at most [`BATCH_MAX`]. Answers how many.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn prune_above(&self, topic: &TopicName, kept: u64) -> Result<u64, QueueError> {
        self.prune_by(topic, "dead", "above", kept).await
    }

    /// Forgets jobs that were done longer ago than `age`, at most [`BATCH_MAX`]. Answers how many.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn prune_done_older(
        &self,
        topic: &TopicName,
        age: Duration,
    ) -> Result<u64, QueueError> {
        self.prune_by(topic, "done", "before", millis(age)).await
    }

    /// Forgets the oldest done jobs above `kept`, at most [`BATCH_MAX`]. Answers how many.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn prune_done_above(&self, topic: &TopicName, kept: u64) -> Result<u64, QueueError> {
        self.prune_by(topic, "done", "above", kept).await
    }

    /// Forgets these dead jobs, every [`BATCH_MAX`] in one atomic transition. Answers how many there
    /// were.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn prune(&self, topic: &TopicName, ids: &[JobId]) -> Result<u64, QueueError> {
        let mut pruned = 0;
        for batch in ids.chunks(BATCH_MAX) {
            let mut call = PRUNE.call(&self.keys(topic));
            call.arg("dead").arg("ids");
            for id in batch {
                call.arg(id.as_bytes());
            }
            pruned += count(&script::run_one(&self.connection, call).await?)?;
        }
        Ok(pruned)
    }

    /// Forgets marks whose time is over, at most [`BATCH_MAX`] of each kind.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn sweep(&self, topic: &TopicName) -> Result<Swept, QueueError> {
        let mut call = SWEEP.call(&self.keys(topic));
        call.arg(BATCH_MAX);
        let answer = array(script::run_one(&self.connection, call).await?)?;
        let [held, follow_ups] = answer.as_slice() else {
            return Err(unexpected(&redis::Value::Array(answer)));
        };
        Ok(Swept { held: count(held)?, follow_ups: count(follow_ups)? })
    }

    async fn prune_by(
        &self,
        topic: &TopicName,
        yard: &str,
        by: &str,
        bound: u64,
    ) -> Result<u64, QueueError> {
        let mut call = PRUNE.call(&self.keys(topic));
        call.arg(yard).arg(by).arg(bound).arg(BATCH_MAX);
        count(&script::run_one(&self.connection, call).await?)
    }
}
