//! What can be wrong with the options of a job. Each text names the option, its value and what is allowed.

use crate::BackoffError;

/// An invalid option.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OptionError {
    /// The stored form is not an object.
    #[error("options are a JSON object")]
    NotAnObject,
    /// The stored form is not JSON, or has an unknown or wrongly typed member.
    #[error("{0}")]
    Json(String),
    /// A number is out of its range.
    #[error("{name} is {value}; it must be from {least} to {most}")]
    OutOfRange {
        /// The name of the option.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The least value allowed.
        least: u64,
        /// The largest value allowed.
        most: u64,
    },
    /// The backoff.
    #[error(transparent)]
    Backoff(#[from] BackoffError),
    /// The name of a header.
    #[error("{0:?} is not a header name; allowed are 1 to 64 of the characters a-z 0-9 . _ -")]
    HeaderName(String),
    /// The value of a header.
    #[error("the header `{0}` holds a control character")]
    HeaderValue(String),
    /// All headers together.
    #[error("the headers take {0} bytes; at most 16384 are allowed")]
    HeadersTooLarge(usize),
    /// The key.
    #[error(
        "{0:?} is not a valid key; allowed are 1 to 256 bytes of text without control characters"
    )]
    Key(String),
}
