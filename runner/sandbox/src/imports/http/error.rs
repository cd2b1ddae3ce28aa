//! Why a request has no response: a code for the guest's program, and a text for its log.

use crate::imports::abi::{DENIED, INVALID, TIMEOUT, TOO_LARGE, UNAVAILABLE};
use crate::memory_budget::Spent;

/// Why a request has no response. The text says it for people, who read it in the guest's log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    /// Neither the origin nor, if it came that far, the address is granted.
    #[error("{0}")]
    Denied(String),
    /// The request is malformed.
    #[error("{0}")]
    Invalid(String),
    /// Its head, or what came back, is over a limit.
    #[error("{0}")]
    TooLarge(String),
    /// The time of the call is over.
    #[error("{0}")]
    TimedOut(String),
    /// The server cannot be found, reached, trusted or understood.
    #[error("{0}")]
    Unavailable(String),
}

impl HttpError {
    /// There is no memory for a body.
    pub(super) fn of_memory(spent: Spent) -> Self {
        Self::Unavailable(spent.to_string())
    }

    /// The error of docs/reference/abi.md.
    pub(crate) fn code(&self) -> i32 {
        match self {
            Self::Denied(_) => DENIED,
            Self::Invalid(_) => INVALID,
            Self::TooLarge(_) => TOO_LARGE,
            Self::TimedOut(_) => TIMEOUT,
            Self::Unavailable(_) => UNAVAILABLE,
        }
    }
}
