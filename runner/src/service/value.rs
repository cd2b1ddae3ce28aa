//! Parsers of single values from the command line or HTTP. An error says what the value must be.

use std::time::Duration;

use bytesize::ByteSize;
use duebox_job::{Backoff, FailureClass, JobId, Options, Priority, TopicName, parse_duration};
use duebox_queue::{Cursor, JobState, ListCursor};

/// Why a value is invalid, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadValue {
    /// What is wrong, and with which value.
    pub(crate) message: String,
    /// The remedy.
    pub(crate) hint: String,
}

impl BadValue {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

pub(crate) fn topic(text: &str) -> Result<TopicName, String> {
    TopicName::new(text).map_err(|error| error.to_string())
}

pub(crate) fn id(text: &str) -> Result<JobId, String> {
    JobId::new(text).map_err(|error| error.to_string())
}

/// The id of an existing job: a producer with plain commands may have chosen any bytes.
pub(crate) fn any_id(text: &str) -> Result<JobId, String> {
    if text.is_empty() {
        return Err("a job id must not be empty".to_owned());
    }
    Ok(JobId::from_redis(text.to_owned()))
}

pub(crate) fn ttr(text: &str) -> Result<Duration, String> {
    let ttr = parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    if range.contains(&ttr) { Ok(ttr) } else { Err("a ttr must be from 1ms to 24h".to_owned()) }
}

pub(crate) fn memory(text: &str) -> Result<usize, String> {
    let form = "write a number with a unit (KiB, MiB, GiB), such as 64MiB";
    let ByteSize(bytes) = text.parse().map_err(|_| format!("{text:?} is not a size; {form}"))?;
    usize::try_from(bytes)
        .ok()
        .filter(|bytes| (64 << 10..=4 << 30).contains(bytes))
        .ok_or_else(|| "a handler's memory must be from 64KiB to 4GiB".to_owned())
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("{text:?} is not a pair; write NAME=VALUE")),
    }
}

/// One delay, or a comma-separated list.
pub(crate) fn backoff(text: &str) -> Result<Backoff, String> {
    let waits = text.split(',').map(parse_duration).collect::<Result<_, _>>();
    let waits = waits.map_err(|error| error.to_string())?;
    Backoff::schedule(waits).map_err(|error| error.to_string())
}

pub(crate) fn priority(text: &str) -> Result<Priority, String> {
    let found = Priority::ALL.into_iter().find(|priority| priority.name() == text);
    found.ok_or_else(|| format!("{text:?} is not a priority; choose high, normal or low"))
}

pub(crate) fn key(text: &str) -> Result<String, String> {
    let checked = Options::default().with_key(text);
    checked.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn class(text: &str) -> Result<FailureClass, String> {
    let found = FailureClass::ALL.into_iter().find(|class| class.name() == text);
    found.ok_or_else(|| {
        let names: Vec<_> = FailureClass::ALL.iter().map(|class| class.name()).collect();
        format!("{text:?} is not a failure class; choose one of {}", names.join(", "))
    })
}

pub(crate) fn cursor(text: &str) -> Result<Cursor, String> {
    text.parse().map_err(|error: duebox_queue::CursorError| error.to_string())
}

/// A state whose jobs are listed.
pub(crate) fn state(text: &str) -> Result<JobState, String> {
    let is_named = |state: &JobState| state.word() == text || state.shown() == text;
    let found = JobState::LISTED.into_iter().find(is_named);
    found.ok_or_else(|| {
        let words = JobState::LISTED.map(JobState::shown).join(", ");
        format!("{text:?} is not a state; choose one of {words}")
    })
}

pub(crate) fn list_cursor(text: &str) -> Result<ListCursor, String> {
    text.parse().map_err(|error: duebox_queue::ListCursorError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_bounds() {
        assert_eq!(memory("64KiB"), Ok(64 << 10));
        assert_eq!(memory("4GiB"), Ok(4 << 30));
        assert!(memory("65535B").is_err() && memory("5GiB").is_err() && memory("x").is_err());
        assert_eq!(ttr("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(ttr("24h"), Ok(Duration::from_secs(86_400)));
        assert!(ttr("0ms").is_err() && ttr("86400001ms").is_err());
    }

    #[test]
    fn a_pair_is_split_at_the_first_equals_sign() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("=b").is_err() && pair("a").is_err());
    }

    #[test]
    fn a_backoff_is_one_delay_or_a_list() {
        let minutes = |many: &[u64]| {
            Backoff::Schedule(many.iter().map(|m| Duration::from_secs(60 * m)).collect())
        };
        assert_eq!(backoff("2m"), Ok(minutes(&[2])));
        assert_eq!(backoff("2m,10m,1h"), Ok(minutes(&[2, 10, 60])));
        assert!(backoff("").is_err() && backoff("2m,").is_err() && backoff("5").is_err());
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        assert_eq!(class("trap"), Ok(FailureClass::Trap));
        assert!(class("sneeze").unwrap_err().contains("bad_verdict"));
        assert_eq!(priority("low"), Ok(Priority::Low));
        assert_eq!(state("unack"), Ok(JobState::Unack));
        assert_eq!(state("running"), Ok(JobState::Unack));
        assert!(state("asleep").unwrap_err().contains("pending, ready, blocked, running, retry"));
        assert!(priority("urgent").unwrap_err().contains("high, normal or low"));
    }
}
