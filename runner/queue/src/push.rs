//! Pushing jobs.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options, TopicName};
use redis::{Cmd, Value};
use serde::{Deserialize, Serialize};

use crate::keys::TopicKeys;
use crate::reply::{array, text, unexpected};
use crate::script::{self, PUSH};
use crate::settle::millis;
use crate::{BATCH_MAX, Queue, QueueError};

/// Batches that share a pipeline: what is under way at once stays small, however much is pushed.
const PIPELINE_BATCHES: usize = 16;
/// Payload bytes that share a batch, unless one job alone has more.
const BATCH_BYTES: usize = 1 << 20;

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
    /// Refused: a job of this id was done lately, and its topic holds ids for a while.
    Held,
    /// Refused: as many jobs wait as the topic allows.
    Full,
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
            Self::Held => "held",
            Self::Full => "full",
            Self::BadDue => "bad_due",
        }
    }

    pub(crate) fn read(value: &Value) -> Result<Self, QueueError> {
        match text(value)? {
            "pushed" => Ok(Self::Pushed),
            "exists" => Ok(Self::Exists),
            "kept" => Ok(Self::Kept),
            "replaced" => Ok(Self::Replaced),
            "successor" => Ok(Self::Successor),
            "held" => Ok(Self::Held),
            "full" => Ok(Self::Full),
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
    /// Pushes jobs and says of each what became of it. Every [`BATCH_MAX`] of them (fewer where
    /// payloads are large) are one atomic transition, and some batches share a pipeline.
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
        let keys = self.keys(topic);
        let mut words = Vec::with_capacity(jobs.len());
        let mut rest = jobs;
        while !rest.is_empty() {
            let mut calls = Vec::with_capacity(PIPELINE_BATCHES + 1);
            while calls.len() < PIPELINE_BATCHES && !rest.is_empty() {
                let (batch, later) = rest.split_at(batch_len(rest));
                calls.push(push_command(&keys, batch, if_exists));
                rest = later;
            }
            let mut seen = redis::cmd("SADD");
            seen.arg(self.topics_key()).arg(topic.as_str());
            calls.push(seen);
            let mut answers = script::run(&self.connection, calls).await?;
            answers.pop().transpose()?;
            for answer in answers {
                for value in array(answer?)? {
                    words.push(Pushed::read(&value)?);
                }
            }
        }
        Ok(words)
    }
}

/// How many of these jobs, from the first on, share one script call.
fn batch_len(jobs: &[NewJob]) -> usize {
    let mut bytes = 0;
    let fits = |job: &&NewJob| {
        bytes += job.payload.len();
        bytes <= BATCH_BYTES
    };
    jobs.iter().take(BATCH_MAX).take_while(fits).count().max(1)
}

fn push_command(keys: &TopicKeys, jobs: &[NewJob], if_exists: IfExists) -> Cmd {
    let mut call = PUSH.call(keys);
    call.arg(if_exists.word());
    for job in jobs {
        call.arg(job.id.as_bytes()).arg(job.due.argument());
        call.arg(&job.payload[..]).arg(job.options.to_json());
    }
    call
}
