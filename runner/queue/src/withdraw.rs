//! Taking jobs back before they run, and changing when they do.

use duebox_job::{JobId, TopicName};

use crate::push::Due;
use crate::reply::{array, text, unexpected};
use crate::script::{self, CANCEL, RESCHEDULE};
use crate::{BATCH_MAX, Queue, QueueError};

/// What became of a cancelled job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It is gone.
    Cancelled,
    /// A runner has it: it is not tried again, and its successor, if any, is gone.
    Leased,
    /// No such job is live.
    None,
}

impl Cancelled {
    /// The queue's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Leased => "leased",
            Self::None => "none",
        }
    }
}

/// Where a rescheduled job waits now.
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
    /// A runner has it: nothing has changed.
    Leased,
    /// The due time is none: nothing has changed.
    BadDue,
    /// No such job waits.
    None,
}

impl Rescheduled {
    /// The queue's word for it.
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
    /// Cancels one job.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn cancel(&self, topic: &TopicName, id: &JobId) -> Result<Cancelled, QueueError> {
        let words = self.cancel_many(topic, std::slice::from_ref(id)).await?;
        words.into_iter().next().ok_or_else(|| QueueError::Answer("none".to_owned()))
    }

    /// Cancels jobs, every [`BATCH_MAX`] in one atomic transition.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn cancel_many(
        &self,
        topic: &TopicName,
        ids: &[JobId],
    ) -> Result<Vec<Cancelled>, QueueError> {
        let keys = self.keys(topic);
        let mut words = Vec::with_capacity(ids.len());
        for batch in ids.chunks(BATCH_MAX) {
            let mut call = CANCEL.call(&keys);
            for id in batch {
                call.arg(id.as_bytes());
            }
            for value in array(script::run_one(&self.connection, call).await?)? {
                words.push(match text(&value)? {
                    "cancelled" => Cancelled::Cancelled,
                    "leased" => Cancelled::Leased,
                    "none" => Cancelled::None,
                    _ => return Err(unexpected(&value)),
                });
            }
        }
        Ok(words)
    }

    /// Changes when a waiting job falls due; [`Due::Now`] runs it now.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn reschedule(
        &self,
        topic: &TopicName,
        id: &JobId,
        due: Due,
    ) -> Result<Rescheduled, QueueError> {
        let keys = self.keys(topic);
        let mut call = RESCHEDULE.call(&keys);
        call.arg(id.as_bytes()).arg(due.argument());
        let answer = script::run_one(&self.connection, call).await?;
        match text(&answer)? {
            "pending" => Ok(Rescheduled::Pending),
            "ready" => Ok(Rescheduled::Ready),
            "retry" => Ok(Rescheduled::Retry),
            "blocked" => Ok(Rescheduled::Blocked),
            "leased" => Ok(Rescheduled::Leased),
            "bad_due" => Ok(Rescheduled::BadDue),
            "none" => Ok(Rescheduled::None),
            _ => Err(unexpected(&answer)),
        }
    }
}
