//! The bodies of the command protocol: commands and their responses.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A command.
#[derive(Deserialize, ToSchema)]
#[serde(tag = "command", rename_all = "lowercase")]
#[expect(
    dead_code,
    reason = "bodies are parsed by their command word, to keep them as payload_of; this is their schema"
)]
pub(super) enum Command<'a> {
    /// Push a job.
    Add(#[serde(borrow)] Add<'a>),
    /// Lease a due job.
    Pop(Pop),
    /// Mark a job as done.
    Finish(Finish),
    /// Remove a job.
    Delete(Delete),
}

/// The command word.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CommandWord {
    Add,
    Pop,
    Finish,
    Delete,
}

/// A command's word; the other fields depend on it.
#[derive(Deserialize)]
pub(super) struct CommandHead {
    pub(super) command: CommandWord,
}

/// Push a job.
#[derive(Deserialize, ToSchema)]
pub(super) struct Add<'a> {
    /// The topic.
    pub(super) topic: String,
    /// The job's id: 1 to 256 visible ASCII characters, unique among the live jobs that the token added to any topic.
    pub(super) id: IdValue,
    /// Seconds until it is due; default: the topic's delay.
    pub(super) delay: Option<f64>,
    /// Seconds from pop to finish; default: the topic's ttr.
    #[serde(rename = "TTR", alias = "ttr")]
    pub(super) ttr: Option<f64>,
    /// The value that a pop returns: a text, or any JSON.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    pub(super) body: Option<&'a RawValue>,
}

/// Lease a due job.
#[derive(Deserialize, ToSchema)]
pub(super) struct Pop {
    /// The topic.
    pub(super) topic: String,
    /// Seconds to wait for a job, at most 60; default: 0.
    pub(super) wait: Option<f64>,
    /// Name of the consumer; default: the token's name or the client's address.
    pub(super) consumer: Option<String>,
}

/// Mark a job as done.
#[derive(Deserialize, ToSchema)]
pub(super) struct Finish {
    /// The job's id.
    pub(super) id: IdValue,
    /// The token of the pop; it reliably identifies a late finish.
    pub(super) token: Option<String>,
    /// Name of the consumer, as at the pop.
    pub(super) consumer: Option<String>,
}

/// Remove a job.
#[derive(Deserialize, ToSchema)]
pub(super) struct Delete {
    /// The job's id.
    pub(super) id: IdValue,
}

/// A text, or a number that is read as text.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
pub(super) enum IdValue {
    Text(String),
    Number(u64),
}

/// The response to a command.
#[derive(Default, Serialize, ToSchema)]
pub(super) struct CommandResponse {
    /// Whether the command succeeded.
    pub(super) success: bool,
    /// Why it failed.
    pub(super) error: Option<String>,
    /// The job's id.
    pub(super) id: Option<String>,
    /// After a pop: the body as added.
    #[schema(value_type = Option<serde_json::Value>)]
    pub(super) value: Option<Box<RawValue>>,
    /// After a pop: the token to send with the finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
}

impl CommandResponse {
    pub(super) fn done(id: &str) -> Self {
        Self { success: true, id: Some(id.to_owned()), ..Self::default() }
    }

    pub(super) fn refused(id: Option<&str>, why: impl Into<String>) -> Self {
        Self { error: Some(why.into()), id: id.map(str::to_owned), ..Self::default() }
    }
}

impl IdValue {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}
