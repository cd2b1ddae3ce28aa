//! What a handler decides about its job. The host receives the verdict once, when the handler has
//! returned.

use std::fmt::Display;
use std::time::Duration;

use crate::abi;

/// The handler's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done: the job is removed.
    Ack,
    /// Failed: the job runs again while it has attempts left, and is dead afterwards.
    Nack {
        /// The reason, kept with the job; at most 4 KiB.
        reason: String,
        /// The delay before the next attempt, at most 365 days; the topic's backoff if `None`.
        retry_after: Option<Duration>,
    },
    /// Not now, but not a failure: the job comes back later with all its attempts, at most as often
    /// as the topic's `max_snoozes`.
    Snooze {
        /// The delay, at most 365 days.
        delay: Duration,
        /// The reason, at most 4 KiB.
        reason: String,
    },
    /// Never again: the job is dead at once.
    Drop {
        /// The reason, kept with the dead job; at most 4 KiB.
        reason: String,
    },
}

impl Verdict {
    /// Failed; the topic's backoff sets the time of the next attempt.
    pub fn nack(reason: impl Display) -> Self {
        Self::Nack { reason: format!("{reason:#}"), retry_after: None }
    }

    /// Failed; the next attempt is after `delay`, 0 to 365 days. It counts as an attempt like any
    /// nack.
    pub fn retry_after(delay: Duration, reason: impl Display) -> Self {
        Self::Nack { reason: format!("{reason:#}"), retry_after: Some(delay) }
    }

    /// Not now, but not a failure: something the job needs is busy or missing. The job comes back
    /// after `delay`, 0 to 365 days, and the attempt does not count.
    pub fn snooze(delay: Duration, reason: impl Display) -> Self {
        Self::Snooze { delay, reason: format!("{reason:#}") }
    }

    /// Never again. It also turns an error into a drop: `.map_err(Verdict::drop)?`.
    pub fn drop(reason: impl Display) -> Self {
        Self::Drop { reason: format!("{reason:#}") }
    }

    /// Passes the reason and the delay to the host, and returns the verdict's number.
    pub(crate) fn settle(&self) -> i32 {
        let (number, reason) = match self {
            Self::Ack => (0, ""),
            Self::Nack { reason, retry_after } => {
                if let Some(delay) = retry_after {
                    abi::retry_after(millis(*delay));
                }
                (1, reason.as_str())
            }
            Self::Snooze { delay, reason } => {
                abi::snooze(millis(*delay));
                (1, reason.as_str())
            }
            Self::Drop { reason } => (2, reason.as_str()),
        };
        if !reason.is_empty() {
            abi::reason(reason);
        }
        number
    }
}

/// Larger delays are cut off; the host's own limit is far lower.
fn millis(delay: Duration) -> i64 {
    i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)
}

/// Any error becomes a nack with its text as the reason, which is what `?` does in a handler.
impl<E: Display> From<E> for Verdict {
    fn from(error: E) -> Self {
        Self::nack(error)
    }
}

/// What a handler may return: a [`Verdict`]; `()`, which is an ack; or a `Result` of these whose
/// error is a verdict (`Result<Verdict, Verdict>`) or implements `Display`, which is a nack.
pub trait IntoVerdict {
    /// Converts the value into a verdict.
    fn into_verdict(self) -> Verdict;
}

impl IntoVerdict for Verdict {
    fn into_verdict(self) -> Verdict {
        self
    }
}

impl IntoVerdict for () {
    fn into_verdict(self) -> Verdict {
        Verdict::Ack
    }
}

impl<V: IntoVerdict, E: Into<Verdict>> IntoVerdict for Result<V, E> {
    fn into_verdict(self) -> Verdict {
        match self {
            Ok(value) => value.into_verdict(),
            Err(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(text: &str) -> Result<Verdict, Verdict> {
        let number: u32 = text.parse()?;
        if number % 2 == 1 {
            return Err(Verdict::drop("odd"));
        }
        Ok(Verdict::Ack)
    }

    #[test]
    fn an_error_is_a_nack_with_its_text() {
        assert_eq!(half("4").into_verdict(), Verdict::Ack);
        assert_eq!(half("3").into_verdict(), Verdict::drop("odd"));
        assert_eq!(half("x").into_verdict(), Verdict::nack("invalid digit found in string"));
        let boxed: Result<(), Box<dyn std::error::Error>> = Err("away".into());
        assert_eq!(boxed.into_verdict(), Verdict::nack("away"));
        let fine: Result<(), Verdict> = Ok(());
        assert_eq!(fine.into_verdict(), Verdict::Ack);
    }
}
