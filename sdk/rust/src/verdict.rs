//! What a handler decides about its job. A verdict is a value; the host hears of it once, when the
//! handler has returned.

use std::fmt::Display;
use std::time::Duration;

use crate::abi;

/// What becomes of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done: the job is gone.
    Ack,
    /// Failed: the job runs again while it has attempts left, then it is dead.
    Nack {
        /// Why, for people; kept with the job, at most 4 KiB.
        reason: String,
        /// The wait before the next attempt, up to 365 days; the topic's backoff if `None`.
        retry_after: Option<Duration>,
    },
    /// Not now, and no failure: the job comes back later with all its attempts, as often as the
    /// topic's `max_snoozes` allows.
    Snooze {
        /// The wait, up to 365 days.
        delay: Duration,
        /// Why, for people, at most 4 KiB.
        reason: String,
    },
    /// Never again: the job is dead at once.
    Drop {
        /// Why, for people; kept with the dead job, at most 4 KiB.
        reason: String,
    },
}

impl Verdict {
    /// Failed; the topic's backoff says when the next attempt is.
    pub fn nack(reason: impl Display) -> Self {
        Self::Nack { reason: format!("{reason:#}"), retry_after: None }
    }

    /// Failed; the next attempt is after `delay`, 0 to 365 days. It spends an attempt like any nack.
    pub fn retry_after(delay: Duration, reason: impl Display) -> Self {
        Self::Nack { reason: format!("{reason:#}"), retry_after: Some(delay) }
    }

    /// Not now, and no failure: what the job needs is taken, or not there yet. It comes back after
    /// `delay`, 0 to 365 days, and no attempt is spent.
    pub fn snooze(delay: Duration, reason: impl Display) -> Self {
        Self::Snooze { delay, reason: format!("{reason:#}") }
    }

    /// Never again. As a function it turns an error into a drop: `.map_err(Verdict::drop)?`.
    pub fn drop(reason: impl Display) -> Self {
        Self::Drop { reason: format!("{reason:#}") }
    }

    /// Tells the host the reason and the delay, and gives the number that the verdict is to it.
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

/// The host's own bound is far below what this cuts.
fn millis(delay: Duration) -> i64 {
    i64::try_from(delay.as_millis()).unwrap_or(i64::MAX)
}

/// Any error means nack, with its text as the reason: what `?` does in a handler.
impl<E: Display> From<E> for Verdict {
    fn from(error: E) -> Self {
        Self::nack(error)
    }
}

/// What a handler may return: a [`Verdict`]; `()`, which is an ack; or a `Result` of these, whose
/// error is a verdict (`Result<Verdict, Verdict>`) or anything that can be shown, which is a nack.
pub trait IntoVerdict {
    /// The verdict that the value stands for.
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
