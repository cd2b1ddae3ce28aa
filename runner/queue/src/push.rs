//! Pushing jobs.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options, TopicName};
use redis::Value;
use serde::{Deserialize, Serialize};

use crate::reply::{array, text, unexpected};
use crate::script::{self, PUSH};
use crate::settle::millis;
use crate::{BATCH_MAX, Queue, QueueError};

/// One job to push.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// When it falls due.
    pub due: Due,
    /// What its handler gets.
    pub payload: Bytes,
    /// What it sets over its topic.
    pub options: Options,
}

/// When a job falls due, by Redis' clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// After a while.
    In(Duration),
    /// At a unix time in ms, within [`duebox_job::DUE_MS_RANGE`]; a past one is due at once.
    At(u64),
}

/// What a push does where its id is live already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IfExists {
    /// Refuse it, as `exists`.
    #[default]
    Reject,
    /// Leave the live one, as `kept`.
    Keep,
    /// Take its place; where it is leased, follow it.
    Replace,
}

/// What became of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// Stored.
    Pushed,
    /// Refused: the id is live.
    Exists,
    /// Ignored: the id is live.
    Kept,
    /// Stored in place of the one that waited.
    Replaced,
    /// Stored behind the one that is leased.
    Successor,
    /// Refused: the due time is outside [`duebox_job::DUE_MS_RANGE`].
    BadDue,
}

impl Pushed {
    /// The queue's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pushed => "pushed",
            Self::Exists => "exists",
            Self::Kept => "kept",
            Self::Replaced => "replaced",
            Self::Successor => "successor",
            Self::BadDue => "bad_due",
        }
    }

    fn read(value: &Value) -> Result<Self, QueueError> {
        match text(value)? {
            "pushed" => Ok(Self::Pushed),
            "exists" => Ok(Self::Exists),
            "kept" => Ok(Self::Kept),
            "replaced" => Ok(Self::Replaced),
            "successor" => Ok(Self::Successor),
            "bad_due" => Ok(Self::BadDue),
            _ => Err(unexpected(value)),
        }
    }
}

impl Due {
    pub(crate) fn argument(self) -> String {
        match self {
            Self::Now => "0".to_owned(),
            Self::In(delay) => format!("+{}", millis(delay)),
            Self::At(ms) => ms.to_string(),
        }
    }
}

impl IfExists {
    fn word(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Keep => "keep",
            Self::Replace => "replace",
        }
    }
}

impl Queue {
    /// Pushes jobs and says of each what became of it. Every [`BATCH_MAX`] of them are one atomic
    /// transition; all go out as one pipeline.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused; batches before the one that failed are
    /// stored, and pushing them again answers `exists`.
    pub async fn push(
        &self,
        topic: &TopicName,
        jobs: &[NewJob],
        if_exists: IfExists,
    ) -> Result<Vec<Pushed>, QueueError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.keys(topic);
        let stages = [
            keys.jobs(),
            keys.opts(),
            keys.pending(),
            keys.ready(),
            keys.unack(),
            keys.retry(),
            keys.attempts(),
            keys.meta(),
        ];
        let mut calls = Vec::with_capacity(jobs.len() / BATCH_MAX + 2);
        for batch in jobs.chunks(BATCH_MAX) {
            let mut call = PUSH.call(&stages);
            call.arg(if_exists.word()).arg(keys.wake_channel());
            for job in batch {
                call.arg(job.id.as_bytes()).arg(job.due.argument());
                call.arg(&job.payload[..]).arg(job.options.to_json());
            }
            calls.push(call);
        }
        let mut seen = redis::cmd("SADD");
        seen.arg(self.topics_key()).arg(topic.as_str());
        calls.push(seen);

        let mut answers = script::run(&self.connection, &calls).await?;
        answers.pop().transpose()?;
        let mut words = Vec::with_capacity(jobs.len());
        for answer in answers {
            for value in array(answer?)? {
                words.push(Pushed::read(&value)?);
            }
        }
        Ok(words)
    }
}
