//! A job as it is shown: its state, and all that is known of it. As JSON it leaves out what is not
//! known, and has bytes that are no text in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use duebox_job::{JobId, Options, Priority};
use serde::{Serialize, Serializer};

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Not yet due, or due and not yet promoted.
    Pending,
    /// Due, waiting for a runner.
    Ready,
    /// Due, waiting for the jobs of its key that go before it.
    Blocked,
    /// Leased to a runner.
    Unack,
    /// Failed or put off, waiting for its next attempt.
    Retry,
    /// Given up.
    Dead,
    /// Acked, and kept for a while.
    Done,
    /// Acked and forgotten; only its id is still held (`unique_for`).
    Held,
}

impl JobState {
    /// The queue's word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Blocked => "blocked",
            Self::Unack => "unack",
            Self::Retry => "retry",
            Self::Dead => "dead",
            Self::Done => "done",
            Self::Held => "held",
        }
    }

    /// True if the job runs or is to run.
    pub fn is_live(self) -> bool {
        !matches!(self, Self::Dead | Self::Done | Self::Held)
    }
}

/// A job as [`Queue::get`] finds it. Where an id has several lives at once (one dead, one live), the
/// state, payload and options are those of the live one, or else of the one that ended last.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Where it is.
    pub state: JobState,
    /// When it falls or fell due, unix ms; of a job in retry its next attempt. Not known of a leased
    /// job without a key.
    pub due_at_ms: Option<u64>,
    /// Its payload; none if it was cancelled while leased, or if only its id is left. Where a
    /// successor waits it is the successor's.
    pub payload: Option<Bytes>,
    /// Its own options, or why they cannot be read; as the payload, the successor's.
    pub options: Result<Options, String>,
    /// Attempts that have failed so far.
    pub failures: u32,
    /// Runs that ended with the runner's death, or a lost lease.
    pub crashes: u32,
    /// Times its handler put it off.
    pub snoozes: u32,
    /// Who runs it; none unless it is leased.
    pub lease: Option<LeaseHeld>,
    /// When the job falls due that was pushed under the id of this leased one, unix ms.
    pub successor_due_at_ms: Option<u64>,
    /// What its last attempt failed of: the same as a dead job keeps.
    pub last_error: Option<serde_json::Value>,
    /// How a job of this id died.
    pub dead: Option<Buried>,
    /// How a job of this id was done.
    pub done: Option<Finished>,
    /// Until when a push of this id is refused although it is done, unix ms.
    pub held_until_ms: Option<u64>,
    /// Redis' clock when it was asked, unix ms.
    pub now_ms: u64,
}

/// A runner's claim on a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseHeld {
    /// Who has it; not known of a lease that has expired, or was taken without a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Until when it holds unless it is renewed, unix ms.
    pub expires_at_ms: u64,
    /// What fences it.
    pub token: String,
    /// True if the job was cancelled: it will not be tried again.
    pub cancelled: bool,
}

/// A death.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Buried {
    /// When, unix ms.
    pub died_at_ms: u64,
    /// Of what: class, reason and more.
    pub info: serde_json::Value,
}

/// An end that went well.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// When, unix ms.
    pub done_at_ms: u64,
    /// Which attempt, by which module, and more.
    pub info: serde_json::Value,
    /// What its handler gave as the result.
    pub result: Option<Bytes>,
}

/// A job as JSON has it.
#[derive(Serialize)]
struct ShownJob<'a> {
    id: String,
    state: JobState,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<&'a Options>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options_error: Option<&'a String>,
    failures: u32,
    crashes: u32,
    snoozes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<&'a LeaseHeld>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor_due_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead: Option<&'a Buried>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<&'a Finished>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_until_ms: Option<u64>,
    now_ms: u64,
}

/// A good end as JSON has it.
#[derive(Serialize)]
struct ShownFinished<'a> {
    done_at_ms: u64,
    info: &'a serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
}

/// Bytes as text where they are text, else in base64.
fn shown(bytes: Option<&Bytes>) -> (Option<&str>, Option<String>) {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => (None, None),
        Some((_, Ok(text))) => (Some(text), None),
        Some((bytes, Err(_))) => (None, Some(STANDARD.encode(bytes))),
    }
}

impl Serialize for Job {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (payload, payload_base64) = shown(self.payload.as_ref());
        let options = self.options.as_ref();
        ShownJob {
            id: self.id.to_string(),
            state: self.state,
            due_at_ms: self.due_at_ms,
            payload,
            payload_base64,
            options: options.ok(),
            options_error: options.err(),
            failures: self.failures,
            crashes: self.crashes,
            snoozes: self.snoozes,
            priority: options.ok().map(Options::priority),
            key: options.ok().and_then(Options::key),
            lease: self.lease.as_ref(),
            successor_due_at_ms: self.successor_due_at_ms,
            last_error: self.last_error.as_ref(),
            dead: self.dead.as_ref(),
            done: self.done.as_ref(),
            held_until_ms: self.held_until_ms,
            now_ms: self.now_ms,
        }
        .serialize(serializer)
    }
}

impl Serialize for Finished {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (result, result_base64) = shown(self.result.as_ref());
        let Self { done_at_ms, ref info, .. } = *self;
        ShownFinished { done_at_ms, info, result, result_base64 }.serialize(serializer)
    }
}
