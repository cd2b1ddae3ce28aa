//! A job to push, and what a push replies.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options};
use redis::Value;
use serde::{Deserialize, Serialize};

use crate::error::QueueError;
use crate::wire::millis::millis;
use crate::wire::reply::{text, unexpected};

/// One job to push.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// When it falls due.
    pub due: Due,
    /// The payload, as the handler receives it.
    pub payload: Bytes,
    /// Options that replace those of its topic.
    pub options: Options,
}

impl NewJob {
    /// A job that is due at once and sets no options.
    pub fn new(id: JobId, payload: impl Into<Bytes>) -> Self {
        Self { id, due: Due::Now, payload: payload.into(), options: Options::default() }
    }

    /// The same job with another due time.
    #[must_use]
    pub fn with_due(self, due: Due) -> Self {
        Self { due, ..self }
    }

    /// The same job with options of its own, which go before those of its topic.
    #[must_use]
    pub fn with_options(self, options: Options) -> Self {
        Self { options, ..self }
    }
}

/// When a job falls due, by Redis' clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// After a delay.
    In(Duration),
    /// At a unix time in ms, within [`duebox_job::DUE_MS_RANGE`]; a time in the past is due at once.
    At(u64),
}

/// What a push does if its id is live already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IfExists {
    /// Refuse the push: `exists`.
    #[default]
    Reject,
    /// Keep the live job: `kept`.
    Keep,
    /// Replace the live job; if it is leased, run after it.
    Replace,
}

/// The result of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// Stored.
    Pushed,
    /// Refused: the id is live.
    Exists,
    /// Ignored: the id is live.
    Kept,
    /// Stored instead of the job that waited.
    Replaced,
    /// Stored behind the leased job of this id.
    Successor,
    /// Refused: a job of this id is done, and its topic still reserves the id (`unique_for`).
    Held,
    /// Refused: the topic has as many waiting jobs as it allows.
    Full,
    /// Refused: the due time is outside [`duebox_job::DUE_MS_RANGE`].
    BadDue,
}

impl Pushed {
    /// True if the job was stored.
    pub fn is_stored(self) -> bool {
        match self {
            Self::Pushed | Self::Replaced | Self::Successor => true,
            Self::Exists | Self::Kept | Self::Held | Self::Full | Self::BadDue => false,
        }
    }

    /// True if a job of this id is there after the push, or was done.
    pub(crate) fn is_there(self) -> bool {
        !matches!(self, Self::Full | Self::BadDue)
    }

    /// The word for it in replies, logs and JSON.
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
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Keep => "keep",
            Self::Replace => "replace",
        }
    }
}
