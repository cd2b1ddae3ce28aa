//! A follow-up job: one that a handler asks for. It is pushed together with the ack of the job that
//! asked, or not at all: never lost, never doubled, whatever happens to the runner.
//!
//! Invariant: a head handed to the host is a block with one line a value; a value that could make two
//! of it is refused here.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::block::{Block, NoLine};

/// A job to push when this one is acked. What is not set is the topic's own.
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
    /// The topic it is pushed to; the handler's own topic must grant it (`sandbox.push`).
    pub topic: String,
    /// What its handler gets.
    pub payload: Vec<u8>,
    /// Its id; `{id of this job}.{n}` if `None`, with n counted from 1. One that is alive is kept.
    pub id: Option<String>,
    /// When it falls due; at once if `None`.
    pub due: Option<Due>,
    /// Wall clock of one attempt.
    pub ttr: Option<Duration>,
    /// Attempts in all.
    pub max_attempts: Option<u32>,
    /// How long after its due time it may wait for its start; zero is for ever.
    pub ttl: Option<Duration>,
    /// Its rank among the due jobs of its topic.
    pub priority: Priority,
    /// Jobs of one key run one after the other, where the topic says so.
    pub key: Option<String>,
    /// Handed to its handler.
    pub headers: BTreeMap<String, String>,
}

/// When a follow-up falls due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// This long after the ack that commits it; up to ten years.
    After(Duration),
    /// At a unix time in milliseconds.
    AtMs(u64),
}

/// The rank of a job among the due jobs of its topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Priority {
    /// Before the others.
    High,
    /// Where nothing else is said.
    #[default]
    Normal,
    /// After the others.
    Low,
}

/// Why a follow-up is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushError {
    /// The topic is not among those that the handler may push to.
    Denied,
    /// A name or a value is not as it must be.
    Invalid,
    /// The follow-ups are more than 100, take more than 4 MiB together, or one has more than 16 KiB
    /// beside its payload.
    TooLarge,
}

/// The result is longer than 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultTooLarge;

impl FollowUp {
    /// A job for this topic, due at once, with an empty payload.
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
    /// Says why the value cannot be written as JSON.
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

    /// Makes it fall due this long after the ack.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.due = Some(Due::After(delay));
        self
    }

    /// Makes it fall due at a unix time in milliseconds.
    #[must_use]
    pub fn due_at_ms(mut self, due_at_ms: u64) -> Self {
        self.due = Some(Due::AtMs(due_at_ms));
        self
    }

    /// Sets the wall clock of one attempt.
    #[must_use]
    pub fn ttr(mut self, ttr: Duration) -> Self {
        self.ttr = Some(ttr);
        self
    }

    /// Sets the attempts in all, from 1.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = Some(max_attempts);
        self
    }

    /// Sets how long after its due time it may wait for its start; zero is for ever.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets its rank among the due jobs of its topic.
    #[must_use]
    pub fn priority(mut self, priority: Priority) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the key whose jobs run one after the other, where the topic says so; 1 to 256 bytes.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Adds a header for its handler; the name is 1 to 62 of the characters a-z 0-9 . _ -
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// All but the payload, as the block that the host reads.
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
    /// What the host answered to a push.
    pub(crate) fn check(answer: i32) -> Result<(), Self> {
        match answer {
            0 => Ok(()),
            -2 => Err(Self::Denied),
            -4 => Err(Self::TooLarge),
            _ => Err(Self::Invalid),
        }
    }
}

impl From<NoLine> for PushError {
    fn from(NoLine: NoLine) -> Self {
        Self::Invalid
    }
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Denied => "the handler may not push to this topic; sandbox.push grants it",
            Self::Invalid => "the follow-up has a name or a value that no job can have",
            Self::TooLarge => {
                "the follow-ups are over 100, over 4 MiB together, or one has a head over 16 KiB"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_a_line_for_all_that_is_set() {
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
