//! Events: what happened to jobs, as the stream `PREFIX:events` in a slot of its own. Redis keeps the
//! newest. Events are appended after the fact; no verb reads them.

use std::fmt;
use std::str::FromStr;

use duebox_job::{FailureClass, JobId, TopicName};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::constants::BATCH_MAX;
use crate::wire::reply::{array, bytes, text};
use crate::wire::script;

/// One event of a job, or of several jobs of which only the number is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The job's topic.
    pub topic: TopicName,
    /// The job; none if only the number of jobs is known.
    pub id: Option<JobId>,
    /// What happened, as one word.
    pub event: &'static str,
    /// The attempt, from 1; none if it belongs to no attempt.
    pub attempt: Option<u32>,
    /// The failure class, if it failed.
    pub class: Option<FailureClass>,
    /// The SHA-256 of the module that ran it, in hex; none if no module did.
    pub digest: Option<String>,
    /// The time, in µs since the epoch.
    pub at_us: u64,
    /// How many jobs.
    pub jobs: u64,
}

/// The id of an event in the stream. Later events have greater ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct EventId {
    ms: u64,
    number: u64,
}

/// An event as the stream stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its id.
    pub id: EventId,
    /// Its fields; invalid UTF-8 is replaced.
    pub fields: Vec<(String, String)>,
}

/// A part of the stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventPage {
    /// The events, in their order.
    pub events: Vec<StoredEvent>,
    /// The id of the oldest event in the stream; none if the stream is empty.
    pub first: Option<EventId>,
}

/// The text is not an event id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an event id; an event id is two whole numbers joined by a dash")]
pub struct EventIdError;

impl Queue {
    /// Appends events, at most 1,000; about the newest `keep` stay.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused one.
    pub async fn append_events(&self, events: &[Event], keep: u32) -> Result<(), QueueError> {
        let calls = events.iter().take(BATCH_MAX).map(|event| self.append_event(event, keep));
        let replies = script::run(&self.connection, calls.collect()).await?;
        replies.into_iter().try_for_each(|reply| reply.map(drop))
    }

    /// The events of one job among the newest ones, the oldest first. It looks at `looks_max` events at most,
    /// 1,000 in a call.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn events_of(
        &self,
        topic: &TopicName,
        id: &JobId,
        looks_max: usize,
    ) -> Result<Vec<StoredEvent>, QueueError> {
        let id = id.to_string();
        let is_of_job =
            |event: &StoredEvent| event.field("id") == id && event.field("topic") == topic.as_str();
        let (mut found, mut to, mut left) = (Vec::new(), "+".to_owned(), looks_max);
        while left > 0 {
            let count = left.min(BATCH_MAX);
            let mut range = redis::cmd("XREVRANGE");
            range.arg(self.keys.events_key()).arg(&to).arg("-").arg("COUNT").arg(count);
            let page = entries(script::run_one_idempotent(&self.connection, range).await?)?;
            let is_last = page.len() < count;
            left -= count;
            let Some(oldest) = page.last() else { break };
            to = format!("({}", oldest.id);
            found.extend(page.into_iter().filter(is_of_job));
            if is_last {
                break;
            }
        }
        found.reverse();
        Ok(found)
    }

    fn append_event(&self, event: &Event, keep: u32) -> Cmd {
        let mut add = redis::cmd("XADD");
        add.arg(self.keys.events_key()).arg("MAXLEN").arg("~").arg(keep).arg("*");
        add.arg("topic").arg(event.topic.as_str()).arg("event").arg(event.event);
        if let Some(id) = &event.id {
            add.arg("id").arg(id.as_bytes());
        }
        if let Some(attempt) = event.attempt {
            add.arg("attempt").arg(attempt);
        }
        if let Some(class) = event.class {
            add.arg("class").arg(class.name());
        }
        if let Some(digest) = &event.digest {
            add.arg("digest").arg(digest);
        }
        if event.jobs != 1 {
            add.arg("jobs").arg(event.jobs);
        }
        add.arg("at").arg(event.at_us / 1_000).arg("at_us").arg(event.at_us);
        add
    }

    /// Up to `count` events after an id, and the id of the oldest event.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn events_after(&self, id: EventId, count: usize) -> Result<EventPage, QueueError> {
        let range = |from: String, count: usize| {
            let mut range = redis::cmd("XRANGE");
            range.arg(self.keys.events_key()).arg(from).arg("+").arg("COUNT").arg(count);
            range
        };
        let calls = vec![range("-".to_owned(), 1), range(format!("({id}"), count)];
        let mut replies = script::run(&self.connection, calls).await?.into_iter();
        let mut next = || match replies.next() {
            Some(reply) => entries(reply?),
            None => Err(QueueError::BadReply("cut short".to_owned())),
        };
        let first = next()?.first().map(|event| event.id);
        Ok(EventPage { events: next()?, first })
    }

    /// The id of the newest event; the smallest id if the stream is empty.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn last_event(&self) -> Result<EventId, QueueError> {
        let mut range = redis::cmd("XREVRANGE");
        range.arg(self.keys.events_key()).arg("+").arg("-").arg("COUNT").arg(1);
        let found = entries(script::run_one(&self.connection, range).await?)?;
        Ok(found.first().map_or_else(EventId::default, |event| event.id))
    }
}

/// The entries of a stream reply.
fn entries(reply: Value) -> Result<Vec<StoredEvent>, QueueError> {
    array(reply)?.into_iter().map(entry).collect()
}

fn entry(value: Value) -> Result<StoredEvent, QueueError> {
    let mut parts = array(value)?.into_iter();
    let (Some(id), Some(fields)) = (parts.next(), parts.next()) else {
        return Err(QueueError::BadReply("an entry of a stream without fields".to_owned()));
    };
    let id = text(&id)?.parse();
    let id = id.map_err(|error: EventIdError| QueueError::BadReply(error.to_string()))?;
    let lossy = |value| Ok(String::from_utf8_lossy(&bytes(value)?).into_owned());
    let words = array(fields)?.into_iter().map(lossy);
    let words = words.collect::<Result<Vec<String>, QueueError>>()?;
    let fields = words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    Ok(StoredEvent { id, fields })
}

impl EventId {
    /// True for the id before all events.
    pub fn is_start(self) -> bool {
        self == Self::default()
    }
}

impl StoredEvent {
    /// The value of a field; empty if it has none of this name.
    pub fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(found, _)| found == name);
        found.map_or("", |(_, value)| value)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)
    }
}

impl FromStr for EventId {
    type Err = EventIdError;

    fn from_str(text: &str) -> Result<Self, EventIdError> {
        let (ms, number) = text.split_once('-').ok_or(EventIdError)?;
        let read = |digits: &str| {
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_plain).ok_or(EventIdError)
        };
        Ok(Self { ms: read(ms)?, number: read(number)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_two_numbers_and_ids_have_an_order() {
        let id = |text: &str| text.parse::<EventId>();
        let first = id("1763740800000-9").unwrap();
        assert_eq!(first.to_string(), "1763740800000-9");
        assert!(first < id("1763740800000-10").unwrap() && !first.is_start());
        assert!(id("0-0").unwrap().is_start());
        for bad in ["", "-", "1", "1-", "-1", "1-2-3", "+1-2", "1-a", "$", "99999999999999999999-0"]
        {
            assert!(id(bad).is_err(), "{bad}");
        }
    }
}
