//! Test cases: a job, what its handler reads, and how the handler must end. `[[topics.NAME.smoke]]` in the
//! manifest and `[[case]]` in a file of cases have the same keys.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{ATTEMPTS_MAX, FailureClass, Options};
use jiff::Timestamp;
use toml::de::DeValue;

use super::exchange::{Exchange, read_exchanges};
use super::json::{read_bytes, read_texts};
use super::keys::{CASE, FOLLOW_UP};
use super::reader::Value;
use super::section::{LONGEST, Section};

/// The most cases of a topic or of a file.
const CASES_MAX: usize = 1_000;
/// The most smoke cases of a topic.
const SMOKE_MAX: usize = 100;

/// One job, what its handler reads, and how it must end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Case {
    /// What the case tests; may be empty.
    pub name: String,
    /// The payload; no longer than the topic's `sandbox.payload`.
    pub payload: Bytes,
    /// The job's headers.
    pub headers: BTreeMap<String, String>,
    /// The number of the attempt; the first without one.
    pub attempt: Option<u32>,
    /// The time at which the clock stands still, in Unix milliseconds.
    pub now_ms: Option<u64>,
    /// Config values that replace those of the topic, and its secrets.
    pub config: BTreeMap<String, String>,
    /// The responses to HTTP requests. Without any, the handler has no network.
    pub http: Vec<Exchange>,
    /// The store before the run.
    pub kv: BTreeMap<String, Bytes>,
    /// What must come of it.
    pub expected: Expected,
}

/// What must come of a case. `None` accepts anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected {
    /// The verdict, or the failure class.
    pub verdict: ExpectedVerdict,
    /// The reason.
    pub reason: Option<String>,
    /// The wait until the next attempt that the handler asks for.
    pub delay: Option<Duration>,
    /// The result.
    pub result: Option<Bytes>,
    /// The follow-ups, all of them and in their order.
    pub follow_ups: Option<Vec<ExpectedFollowUp>>,
    /// Lines that the log must have, in this order. Others may be between them.
    pub log: Option<Vec<String>>,
    /// The store after the run, all of it.
    pub kv_after: Option<BTreeMap<String, Bytes>>,
}

/// A follow-up that a handler must push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedFollowUp {
    /// Its topic.
    pub topic: String,
    /// Its id; any without one.
    pub id: Option<String>,
    /// Its payload; any without one.
    pub payload: Option<Bytes>,
    /// Its delay; any due time without one.
    pub delay: Option<Duration>,
}

/// How a run can end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExpectedVerdict {
    /// The job is done.
    #[default]
    Ack,
    /// The job is postponed.
    Snooze,
    /// The attempt failed with this class; `nack` and `drop` are verdicts of the handler.
    Failed(FailureClass),
}

impl ExpectedVerdict {
    /// Each one with its name.
    const WORDS: [(&'static str, Self); 11] = [
        ("ack", Self::Ack),
        ("nack", Self::Failed(FailureClass::Nack)),
        ("drop", Self::Failed(FailureClass::Drop)),
        ("snooze", Self::Snooze),
        ("trap", Self::Failed(FailureClass::Trap)),
        ("timeout", Self::Failed(FailureClass::Timeout)),
        ("out_of_memory", Self::Failed(FailureClass::OutOfMemory)),
        ("out_of_fuel", Self::Failed(FailureClass::OutOfFuel)),
        ("stack_overflow", Self::Failed(FailureClass::StackOverflow)),
        ("exit", Self::Failed(FailureClass::Exit)),
        ("bad_verdict", Self::Failed(FailureClass::BadVerdict)),
    ];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ack => "ack",
            Self::Snooze => "snooze",
            Self::Failed(class) => class.name(),
        }
    }
}

/// Reads the smoke cases of a topic or of `[defaults]`; `None` if the table sets none.
pub(super) fn read_smoke(topic: &Section<'_>) -> Option<Vec<Case>> {
    let value = topic.value("smoke")?;
    if value.get_ref().is_table() {
        let title = "`smoke` is a table; it must be an array of tables".to_owned();
        let hint = "write [[topics.\"NAME\".smoke]], with two brackets, above each case";
        topic.reader().refuse(topic.key_at("smoke"), title, hint);
        return None;
    }
    read_cases(topic, "smoke", SMOKE_MAX)
}

/// Reads the cases of a file.
pub(super) fn read_file_cases(root: &Section<'_>) -> Option<Vec<Case>> {
    match root.value("case") {
        Some(_) => read_cases(root, "case", CASES_MAX),
        None => {
            let title = "the file has no case".to_owned();
            root.reader().refuse(None, title, "write [[case]] with a payload and expect");
            None
        }
    }
}

fn read_cases(section: &Section<'_>, key: &str, most: usize) -> Option<Vec<Case>> {
    let reader = section.reader();
    let entries = section.list(key)?;
    if entries.len() > most {
        let title = format!("there are {} {key} cases; at most {most} are allowed", entries.len());
        reader.refuse(section.key_at(key), title, "keep the cases that detect a broken module");
        return None;
    }
    let read = |entry| {
        let table = reader.table(key, entry, Some(entry.span()))?;
        read_case(&Section::open(reader, table, &CASE))
    };
    entries.iter().map(read).collect::<Vec<_>>().into_iter().collect()
}

fn read_case(section: &Section<'_>) -> Option<Case> {
    let payload = read_bytes(section, "payload");
    let headers = read_headers(section);
    let now_ms = match section.value("now") {
        None => Some(None),
        Some(value) => read_time(section, value).map(Some),
    };
    let http = read_exchanges(section);
    let kv = read_values(section, "kv");
    Some(Case {
        name: section.text("name").unwrap_or_default(),
        payload: payload.unwrap_or_default(),
        headers: headers?,
        attempt: section.integer("attempt", 1..=ATTEMPTS_MAX),
        now_ms: now_ms?,
        config: read_texts(section, "config").unwrap_or_default(),
        http: http?,
        kv: kv.unwrap_or_default(),
        expected: read_expected(section)?,
    })
}

fn read_expected(section: &Section<'_>) -> Option<Expected> {
    let verdict = match section.value("expect") {
        None => Some(ExpectedVerdict::default()),
        Some(_) => section.choice("expect", &ExpectedVerdict::WORDS),
    };
    let follow_ups = match section.value("follow_ups") {
        None => Some(None),
        Some(_) => read_follow_ups(section).map(Some),
    };
    let log = match section.value("log") {
        None => Some(None),
        Some(_) => read_lines(section).map(Some),
    };
    Some(Expected {
        verdict: verdict?,
        reason: section.text("reason"),
        delay: section.duration("delay", Duration::ZERO..=LONGEST),
        result: read_bytes(section, "result"),
        follow_ups: follow_ups?,
        log: log?,
        kv_after: section.value("kv_after").and_then(|_| read_values(section, "kv_after")),
    })
}

fn read_follow_ups(section: &Section<'_>) -> Option<Vec<ExpectedFollowUp>> {
    let reader = section.reader();
    let read = |entry| {
        let table = reader.table("follow_ups", entry, Some(entry.span()))?;
        let section = Section::open(reader, table, &FOLLOW_UP);
        let Some(topic) = section.text("topic") else {
            let title = "a follow-up has no `topic`".to_owned();
            reader.refuse(Some(entry.span()), title, "write topic = \"NAME\"");
            return None;
        };
        Some(ExpectedFollowUp {
            topic,
            id: section.text("id"),
            payload: read_bytes(&section, "payload"),
            delay: section.duration("delay", Duration::ZERO..=LONGEST),
        })
    };
    section.list("follow_ups")?.iter().map(read).collect::<Vec<_>>().into_iter().collect()
}

fn read_lines(section: &Section<'_>) -> Option<Vec<String>> {
    let lines = section.list("log")?.iter();
    lines.map(|line| section.reader().text("log", line)).collect::<Vec<_>>().into_iter().collect()
}

/// Headers that a job could have.
fn read_headers(section: &Section<'_>) -> Option<BTreeMap<String, String>> {
    let headers = read_texts(section, "headers").unwrap_or_default();
    if let Err(error) = Options::default().with_headers(headers.clone()) {
        let at = section.key_at("headers");
        section.reader().refuse(at, error.to_string(), "correct it; no job can have it");
        return None;
    }
    Some(headers)
}

/// A time: a TOML date-time with an offset, or the same as a string.
fn read_time(section: &Section<'_>, value: &Value<'_>) -> Option<u64> {
    let text = match value.get_ref() {
        DeValue::Datetime(time) => time.to_string(),
        _ => section.reader().text("now", value)?,
    };
    let time: Option<Timestamp> = text.parse().ok();
    let ms = time.and_then(|time| u64::try_from(time.as_millisecond()).ok());
    if ms.is_none() {
        let title = format!("`now`: {text:?} is not a time from 1970 on with its offset");
        section.reader().refuse(Some(value.span()), title, "write 2026-01-31T12:00:00Z");
    }
    ms
}

fn read_values(section: &Section<'_>, key: &str) -> Option<BTreeMap<String, Bytes>> {
    let texts = read_texts(section, key)?;
    Some(texts.into_iter().map(|(name, text)| (name, Bytes::from(text))).collect())
}

/// Refuses smoke cases whose payload exceeds the topic's limit.
pub(super) fn check_smoke(topic: &Section<'_>, cases: &[Case], payload_max: usize) {
    let too_long = |case: &&Case| case.payload.len() > payload_max;
    if let Some(case) = cases.iter().find(too_long) {
        let at = topic.key_at("smoke");
        let bytes = case.payload.len();
        let title = format!(
            "the payload of a smoke case is {bytes} bytes long; the topic allows at most {payload_max}"
        );
        topic.reader().refuse(at, title, "shorten it, or raise sandbox.payload of the topic");
    }
}
