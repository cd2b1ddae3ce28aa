//! Why a request has no response.

use std::fmt;

use crate::abi::code;

/// Why a request has no response, with the host's message. Returned with `?`, it is a nack.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The topic does not grant this host (`sandbox.http`), or its address is private and not granted
    /// (`sandbox.http_private`).
    Denied(String),
    /// The method, the URL or a header is invalid.
    Invalid(String),
    /// The response is larger than the topic allows (`sandbox.http_body`), or the request is too
    /// large.
    TooLarge(String),
    /// The request's timeout passed before the response was complete. When the job's own time ends,
    /// the job ends too.
    Timeout(String),
    /// The host name is unknown, the host refuses connections, its certificate is invalid, or it
    /// closed the connection.
    Unavailable(String),
}

impl Error {
    /// Converts the host's error code.
    pub(super) fn new(code: i32, why: String) -> Self {
        match code {
            code::DENIED => Self::Denied(why),
            code::INVALID => Self::Invalid(why),
            code::TOO_LARGE => Self::TooLarge(why),
            code::TIMEOUT => Self::Timeout(why),
            _ => Self::Unavailable(why),
        }
    }

    /// Whether a repeat of the request may succeed: after a timeout, or if the host was
    /// unavailable.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Unavailable(_))
    }

    /// The host's error code and message.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn code_and_message(&self) -> (i32, &str) {
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
