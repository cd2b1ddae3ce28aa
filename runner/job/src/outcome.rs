//! What came of one attempt, and what a topic wants done about each class of failure.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why an attempt or a job failed. Logs and dead jobs carry it, and a topic sets a [`Policy`] for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The handler returned nack.
    Nack,
    /// The handler returned drop.
    Drop,
    /// The guest trapped.
    Trap,
    /// The attempt did not end within its ttr.
    Timeout,
    /// The guest trapped or exited after the host refused it memory.
    OutOfMemory,
    /// The guest spent its fuel.
    OutOfFuel,
    /// The guest overflowed the wasm stack.
    StackOverflow,
    /// The guest called `proc_exit`.
    Exit,
    /// The handler returned a value other than 0, 1 or 2.
    BadVerdict,
    /// The runner died or lost its lease as often as `max_crashes` allows.
    Crashed,
    /// The job was not started within its ttl.
    Expired,
    /// The due time is not a unix time in milliseconds.
    BadDue,
    /// The job's options are invalid.
    BadOptions,
    /// A payload was in no state.
    Orphan,
}

impl FailureClass {
    /// Every class.
    pub const ALL: [Self; 14] = [
        Self::Nack,
        Self::Drop,
        Self::Trap,
        Self::Timeout,
        Self::OutOfMemory,
        Self::OutOfFuel,
        Self::StackOverflow,
        Self::Exit,
        Self::BadVerdict,
        Self::Crashed,
        Self::Expired,
        Self::BadDue,
        Self::BadOptions,
        Self::Orphan,
    ];

    /// The name in logs, metrics, manifests and dead jobs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nack => "nack",
            Self::Drop => "drop",
            Self::Trap => "trap",
            Self::Timeout => "timeout",
            Self::OutOfMemory => "out_of_memory",
            Self::OutOfFuel => "out_of_fuel",
            Self::StackOverflow => "stack_overflow",
            Self::Exit => "exit",
            Self::BadVerdict => "bad_verdict",
            Self::Crashed => "crashed",
            Self::Expired => "expired",
            Self::BadDue => "bad_due",
            Self::BadOptions => "bad_options",
            Self::Orphan => "orphan",
        }
    }

    /// The policy of a topic that sets none: failures that cannot get better go to dead, the others
    /// are retried.
    pub fn default_policy(self) -> Policy {
        match self {
            Self::Drop
            | Self::BadVerdict
            | Self::Crashed
            | Self::Expired
            | Self::BadDue
            | Self::BadOptions
            | Self::Orphan => Policy::Dead,
            Self::Nack
            | Self::Trap
            | Self::Timeout
            | Self::OutOfMemory
            | Self::OutOfFuel
            | Self::StackOverflow
            | Self::Exit => Policy::Retry,
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a topic does about a failure class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Retry while attempts are left, then dead.
    Retry,
    /// Dead at once.
    Dead,
    /// Delete the job.
    Discard,
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its class.
    pub class: FailureClass,
    /// The reason: the handler's own, or the message of the trap.
    pub reason: String,
    /// The wait the handler asked for; it replaces the backoff.
    pub retry_after: Option<Duration>,
}

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The handler returned ack.
    Acked,
    /// The handler snoozed the job: it returns after a while, and no attempt is spent.
    Snoozed {
        /// The wait it asked for.
        delay: Duration,
        /// The reason.
        reason: String,
    },
    /// The attempt failed; it is spent.
    Failed(Failure),
    /// The attempt did not happen, or was ended, because of the host: it had no room, lost the lease,
    /// or shut down. No attempt is spent. The text is the reason.
    HostFault(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_serde_reads() {
        for class in FailureClass::ALL {
            let json = serde_json::to_string(&class).unwrap();
            assert_eq!(json, format!("\"{}\"", class.name()));
        }
    }
}
