//! The job in hand: its payload, its metadata and its topic's configuration. Everything is read
//! from the host when it is asked for, so a handler pays only for what it looks at.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::string::FromUtf8Error;
use std::time::Duration;

use crate::abi::{self, Meta};
use crate::config::{self, ConfigError};
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

    /// Copies a part of the payload, from `offset` on, and gives the bytes copied: 0 at the end and
    /// past it. For payloads that need not be in memory at once.
    pub fn payload_read(&self, offset: usize, into: &mut [u8]) -> usize {
        u32::try_from(offset).map_or(0, |offset| abi::payload_read(offset, into))
    }

    /// The payload as text.
    ///
    /// # Errors
    /// Says where the payload is not UTF-8.
    pub fn text(&self) -> Result<String, FromUtf8Error> {
        String::from_utf8(self.payload())
    }

    /// The payload as JSON, read into any type of serde.
    ///
    /// # Errors
    /// Says where and why the payload is not what `T` expects.
    #[cfg(feature = "json")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, JsonError> {
        serde_json::from_slice(&self.payload())
    }

    /// The id the producer gave the job.
    pub fn id(&self) -> String {
        lossy(abi::meta_read(Meta::Id))
    }

    /// The topic the job came through.
    pub fn topic(&self) -> String {
        lossy(abi::meta_read(Meta::Topic))
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        u32::try_from(abi::meta_int(Meta::Attempt)).unwrap_or(1)
    }

    /// How many attempts the job has in all.
    pub fn max_attempts(&self) -> u32 {
        u32::try_from(abi::meta_int(Meta::MaxAttempts)).unwrap_or(1)
    }

    /// True if a nack now makes the job dead.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt() >= self.max_attempts()
    }

    /// When the job fell due, in unix milliseconds.
    pub fn due_at_ms(&self) -> u64 {
        instant(Meta::DueAt)
    }

    /// When this attempt is ended by force, in unix milliseconds.
    pub fn deadline_ms(&self) -> u64 {
        instant(Meta::Deadline)
    }

    /// The host's clock now, in unix milliseconds. A handler has no clock of its own.
    pub fn now_ms(&self) -> u64 {
        instant(Meta::Now)
    }

    /// How long this attempt may still run; zero when its time is over.
    pub fn time_left(&self) -> Duration {
        Duration::from_millis(instant(Meta::TimeLeft))
    }

    /// The headers of the job, by name in lower case.
    pub fn headers(&self) -> BTreeMap<String, String> {
        let block = lossy(abi::meta_read(Meta::Headers));
        let pairs = block.lines().filter_map(|line| line.split_once(": "));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// One header, if the job has it.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers().remove(name)
    }

    /// Asks for a follow-up job, which is pushed together with the ack of this one, or not at all.
    /// With any other verdict, or a trap, it is dropped.
    ///
    /// # Errors
    /// [`PushError`] if it is not taken; nothing of it is kept then. As `?` it is a nack.
    pub fn push(&self, follow_up: FollowUp) -> Result<(), PushError> {
        PushError::check(abi::push(&follow_up.head()?, &follow_up.payload))
    }

    /// Sets what is kept with the job when it is acked, where the topic keeps done jobs
    /// (`done_retention`). The last one counts.
    ///
    /// # Errors
    /// [`ResultTooLarge`] if it is longer than 64 KiB; the one before stays then.
    pub fn set_result(&self, result: impl AsRef<[u8]>) -> Result<(), ResultTooLarge> {
        if abi::result(result.as_ref()) == 0 { Ok(()) } else { Err(ResultTooLarge) }
    }

    /// A configuration value or secret of the topic: strings as they stand, others as JSON text.
    pub fn config(&self, name: &str) -> Option<String> {
        abi::config_read(name).map(|bytes| lossy(Some(bytes)))
    }

    /// A configuration value as a number, a bool, or whatever reads itself from text.
    ///
    /// # Errors
    /// [`ConfigError`] if the value is there and does not read as a `T`.
    pub fn config_as<T: FromStr<Err: Display>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, ConfigError> {
        config::parse(name, self.config(name))
    }

    /// A configuration value that is a table or an array, read into any type of serde.
    ///
    /// # Errors
    /// [`ConfigError`] if the value is there and is not what `T` expects.
    #[cfg(feature = "json")]
    pub fn config_json<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, ConfigError> {
        let Some(bytes) = abi::config_read(name) else { return Ok(None) };
        let value = serde_json::from_slice(&bytes);
        // Only the place: serde's own text may quote the value, and the value may be a secret.
        value.map(Some).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            ConfigError::new(name, format!("not the JSON expected, line {line} column {column}"))
        })
    }
}

/// Why a payload is not the JSON a handler expects: what, and where.
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
