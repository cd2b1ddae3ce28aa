//! Errors between this process and Redis. A refused job is a value, not an error.

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QueueError {
    /// The address is malformed.
    #[error(
        "{url} is not a Redis address: {reason}; write redis://host:port/db or unix:///path/to.sock"
    )]
    Address {
        /// The address, without its password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Redis is unreachable.
    #[error("Redis at {url} cannot be reached: {reason}; start it, or correct redis.url")]
    Unreachable {
        /// The address, without its password.
        url: String,
        /// The reason of the connection.
        reason: String,
    },
    /// Redis refused the login.
    #[error("Redis at {url} refuses the login: {reason}; correct redis.password")]
    Login {
        /// The address, without its password.
        url: String,
        /// The reason of Redis.
        reason: String,
    },
    /// A command got no answer: it may or may not have been carried out.
    #[error("Redis gave no answer: {0}")]
    NoAnswer(String),
    /// Redis refused a command; nothing has changed.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// A script refused its arguments: the caller passed a value out of range.
    #[error("the queue refused the call: {0}")]
    BadCall(String),
    /// A reply of an unexpected shape.
    #[error("unexpected answer from Redis: {0}")]
    Answer(String),
}

impl QueueError {
    /// True if the same call fails the same way every time.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Address { .. } | Self::BadCall(_))
    }

    /// True if Redis answered and did not carry out the call. Calls on other keys may succeed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::BadCall(_) | Self::Answer(_))
    }
}

impl QueueError {
    /// What this error means for a call that was repeated: a refused repetition does not tell what became
    /// of the first try.
    pub(crate) fn of_repetition(self) -> Self {
        match self {
            Self::Refused(reason) => Self::NoAnswer(format!(
                "the reply was lost, and the repeated call was refused: {reason}"
            )),
            other => other,
        }
    }

    /// What an error of the redis crate means.
    pub(crate) fn of_redis(error: redis::RedisError) -> Self {
        if error.is_io_error() || error.is_unrecoverable_error() {
            return Self::NoAnswer(error.to_string());
        }
        match error.detail() {
            Some(detail) if error.code() == Some("DUEBOX") => Self::BadCall(detail.to_owned()),
            _ => Self::Refused(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_repetition_tells_nothing_of_the_first_try() {
        let error = QueueError::Refused("OOM".to_owned()).of_repetition();
        assert!(matches!(&error, QueueError::NoAnswer(why) if why.contains("OOM")), "{error}");
    }
}
