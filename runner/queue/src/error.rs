//! What can go wrong between this process and Redis. A refusal of one job is a value, not an error.

/// Why Redis did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QueueError {
    /// The address cannot be read.
    #[error(
        "{url} is no Redis address: {reason}; write redis://host:port/db or unix:///path/to.sock"
    )]
    Address {
        /// The address, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Redis cannot be reached.
    #[error("Redis at {url} cannot be reached: {reason}; start it, or correct redis.url")]
    Unreachable {
        /// The address, without its password.
        url: String,
        /// What the connection said.
        reason: String,
    },
    /// Redis is there and does not let us in.
    #[error("Redis at {url} refuses the login: {reason}; correct redis.password")]
    Login {
        /// The address, without its password.
        url: String,
        /// What Redis said.
        reason: String,
    },
    /// A command got no answer: whether Redis carried it out is not known.
    #[error("Redis gave no answer: {0}")]
    NoAnswer(String),
    /// Redis refused a command and did nothing.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// One of our own scripts refused its arguments: a bug in the caller.
    #[error("the queue refused the call: {0}")]
    BadCall(String),
    /// Redis answered something that the verb does not answer.
    #[error("unexpected answer from Redis: {0}")]
    Answer(String),
}

impl QueueError {
    /// True if the same call can be expected to fail the same way for ever.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Address { .. } | Self::BadCall(_))
    }
}

impl From<redis::RedisError> for QueueError {
    fn from(error: redis::RedisError) -> Self {
        if error.is_io_error() || error.is_unrecoverable_error() {
            return Self::NoAnswer(error.to_string());
        }
        match error.detail() {
            Some(detail) if error.code() == Some("DUEBOX") => Self::BadCall(detail.to_owned()),
            _ => Self::Refused(error.to_string()),
        }
    }
}
