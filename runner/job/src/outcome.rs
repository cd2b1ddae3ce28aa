//! What came of one attempt, and what a topic wants done about each class of failure.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why an attempt, or a job, failed. Logs and dead jobs carry it, and a topic chooses a [`Policy`]
/// for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The handler said nack.
    Nack,
    /// The handler said drop.
    Drop,
    /// The guest trapped.
    Trap,
    /// The attempt was not over within its ttr.
    Timeout,
    /// The guest trapped or exited after the host refused it memory.
    OutOfMemory,
    /// The guest spent its fuel.
    OutOfFuel,
    /// The guest overflowed the wasm stack.
    StackOverflow,
    /// The guest called `proc_exit`.
    Exit,
    /// The handler answered something other than 0, 1 or 2.
    BadVerdict,
    /// The runner died, or lost its lease, as often as `max_crashes` allows.
    Crashed,
    /// The job was not started within its ttl.
    Expired,
    /// A plain producer's due time is no unix time in milliseconds.
    BadDue,
    /// The job's stored options cannot be read.
    BadOptions,
    /// A payload was found in no state.
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

    /// What happens where a topic says nothing: what cannot get better goes to dead, the rest is
    /// tried again.
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

/// What a topic wants done about a class of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Try again while attempts are left, then dead.
    Retry,
    /// To dead at once.
    Dead,
    /// Forget the job.
    Discard,
}

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its class.
    pub class: FailureClass,
    /// What happened, for people: the handler's own reason, or the trap's message.
    pub reason: String,
    /// The wait the handler asked for; beats the backoff.
    pub retry_after: Option<Duration>,
}

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The handler said ack.
    Acked,
    /// The handler put the job off: it comes back after a while, and no attempt is spent.
    Snoozed {
        /// The wait it asked for.
        delay: Duration,
        /// Why, for people.
        reason: String,
    },
    /// The attempt failed; it is spent.
    Failed(Failure),
    /// The attempt did not happen, or was ended, through no fault of the job: the host had no room,
    /// or it was interrupted (lease lost, shutdown). No attempt is spent. The text says why.
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
