//! What a dead or done job keeps of its last attempt: the JSON in its fields `dead:info` and `done:info`,
//! and the last failure of a job that waits for its next attempt. A field that is not known is not written.
//!
//! The reasons of deaths without an attempt stand here. Two others name what was found: `promote.lua` the
//! invalid due time, and the caller that refuses a job's options or payload before a run.

use duebox_job::FailureClass;
use serde::Serialize;

/// What is known of the last attempt of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LastAttempt<'a> {
    /// The class of its failure; `None` if it did not fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<FailureClass>,
    /// Why it failed, for people.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub reason: &'a str,
    /// The number of the attempt, from 1; `None` if no attempt led to this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The SHA-256 of the module that ran it, 64 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<&'a str>,
    /// The runner that ran it; empty if none did.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub runner: &'a str,
    /// When it started, unix ms by the clock of Redis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    /// How long it ran, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<f64>,
    /// The job whose ack pushed this one, as `topic/id`; only of done jobs, which keep no headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<&'a str>,
    /// The jobs that it pushed with its ack, as `topic/id`.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub follow_ups: &'a [String],
    /// The stack of the guest when it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<&'a str>,
    /// The last lines that the handler logged.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub log: &'a [String],
}

impl LastAttempt<'_> {
    /// What a job keeps that died without an attempt of its own, such as by the deaths of its runners.
    pub fn without_attempt(class: FailureClass) -> Self {
        let reason = match class {
            FailureClass::Crashed => {
                "its runner died, or lost the lease, as often as max_crashes allows"
            }
            FailureClass::Expired => "it was not started within its ttl after it fell due",
            FailureClass::BadDue => "its due time is not a valid time in Unix milliseconds",
            FailureClass::Orphan => "its payload was found in no state",
            FailureClass::Nack
            | FailureClass::Drop
            | FailureClass::Trap
            | FailureClass::Timeout
            | FailureClass::OutOfMemory
            | FailureClass::OutOfFuel
            | FailureClass::StackOverflow
            | FailureClass::Exit
            | FailureClass::BadVerdict
            | FailureClass::BadOptions => "",
        };
        Self { class: Some(class), reason, ..Self::default() }
    }

    /// What a dead job keeps if nothing was written when it died.
    pub(crate) fn unknown() -> Self {
        let reason = "what it died of was not written";
        Self { class: Some(FailureClass::Orphan), reason, ..Self::default() }
    }

    /// The text that is stored.
    pub fn to_json(&self) -> String {
        // Strings and finite numbers: JSON can hold all of it.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_fields_are_written() {
        assert_eq!(LastAttempt::default().to_json(), "{}");
        let info =
            LastAttempt { attempt: Some(2), ..LastAttempt::without_attempt(FailureClass::Trap) };
        assert_eq!(info.to_json(), r#"{"class":"trap","attempt":2}"#);
    }
}
