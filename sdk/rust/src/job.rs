//! The current job: its payload, its metadata and its topic's configuration. Everything is read
//! from the host on demand, so a handler pays only for what it reads.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::string::FromUtf8Error;
use std::time::Duration;

use crate::abi::{self, Meta};
use crate::config::{self, ConfigError};
#[cfg(feature = "json")]
use crate::follow_up::ResultError;
use crate::follow_up::{FollowUp, PushError, ResultTooLarge};

/// One attempt of one job.
#[derive(Debug)]
pub struct Job {
    payload_len: u32,
}

impl Job {
    pub(crate) fn new(payload_len: u32) -> Self {
        Self { payload_len }
    }

    /// The payload's length in bytes.
    pub fn payload_len(&self) -> usize {
        self.payload_len as usize
    }

    /// The whole payload, copied from the host.
    pub fn payload(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.payload_len()];
        let read = self.payload_read(0, &mut bytes);
        bytes.truncate(read);
        bytes
    }

    /// Copies a part of the payload from `offset` on and returns the number of bytes copied, 0 at
    /// or past the end. For payloads that need not be in memory at once.
    pub fn payload_read(&self, offset: usize, into: &mut [u8]) -> usize {
        u32::try_from(offset).map_or(0, |offset| abi::payload_read(offset, into))
    }

    /// The payload as text.
    ///
    /// # Errors
    /// Fails if the payload is not UTF-8, with the position.
    pub fn text(&self) -> Result<String, FromUtf8Error> {
        String::from_utf8(self.payload())
    }

    /// The payload as JSON, deserialised with serde.
    ///
    /// # Errors
    /// Fails with the position and the reason if the payload is not what `T` expects.
    #[cfg(feature = "json")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_slice(&self.payload())
    }

    /// The job's id.
    pub fn id(&self) -> String {
        lossy(abi::meta_read(Meta::Id))
    }

    /// The job's topic.
    pub fn topic(&self) -> String {
        lossy(abi::meta_read(Meta::Topic))
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        u32::try_from(abi::meta_int(Meta::Attempt)).unwrap_or(1)
    }

    /// The number of attempts in total.
    pub fn max_attempts(&self) -> u32 {
        u32::try_from(abi::meta_int(Meta::MaxAttempts)).unwrap_or(1)
    }

    /// Whether a nack would make the job dead.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt() >= self.max_attempts()
    }

    /// The job's due time, in unix milliseconds.
    pub fn due_at_ms(&self) -> u64 {
        instant(Meta::DueAt)
    }

    /// The end of this attempt's time, in unix milliseconds. The host then stops the handler.
    pub fn deadline_ms(&self) -> u64 {
        instant(Meta::Deadline)
    }

    /// The host's clock, in unix milliseconds. A handler has no clock of its own.
    pub fn now_ms(&self) -> u64 {
        instant(Meta::Now)
    }

    /// The remaining time of this attempt; zero when it is over.
    pub fn time_left(&self) -> Duration {
        Duration::from_millis(instant(Meta::TimeLeft))
    }

    /// The job's headers, by name in lower case.
    pub fn headers(&self) -> BTreeMap<String, String> {
        let block = lossy(abi::meta_read(Meta::Headers));
        let pairs = block.lines().filter_map(|line| line.split_once(": "));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// A header of the job, if it has one of this name.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers().remove(name)
    }

    /// Requests a follow-up job. It is pushed together with the ack of this job; with any other
    /// verdict, or after a trap, it is discarded.
    ///
    /// # Errors
    /// [`PushError`] if it is refused; then nothing of it is kept. Returned with `?`, it is a nack.
    pub fn push(&self, follow_up: FollowUp) -> Result<(), PushError> {
        PushError::check(abi::push(&follow_up.head()?, &follow_up.payload))
    }

    /// Sets the result to keep with the acked job, if the topic keeps done jobs (`done_retention`).
    /// The last call counts.
    ///
    /// # Errors
    /// [`ResultTooLarge`] if it is longer than 64 KiB; the previous result then stays.
    pub fn set_result(&self, result: impl AsRef<[u8]>) -> Result<(), ResultTooLarge> {
        if abi::result(result.as_ref()) == 0 { Ok(()) } else { Err(ResultTooLarge) }
    }

    /// Sets the result to a value as JSON.
    ///
    /// # Errors
    /// [`ResultError`] if the value cannot be written as JSON, or is longer than 64 KiB as JSON;
    /// the previous result then stays.
    #[cfg(feature = "json")]
    pub fn set_result_json(&self, value: &impl serde::Serialize) -> Result<(), ResultError> {
        let bytes = serde_json::to_vec(value).map_err(ResultError::Json)?;
        self.set_result(bytes).map_err(ResultError::TooLarge)
    }

    /// A configuration value or secret of the topic: strings as they are, other values as JSON
    /// text.
    pub fn config(&self, name: &str) -> Option<String> {
        abi::config_read(name).map(|bytes| lossy(Some(bytes)))
    }

    /// A configuration value as a number, a bool, or any type that parses from text.
    ///
    /// # Errors
    /// [`ConfigError`] if the value exists and does not parse as a `T`.
    pub fn config_as<T: FromStr<Err: Display>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, ConfigError> {
        config::parse(name, self.config(name))
    }

    /// A configuration value that is a table or an array, deserialised with serde.
    ///
    /// # Errors
    /// [`ConfigError`] if the value exists and is not what `T` expects.
    #[cfg(feature = "json")]
    pub fn config_json<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, ConfigError> {
        let Some(bytes) = abi::config_read(name) else { return Ok(None) };
        let value = serde_json::from_slice(&bytes);
        // Only the position: serde's own message may quote the value, which may be a secret.
        value.map(Some).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            ConfigError::new(name, format!("not the JSON expected, line {line} column {column}"))
        })
    }
}

/// Why a payload is not the JSON that a handler expects, with the position.
#[cfg(feature = "json")]
pub type JsonError = serde_json::Error;

fn lossy(bytes: Option<Vec<u8>>) -> String {
    match String::from_utf8(bytes.unwrap_or_default()) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

fn instant(key: Meta) -> u64 {
    u64::try_from(abi::meta_int(key)).unwrap_or(0)
}
