//! Why a request has no answer.

use std::fmt;

use crate::abi::code;

/// Why a request has no answer, each with the host's words. As `?` in a handler it is a nack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The topic does not grant this host (`sandbox.http`), or its address is private and not granted
    /// (`sandbox.http_private`).
    Denied(String),
    /// The method, the URL or a header is not as it must be.
    Invalid(String),
    /// The answer is larger than the topic takes (`sandbox.http_body`), or what is sent is too large.
    TooLarge(String),
    /// The request's own time was over before the answer was there. At the end of the job's time the
    /// job itself ends.
    Timeout(String),
    /// The host's name is unknown, it refuses connections, its certificate is bad, or it broke off.
    Unavailable(String),
}

impl Error {
    /// What the host answered with this number.
    pub(super) fn new(answer: i32, why: String) -> Self {
        match answer {
            code::DENIED => Self::Denied(why),
            code::INVALID => Self::Invalid(why),
            code::TOO_LARGE => Self::TooLarge(why),
            code::TIMEOUT => Self::Timeout(why),
            _ => Self::Unavailable(why),
        }
    }

    /// Whether the same request may get an answer later: a timeout, or the host is away.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Unavailable(_))
    }

    /// The number that the host answers, and its words.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn answer(&self) -> (i32, &str) {
        match self {
            Self::Denied(why) => (code::DENIED, why),
            Self::Invalid(why) => (code::INVALID, why),
            Self::TooLarge(why) => (code::TOO_LARGE, why),
            Self::Timeout(why) => (code::TIMEOUT, why),
            Self::Unavailable(why) => (code::UNAVAILABLE, why),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Denied(why)
        | Self::Invalid(why)
        | Self::TooLarge(why)
        | Self::Timeout(why)
        | Self::Unavailable(why)) = self;
        f.write_str(why)
    }
}

impl std::error::Error for Error {}
