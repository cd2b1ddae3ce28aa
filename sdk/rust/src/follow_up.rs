//! Follow-up jobs that a handler requests. The host pushes them together with the ack of the
//! handler's job, or not at all, so they are neither lost nor duplicated.
//!
//! Invariant: the head passed to the host is a block with one line per value. A value that would
//! forge a second line is refused here.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::block::{Block, InvalidLine};

/// A job to push when this one is acked. Unset options have the defaults of the target topic.
///
/// ```
/// use std::time::Duration;
/// use duebox_sdk::{FollowUp, Job, Priority, Verdict};
///
/// fn handle(job: Job) -> Result<Verdict, Verdict> {
///     let welcome = FollowUp::new("sms.welcome").payload(job.payload()).priority(Priority::High);
///     job.push(welcome)?;
///     job.push(FollowUp::new("order.remind").id("remind/42").delay(Duration::from_secs(3_600)))?;
///     Ok(Verdict::Ack)
/// }
/// # use duebox_sdk::testing::TestJob;
/// # assert_eq!(TestJob::new("{}").run(handle).follow_ups.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowUp {
    /// The topic to push to; the handler's topic must grant it (`sandbox.push`).
    pub topic: String,
    /// The payload.
    pub payload: Vec<u8>,
    /// The id; `{id of this job}.{n}` if `None`, with n counted from 1. If a job with this id is
    /// live, that job is kept.
    pub id: Option<String>,
    /// The due time; at once if `None`.
    pub due: Option<Due>,
    /// Wall-clock limit of one attempt.
    pub ttr: Option<Duration>,
    /// The number of attempts in total.
    pub max_attempts: Option<u32>,
    /// How long after its due time the job may wait to start; zero means without limit.
    pub ttl: Option<Duration>,
    /// Its priority among the due jobs of its topic.
    pub priority: Priority,
    /// Jobs with the same key run one after the other, if the topic is configured so.
    pub key: Option<String>,
    /// Headers for its handler.
    pub headers: BTreeMap<String, String>,
}

/// The due time of a follow-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This long after the ack; at most ten years.
    After(Duration),
    /// At a unix time in milliseconds.
    AtMs(u64),
}

/// The priority of a job among the due jobs of its topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Priority {
    /// Before the others.
    High,
    /// The default.
    #[default]
    Normal,
    /// After the others.
    Low,
}

/// Why a follow-up is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError {
    /// The topic does not grant pushes to that topic.
    Denied,
    /// A name or a value is invalid.
    Invalid,
    /// There are more than 100 follow-ups, or more than 4 MiB of them, or one has more than 16 KiB
    /// in addition to its payload.
    TooLarge,
}

/// The result is longer than 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultTooLarge;

/// Why a value is no result.
#[cfg(feature = "json")]
#[derive(Debug)]
pub enum ResultError {
    /// It cannot be written as JSON.
    Json(crate::JsonError),
    /// Its JSON is longer than 64 KiB.
    TooLarge(ResultTooLarge),
}

impl FollowUp {
    /// Creates a job for this topic that is due at once and has an empty payload.
    pub fn new(topic: &str) -> Self {
        Self {
            topic: topic.to_owned(),
            payload: Vec::new(),
            id: None,
            due: None,
            ttr: None,
            max_attempts: None,
            ttl: None,
            priority: Priority::Normal,
            key: None,
            headers: BTreeMap::new(),
        }
    }

    /// Sets the payload.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self
    }

    /// Sets the payload to a value as JSON.
    ///
    /// # Errors
    /// Fails if the value cannot be written as JSON.
    #[cfg(feature = "json")]
    pub fn json(self, value: &impl serde::Serialize) -> Result<Self, crate::JsonError> {
        Ok(self.payload(serde_json::to_vec(value)?))
    }

    /// Sets the id, 1 to 256 visible ASCII characters.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        self.id = Some(id.to_owned());
        self
    }

    /// Makes it due this long after the ack.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.due = Some(Due::After(delay));
        self
    }

    /// Makes it due at a unix time in milliseconds.
    #[must_use]
    pub fn due_at_ms(mut self, due_at_ms: u64) -> Self {
        self.due = Some(Due::AtMs(due_at_ms));
        self
    }

    /// Sets the wall-clock limit of one attempt.
    #[must_use]
    pub fn ttr(mut self, ttr: Duration) -> Self {
        self.ttr = Some(ttr);
        self
    }

    /// Sets the number of attempts in total, at least 1.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Sets how long after its due time it may wait to start; zero means without limit.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets its priority among the due jobs of its topic.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the key, 1 to 256 bytes. Jobs with the same key run one after the other, if the topic
    /// is configured so.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Adds a header for its handler. The name has 1 to 62 of the characters a-z 0-9 . _ -
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Everything but the payload, as a block for the host.
    pub(crate) fn head(&self) -> Result<String, PushError> {
        let mut head = Block::default();
        head.line("topic", &self.topic)?;
        head.text("id", self.id.as_deref())?;
        match self.due {
            Some(Due::After(delay)) => head.number("delay-ms", Some(delay.as_millis())),
            Some(Due::AtMs(at)) => head.number("due-at-ms", Some(at.into())),
            None => Ok(()),
        }?;
        head.number("ttr-ms", self.ttr.map(|ttr| ttr.as_millis()))?;
        head.number("max-attempts", self.max_attempts.map(u128::from))?;
        head.number("ttl-ms", self.ttl.map(|ttl| ttl.as_millis()))?;
        match self.priority {
            Priority::High => head.line("priority", "high"),
            Priority::Normal => Ok(()),
            Priority::Low => head.line("priority", "low"),
        }?;
        head.text("key", self.key.as_deref())?;
        for (name, value) in &self.headers {
            head.line(&format!("h.{name}"), value)?;
        }
        Ok(head.into_text())
    }
}

impl PushError {
    /// Converts the host's return value of a push.
    pub(crate) fn check(code: i32) -> Result<(), Self> {
        match code {
            0 => Ok(()),
            -2 => Err(Self::Denied),
            -4 => Err(Self::TooLarge),
            _ => Err(Self::Invalid),
        }
    }
}

impl From<InvalidLine> for PushError {
    fn from(InvalidLine: InvalidLine) -> Self {
        Self::Invalid
    }
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Denied => "the handler may not push to this topic; sandbox.push grants it",
            Self::Invalid => "the follow-up has an invalid name or value",
            Self::TooLarge => {
                "there are over 100 follow-ups, over 4 MiB of them, or one has a head over 16 KiB"
            }
        })
    }
}

impl std::error::Error for PushError {}

impl fmt::Display for ResultTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the result is longer than 64 KiB")
    }
}

impl std::error::Error for ResultTooLarge {}

#[cfg(feature = "json")]
impl fmt::Display for ResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the result cannot be written as JSON: {error}"),
            Self::TooLarge(error) => error.fmt(f),
        }
    }
}

#[cfg(feature = "json")]
impl std::error::Error for ResultError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_a_line_for_every_set_value() {
        let follow_up = FollowUp::new("sms.eu")
            .id("a/1")
            .delay(Duration::from_millis(1_500))
            .ttr(Duration::from_secs(5))
            .max_attempts(3)
            .ttl(Duration::from_secs(60))
            .priority(Priority::High)
            .key("user 42")
            .header("lang", "zh: 你好");
        assert_eq!(
            follow_up.head().unwrap(),
            "topic: sms.eu\nid: a/1\ndelay-ms: 1500\nttr-ms: 5000\nmax-attempts: 3\n\
             ttl-ms: 60000\npriority: high\nkey: user 42\nh.lang: zh: 你好\n"
        );
        assert_eq!(FollowUp::new("a").due_at_ms(7).head().unwrap(), "topic: a\ndue-at-ms: 7\n");
    }

    #[test]
    fn no_value_can_forge_a_line() {
        for forged in [
            FollowUp::new("a\nid: 1"),
            FollowUp::new("a").id("1\nkey: 2"),
            FollowUp::new("a").key("1\u{85}"),
            FollowUp::new("a").header("b", "1\r\n"),
            FollowUp::new("a").header("b: 1\nid", "2"),
            FollowUp::new("a").header("b: c", "2"),
        ] {
            assert_eq!(forged.head(), Err(PushError::Invalid), "{forged:?}");
        }
    }
}
