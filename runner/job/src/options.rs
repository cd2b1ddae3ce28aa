//! What a single job may set over its topic, as it stands in the `opts` hash of the queue.
//!
//! Stored as JSON with no key for what is not set. Unknown keys are an error, so that an option of a
//! newer producer is never silently dropped: such a job goes to dead with class `bad_options`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ATTEMPTS_MAX;

/// The options of one job. What is `None` comes from the topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Time-to-run of one attempt, in milliseconds; 1 or more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttr_ms: Option<u64>,
    /// Attempts in all, 1 to [`ATTEMPTS_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
}

impl Options {
    /// Sets the time-to-run of one attempt.
    #[must_use]
    pub fn with_ttr(mut self, ttr: Duration) -> Self {
        self.ttr_ms = Some(u64::try_from(ttr.as_millis()).unwrap_or(u64::MAX).max(1));
        self
    }

    /// Sets how many attempts the job has in all; out of range is moved to the nearest bound.
    #[must_use]
    pub fn with_max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = Some(max_attempts.clamp(1, ATTEMPTS_MAX));
        self
    }

    /// The time-to-run of one attempt, if the job sets it.
    pub fn ttr(&self) -> Option<Duration> {
        self.ttr_ms.map(Duration::from_millis)
    }

    /// How many attempts the job has in all, if it sets it.
    pub fn max_attempts(&self) -> Option<u32> {
        self.max_attempts
    }

    /// True if the job sets nothing, so that nothing need be stored for it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The options as the queue stores them; empty for none.
    pub fn to_json(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads options as the queue stores them; empty bytes are none.
    ///
    /// # Errors
    /// The reason, for people, if the bytes are not options.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        if json.is_empty() {
            return Ok(Self::default());
        }
        // Serde would read a list as the fields in their order.
        if !json.trim_ascii_start().starts_with(b"{") {
            return Err("options are a JSON object".to_owned());
        }
        let options: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if options.ttr_ms == Some(0) {
            return Err("ttr_ms is 0; it must be 1 or more".to_owned());
        }
        match options.max_attempts {
            Some(attempts) if !(1..=ATTEMPTS_MAX).contains(&attempts) => {
                Err(format!("max_attempts is {attempts}; it must be from 1 to {ATTEMPTS_MAX}"))
            }
            _ => Ok(options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_the_queue() {
        let options = Options::default().with_ttr(Duration::from_secs(5)).with_max_attempts(3);
        assert_eq!(options.to_json(), r#"{"ttr_ms":5000,"max_attempts":3}"#);
        assert_eq!(Options::from_json(options.to_json().as_bytes()), Ok(options));
        assert_eq!(Options::default().to_json(), "");
        assert_eq!(Options::from_json(b""), Ok(Options::default()));
    }

    #[test]
    fn what_is_no_options_says_why() {
        for (json, why) in [
            ("{", "EOF"),
            ("[]", "JSON object"),
            ("[5000, 3]", "JSON object"),
            (r#"{"speed":1}"#, "unknown field `speed`"),
            (r#"{"ttr_ms":0}"#, "ttr_ms is 0"),
            (r#"{"max_attempts":1000000}"#, "max_attempts is 1000000"),
        ] {
            let error = Options::from_json(json.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{json}: {error}");
        }
    }
}
