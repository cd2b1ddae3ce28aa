//! A job with everything that is known of it, and its JSON form. JSON omits unknown fields and
//! encodes bytes that are not UTF-8 in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use duebox_job::{JobId, OptionError, Options, Priority};
use serde::{Serialize, Serializer};

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Not yet due, or due and not yet promoted.
    Pending,
    /// Due, waiting for a runner.
    Ready,
    /// Due, waiting for earlier jobs of its key.
    Blocked,
    /// Leased to a runner.
    Unack,
    /// Failed or snoozed, waiting for its next attempt.
    Retry,
    /// Given up.
    Dead,
    /// Acked, and kept for a while.
    Done,
    /// Acked and deleted; a push of its id is refused for a while (`unique_for`).
    Held,
}

impl JobState {
    /// The states whose jobs are listed: all but [`JobState::Held`], in the order of a job's life.
    pub const LISTED: [Self; 7] = [
        Self::Pending,
        Self::Ready,
        Self::Blocked,
        Self::Unack,
        Self::Retry,
        Self::Dead,
        Self::Done,
    ];

    /// The word for it in replies, logs and JSON.
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

    /// The word for people: that of JSON and of the keys, except that a leased job is `running`.
    pub fn shown(self) -> &'static str {
        match self {
            Self::Unack => "running",
            other => other.word(),
        }
    }

    /// True if the job runs or will run.
    pub fn is_live(self) -> bool {
        !matches!(self, Self::Dead | Self::Done | Self::Held)
    }
}

/// A job as [`Queue::get`](crate::Queue::get) finds it. An id may have one live job and a dead one.
/// State, payload and options are then those of the live job, else of the one that ended last.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Where it is.
    pub state: JobState,
    /// Its due time, unix ms; in retry that of the next attempt. Unknown for a leased job without a
    /// key.
    pub due_at_ms: Option<u64>,
    /// The payload. None if the job was cancelled while leased, or if only its id is left. Where a
    /// successor waits, the successor's.
    pub payload: Option<Bytes>,
    /// Its own options, or why they are invalid; the successor's where one waits.
    pub options: Result<Options, OptionError>,
    /// Attempts that have failed so far.
    pub failures: u32,
    /// Runs that ended with the death of the runner or a lost lease.
    pub crashes: u32,
    /// Times its handler snoozed it.
    pub snoozes: u32,
    /// The lease, if it is leased.
    pub lease: Option<CurrentLease>,
    /// The due time of the job that was pushed under this id while it was leased, unix ms.
    pub successor_due_at_ms: Option<u64>,
    /// Why its last attempt failed, in the form that dead jobs keep.
    pub last_error: Option<serde_json::Value>,
    /// The dead job of this id.
    pub dead: Option<DeadEntry>,
    /// The done job of this id.
    pub done: Option<DoneEntry>,
    /// The time until which a push of this done id is refused, unix ms.
    pub held_until_ms: Option<u64>,
    /// The clock of Redis at the time of the call, unix ms.
    pub now_ms: u64,
}

/// The lease that a runner holds on a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CurrentLease {
    /// The runner. Unknown if the lease has expired or was taken without a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// When it expires unless it is extended, unix ms.
    pub expires_at_ms: u64,
    /// Its token.
    pub token: String,
    /// True if the job was cancelled: it is not tried again.
    pub cancelled: bool,
}

/// A dead job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadEntry {
    /// When it ended, unix ms.
    pub died_at_ms: u64,
    /// Why it died: JSON with `class`, `reason` and more.
    pub info: serde_json::Value,
}

/// A done job.
#[derive(Debug, Clone, PartialEq)]
pub struct DoneEntry {
    /// When it ended, unix ms.
    pub done_at_ms: u64,
    /// How it was done: JSON with the attempt, the module and more.
    pub info: serde_json::Value,
    /// The result that its handler set.
    pub result: Option<Bytes>,
}

/// The JSON form of a job.
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
    options_error: Option<String>,
    failures: u32,
    crashes: u32,
    snoozes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<&'a CurrentLease>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor_due_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead: Option<&'a DeadEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<&'a DoneEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_until_ms: Option<u64>,
    now_ms: u64,
}

/// The JSON form of a done job.
#[derive(Serialize)]
struct ShownDoneEntry<'a> {
    done_at_ms: u64,
    info: &'a serde_json::Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
}

/// Bytes as text if they are UTF-8, else in base64.
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
            options_error: options.err().map(ToString::to_string),
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

impl Serialize for DoneEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (result, result_base64) = shown(self.result.as_ref());
        let Self { done_at_ms, ref info, .. } = *self;
        ShownDoneEntry { done_at_ms, info, result, result_base64 }.serialize(serializer)
    }
}
