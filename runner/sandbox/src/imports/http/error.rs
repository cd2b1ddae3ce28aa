//! Why a request has no response. Each error is a code for the guest's program, and a text that it can read
//! with `http_read`.

use std::net::IpAddr;
use std::time::Duration;

use super::resolver::LookupError;
use super::tls::TlsError;
use crate::imports::abi::{DENIED, INVALID, TIMEOUT, TOO_LARGE, UNAVAILABLE};
use crate::memory_budget::BudgetExhausted;

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("the topic grants no network access")]
    NoGrant,
    #[error("{origin} is not granted; add it to `http` of the topic's sandbox")]
    Origin { origin: String },
    #[error("{0} is not public; add it to `http_private` of the topic's sandbox to allow it")]
    PrivateAddress(IpAddr),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the first line of the head exceeds {max} bytes")]
    LineTooLong { max: usize },
    #[error("the request headers exceed 16 KiB")]
    HeadersTooLong,
    #[error("the head of the response of {origin} is too large")]
    ResponseHead { origin: String },
    #[error("the response headers of {origin} exceed 16 KiB")]
    ResponseHeaders { origin: String },
    #[error(
        "the response of {origin} exceeds {max} bytes; raise `http_body` of the topic's sandbox"
    )]
    ResponseBody { origin: String, max: usize },
    #[error("{origin} did not respond within {timeout:?}")]
    Timeout { origin: String, timeout: Duration },
    #[error(transparent)]
    Lookup(LookupError),
    #[error("{origin} cannot be reached: {causes}")]
    Connect { origin: String, causes: String },
    #[error("{origin} sent no complete response: {causes}")]
    Exchange { origin: String, causes: String },
    #[error("{origin} responded with status {status}, which is not an HTTP status")]
    Status { origin: String, status: u16 },
    #[error(transparent)]
    Memory(#[from] BudgetExhausted),
    #[error("this run has no network: it is a trial run, in which nothing has an effect")]
    NoClient,
    /// The interceptor of the run gave this error.
    #[error("{text}")]
    Intercepted { code: i32, text: String },
    #[error("the daemon is stopping")]
    Stopping,
    #[error("the HTTP client does not start: {0}")]
    Client(reqwest::Error),
    #[error("the HTTP client does not start: {0}")]
    Tls(#[from] TlsError),
}

/// Why the head of a request is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    #[error("the head has no complete line `METHOD url`")]
    NoLine,
    #[error("the first line is not UTF-8")]
    NotUtf8,
    #[error("the first line is not `METHOD url`")]
    Line,
    #[error("the method cannot be sent; use GET, POST, PUT …")]
    Method,
    #[error("the URL contains a blank, a backslash or a control character")]
    UrlCharacter,
    #[error("the URL does not parse: {0}")]
    Url(#[from] url::ParseError),
    #[error("the URL has no host")]
    NoHost,
    #[error("the URL contains a user; send an authorization header instead")]
    UserInfo,
    #[error(
        "the headers are not lines of `name: value` with names in lower case, each ended by a line feed"
    )]
    Block,
    #[error("the header {0} is set by the host; omit it")]
    HostHeader(String),
    #[error("the header {0} cannot be sent as it is")]
    Header(String),
}

impl HttpError {
    /// The error code of docs/reference/abi.md.
    pub(crate) fn code(&self) -> i32 {
        match self {
            Self::NoGrant
            | Self::Origin { .. }
            | Self::PrivateAddress(_)
            | Self::Lookup(LookupError::Denied { .. }) => DENIED,
            Self::Request(_) => INVALID,
            Self::LineTooLong { .. }
            | Self::HeadersTooLong
            | Self::ResponseHead { .. }
            | Self::ResponseHeaders { .. }
            | Self::ResponseBody { .. } => TOO_LARGE,
            Self::Timeout { .. } => TIMEOUT,
            Self::Intercepted { code, .. } => *code,
            Self::Lookup(LookupError::Unknown(_) | LookupError::Failed { .. })
            | Self::Connect { .. }
            | Self::Exchange { .. }
            | Self::Status { .. }
            | Self::Memory(_)
            | Self::NoClient
            | Self::Stopping
            | Self::Client(_)
            | Self::Tls(_) => UNAVAILABLE,
        }
    }
}
