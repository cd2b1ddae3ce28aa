//! Dead jobs that are given another life.

use duebox_job::{JobId, TopicName};
use redis::Cmd;

use crate::keys::TopicKeys;
use crate::reply::{array, bytes, text, unexpected};
use crate::script::{self, REQUEUE};
use crate::{BATCH_MAX, Queue, QueueError};

/// What became of a requeued job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeued {
    /// It is ready, with its options and without its attempts.
    Ok,
    /// Its id is live again: it stays dead.
    Exists,
    /// No such job is dead.
    None,
}

impl Requeued {
    /// The queue's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Exists => "exists",
            Self::None => "none",
        }
    }
}

impl Queue {
    /// The ids of the `n` jobs that died first, oldest first.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn dead_ids(&self, topic: &TopicName, n: usize) -> Result<Vec<JobId>, QueueError> {
        let mut range = redis::cmd("ZRANGE");
        range.arg(self.keys(topic).key("dead")).arg(0).arg(n as i64 - 1);
        let found = array(script::run_one(&self.connection, range).await?)?;
        found.into_iter().map(|id| Ok(JobId::from_redis(bytes(id)?))).collect()
    }

    /// Gives dead jobs another life, every [`BATCH_MAX`] in one atomic transition.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn requeue(
        &self,
        topic: &TopicName,
        ids: &[JobId],
    ) -> Result<Vec<Requeued>, QueueError> {
        let keys = self.keys(topic);
        let mut words = Vec::with_capacity(ids.len());
        for batch in ids.chunks(BATCH_MAX) {
            let call = requeue_command(&keys, batch);
            for value in array(script::run_one(&self.connection, call).await?)? {
                words.push(match text(&value)? {
                    "ok" => Requeued::Ok,
                    "exists" => Requeued::Exists,
                    "none" => Requeued::None,
                    _ => return Err(unexpected(&value)),
                });
            }
        }
        Ok(words)
    }
}

fn requeue_command(keys: &TopicKeys, ids: &[JobId]) -> Cmd {
    let mut call = REQUEUE.call(keys);
    for id in ids {
        call.arg(id.as_bytes());
    }
    call
}
