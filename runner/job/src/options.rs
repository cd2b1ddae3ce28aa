//! The options of a single job, which replace those of its topic; stored in the queue's `opts` hash.
//!
//! Stored as JSON without unset keys. An unknown key is an error, so that an option of a newer
//! producer is not ignored: such a job goes to dead with class `bad_options`.

mod error;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::error::OptionError;
use crate::{ATTEMPTS_MAX, Backoff, CRASHES_MAX, DELAY_MAX_MS, SNOOZES_MAX};

/// The longest key of a job, in bytes.
const KEY_MAX: usize = 256;
/// The longest name of a header, in bytes.
const HEADER_NAME_MAX: usize = 64;
/// All headers of a job as lines `name: value\n`, in bytes.
const HEADERS_MAX: usize = 16 << 10;

/// The options of one job. Unset options come from the topic. Most jobs set none; then the value
/// takes one word of memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options(Option<Box<Written>>);

/// The options of a job that sets none.
static NOTHING: Written = Written {
    ttr_ms: None,
    max_attempts: None,
    backoff: None,
    max_snoozes: None,
    max_crashes: None,
    ttl_ms: None,
    priority: None,
    key: None,
    headers: BTreeMap::new(),
};

/// The stored form.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Time-to-run of one attempt, in milliseconds; 1 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttr_ms: Option<u64>,
    /// Attempts in all, 1 to [`ATTEMPTS_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    /// The waits between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff: Option<WrittenBackoff>,
    /// Snoozes allowed, 0 to [`SNOOZES_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_snoozes: Option<u32>,
    /// Crashes allowed, 1 to [`CRASHES_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_crashes: Option<u32>,
    /// How long after its due time the job may wait for its start, in milliseconds; 0 has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    /// Its priority among the due jobs of its topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    /// The key, whose jobs run one after the other if the topic limits keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Headers for the handler.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
}

/// The priority of a job among the due jobs of its topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Before the others.
    High,
    /// The default.
    #[default]
    Normal,
    /// After the others.
    Low,
}

impl Priority {
    /// Every priority, highest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// The name in options, manifests and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

/// The stored form of a backoff; checked when it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum WrittenBackoff {
    Schedule(Vec<u64>),
    Exponential(WrittenExponential),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenExponential {
    base_ms: u64,
    #[serde(default = "one")]
    factor: f64,
    max_ms: u64,
    #[serde(default)]
    jitter: f64,
}

fn one() -> f64 {
    1.0
}

impl Options {
    /// Sets the time-to-run of one attempt.
    #[must_use]
    pub fn with_ttr(self, ttr: Duration) -> Self {
        self.with(|written| written.ttr_ms = Some(millis(ttr).max(1)))
    }

    /// Sets how many attempts the job has; other values are moved to the nearest bound.
    #[must_use]
    pub fn with_max_attempts(self, max_attempts: u32) -> Self {
        self.with(|written| written.max_attempts = Some(max_attempts.clamp(1, ATTEMPTS_MAX)))
    }

    /// Sets the waits between attempts. A schedule does not set the attempts by itself.
    #[must_use]
    pub fn with_backoff(self, backoff: &Backoff) -> Self {
        let backoff = match backoff {
            Backoff::Schedule(waits) => {
                WrittenBackoff::Schedule(waits.iter().copied().map(millis).collect())
            }
            Backoff::Exponential { base, factor, max, jitter } => {
                WrittenBackoff::Exponential(WrittenExponential {
                    base_ms: millis(*base),
                    factor: *factor,
                    max_ms: millis(*max),
                    jitter: *jitter,
                })
            }
        };
        self.with(|written| written.backoff = Some(backoff))
    }

    /// Sets how often a handler may snooze the job; other values are moved to the nearest bound.
    #[must_use]
    pub fn with_max_snoozes(self, max_snoozes: u32) -> Self {
        self.with(|written| written.max_snoozes = Some(max_snoozes.min(SNOOZES_MAX)))
    }

    /// Sets how many crashes the job may have; other values are moved to the nearest bound.
    #[must_use]
    pub fn with_max_crashes(self, max_crashes: u32) -> Self {
        self.with(|written| written.max_crashes = Some(max_crashes.clamp(1, CRASHES_MAX)))
    }

    /// Sets how long after its due time the job may wait for its start; zero has no limit.
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        self.with(|written| written.ttl_ms = Some(millis(ttl)))
    }

    /// Sets its priority among the due jobs of its topic.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> Self {
        let priority = (priority != Priority::Normal).then_some(priority);
        self.with(|written| written.priority = priority)
    }

    /// Sets the key, whose jobs run one after the other if the topic limits keys.
    ///
    /// # Errors
    /// [`OptionError::Key`] if it is empty, longer than 256 bytes or holds a control character.
    pub fn with_key(self, key: &str) -> Result<Self, OptionError> {
        check_key(key)?;
        Ok(self.with(|written| written.key = Some(key.to_owned())))
    }

    /// Adds a header for the handler; it replaces one of the same name.
    ///
    /// # Errors
    /// [`OptionError`] if the name is invalid, the value holds a control character, or all headers
    /// take more than 16 KiB.
    pub fn with_header(self, name: &str, value: &str) -> Result<Self, OptionError> {
        self.with_headers(BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    /// Adds headers for the handler; they replace those of the same names.
    ///
    /// # Errors
    /// As [`with_header`](Self::with_header).
    pub fn with_headers(self, headers: BTreeMap<String, String>) -> Result<Self, OptionError> {
        let options = self.with(|written| written.headers.extend(headers));
        check_headers(options.headers())?;
        Ok(options)
    }

    /// The time-to-run of one attempt, if the job sets it.
    pub fn ttr(&self) -> Option<Duration> {
        self.written().ttr_ms.map(Duration::from_millis)
    }

    /// How many attempts the job has, if it sets it.
    pub fn max_attempts(&self) -> Option<u32> {
        self.written().max_attempts
    }

    /// The waits between attempts, if the job sets them.
    pub fn backoff(&self) -> Option<Backoff> {
        self.written().backoff.as_ref().and_then(|written| written.check().ok())
    }

    /// How often a handler may snooze the job, if the job sets it.
    pub fn max_snoozes(&self) -> Option<u32> {
        self.written().max_snoozes
    }

    /// How many crashes the job may have, if it sets it.
    pub fn max_crashes(&self) -> Option<u32> {
        self.written().max_crashes
    }

    /// How long after its due time the job may wait for its start, if the job sets it.
    pub fn ttl(&self) -> Option<Duration> {
        self.written().ttl_ms.map(Duration::from_millis)
    }

    /// Its priority among the due jobs of its topic.
    pub fn priority(&self) -> Priority {
        self.written().priority.unwrap_or_default()
    }

    /// Its key, if it has one.
    pub fn key(&self) -> Option<&str> {
        self.written().key.as_deref()
    }

    /// The headers for the handler, by name.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.written().headers
    }

    /// True if no option is set, so that nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The stored form; empty if no option is set.
    pub fn to_json(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the stored form; empty bytes set no option.
    ///
    /// # Errors
    /// [`OptionError`] if the bytes are not options.
    pub fn from_json(json: &[u8]) -> Result<Self, OptionError> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        if !json.trim_ascii_start().starts_with(b"{") {
            return Err(OptionError::NotAnObject);
        }
        let options: Self =
            serde_json::from_slice(json).map_err(|error| OptionError::Json(error.to_string()))?;
        options.written().check()?;
        Ok(options)
    }

    fn written(&self) -> &Written {
        self.0.as_deref().unwrap_or(&NOTHING)
    }

    fn with(self, change: impl FnOnce(&mut Written)) -> Self {
        let mut written = self.0.unwrap_or_default();
        change(&mut written);
        Self((*written != NOTHING).then_some(written))
    }
}

impl Serialize for Options {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.written().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Options {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(from)?;
        Ok(Self((written != NOTHING).then(|| Box::new(written))))
    }
}

impl Written {
    fn check(&self) -> Result<(), OptionError> {
        let wide = |value: Option<u32>| value.map(u64::from);
        check_range("ttr_ms", self.ttr_ms, 1..=u64::MAX)?;
        check_range("ttl_ms", self.ttl_ms, 0..=DELAY_MAX_MS)?;
        check_range("max_attempts", wide(self.max_attempts), 1..=ATTEMPTS_MAX.into())?;
        check_range("max_snoozes", wide(self.max_snoozes), 0..=SNOOZES_MAX.into())?;
        check_range("max_crashes", wide(self.max_crashes), 1..=CRASHES_MAX.into())?;
        if let Some(backoff) = &self.backoff {
            backoff.check()?;
        }
        if let Some(key) = &self.key {
            check_key(key)?;
        }
        check_headers(&self.headers)
    }
}

impl WrittenBackoff {
    fn check(&self) -> Result<Backoff, OptionError> {
        let duration = |ms: u64| {
            check_range("a wait of backoff", Some(ms), 0..=DELAY_MAX_MS)?;
            Ok(Duration::from_millis(ms))
        };
        let backoff = match self {
            Self::Schedule(waits) => Backoff::schedule(
                waits.iter().copied().map(duration).collect::<Result<_, OptionError>>()?,
            ),
            Self::Exponential(WrittenExponential { base_ms, factor, max_ms, jitter }) => {
                Backoff::exponential(duration(*base_ms)?, *factor, duration(*max_ms)?, *jitter)
            }
        };
        Ok(backoff?)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(DELAY_MAX_MS)
}

fn check_range(
    name: &'static str,
    value: Option<u64>,
    range: RangeInclusive<u64>,
) -> Result<(), OptionError> {
    match value {
        Some(value) if !range.contains(&value) => {
            let (least, most) = range.into_inner();
            Err(OptionError::OutOfRange { name, value, least, most })
        }
        _ => Ok(()),
    }
}

fn check_key(key: &str) -> Result<(), OptionError> {
    if key.is_empty() || key.len() > KEY_MAX || key.chars().any(char::is_control) {
        return Err(OptionError::Key(key.to_owned()));
    }
    Ok(())
}

fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), OptionError> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
    let mut bytes = 0;
    for (name, value) in headers {
        if name.is_empty() || name.len() > HEADER_NAME_MAX || !name.chars().all(allowed) {
            return Err(OptionError::HeaderName(name.clone()));
        }
        if value.chars().any(char::is_control) {
            return Err(OptionError::HeaderValue(name.clone()));
        }
        bytes += name.len() + value.len() + 3;
    }
    if bytes > HEADERS_MAX { Err(OptionError::HeadersTooLarge(bytes)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
