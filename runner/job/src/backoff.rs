//! The wait of a failed job before its next attempt. Pure: the caller passes the random number.

use std::time::Duration;

/// The spacing of attempts: an exponential with jitter, or a fixed schedule.
#[derive(Debug, Clone, PartialEq)]
pub enum Backoff {
    /// `base · factor^(failures − 1)`, at most `max`, then shortened at random by up to `jitter` of itself. It
    /// only shortens, so no wait is longer than `max`.
    Exponential {
        /// The wait after the first failure.
        base: Duration,
        /// Growth from one failure to the next; 1.0 or more.
        factor: f64,
        /// The longest wait.
        max: Duration,
        /// The part of the wait that is random, 0.0 to 1.0.
        jitter: f64,
    },
    /// One wait for each failure; the last repeats.
    Schedule(Vec<Duration>),
}

/// Invalid numbers of a backoff.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BackoffError {
    /// The factor is below 1.0 or not a number.
    #[error("backoff.factor is {0}; it must be a number from 1.0 to 100.0")]
    Factor(f64),
    /// The jitter is not from 0.0 to 1.0.
    #[error("backoff.jitter is {0}; it must be a number from 0.0 to 1.0")]
    Jitter(f64),
    /// The longest wait is shorter than the first.
    #[error("backoff.max is shorter than backoff.base")]
    MaxBelowBase,
    /// The schedule has no entry.
    #[error("the backoff schedule is empty; give at least one duration")]
    EmptySchedule,
    /// The schedule has more than 1,000 entries.
    #[error("the backoff schedule has {0} entries; at most 1000 are allowed")]
    LongSchedule(usize),
}

impl Default for Backoff {
    fn default() -> Self {
        Self::Exponential {
            base: Self::DEFAULT_BASE,
            factor: Self::DEFAULT_FACTOR,
            max: Self::DEFAULT_MAX,
            jitter: Self::DEFAULT_JITTER,
        }
    }
}

impl Backoff {
    /// The default wait after the first failure.
    pub const DEFAULT_BASE: Duration = Duration::from_secs(1);
    /// The default growth from one failure to the next.
    pub const DEFAULT_FACTOR: f64 = 2.0;
    /// The default longest wait.
    pub const DEFAULT_MAX: Duration = Duration::from_secs(3_600);
    /// The default random part of a wait.
    pub const DEFAULT_JITTER: f64 = 0.2;

    /// Checks the numbers of an exponential backoff.
    ///
    /// # Errors
    /// [`BackoffError`] names the number that is out of range.
    pub fn exponential(
        base: Duration,
        factor: f64,
        max: Duration,
        jitter: f64,
    ) -> Result<Self, BackoffError> {
        if !(1.0..=100.0).contains(&factor) {
            return Err(BackoffError::Factor(factor));
        }
        if !(0.0..=1.0).contains(&jitter) {
            return Err(BackoffError::Jitter(jitter));
        }
        if max < base {
            return Err(BackoffError::MaxBelowBase);
        }
        Ok(Self::Exponential { base, factor, max, jitter })
    }

    /// Checks a schedule.
    ///
    /// # Errors
    /// [`BackoffError`] if it is empty or has more than 1,000 entries.
    pub fn schedule(waits: Vec<Duration>) -> Result<Self, BackoffError> {
        match waits.len() {
            0 => Err(BackoffError::EmptySchedule),
            1..=1_000 => Ok(Self::Schedule(waits)),
            many => Err(BackoffError::LongSchedule(many)),
        }
    }

    /// The wait after the `failures`-th failure (counted from 1), with `random` in `0.0..1.0`.
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let failures = failures.max(1);
        match self {
            Self::Schedule(waits) => {
                let index = (failures as usize - 1).min(waits.len().saturating_sub(1));
                waits.get(index).copied().unwrap_or_default()
            }
            Self::Exponential { base, factor, max, jitter } => {
                let exponent = i32::try_from(failures - 1).unwrap_or(i32::MAX);
                let grown = (base.as_secs_f64() * factor.powi(exponent)).min(max.as_secs_f64());
                Duration::from_secs_f64(grown * (1.0 - jitter * random))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_schedule_of_the_field_spaces_eight_attempts() {
        let minutes = [2, 10, 10, 60, 120, 360, 900];
        let waits = minutes.map(|m| Duration::from_secs(60 * m)).to_vec();
        let backoff = Backoff::schedule(waits.clone()).unwrap();
        for (failures, wait) in (1..).zip(&waits) {
            assert_eq!(backoff.delay(failures, 0.5), *wait);
        }
        assert_eq!(backoff.delay(100, 0.5), waits[6]);
    }

    #[test]
    fn nonsense_is_refused() {
        let second = Duration::from_secs(1);
        assert!(Backoff::exponential(second, 0.5, second, 0.0).is_err());
        assert!(Backoff::exponential(second, f64::NAN, second, 0.0).is_err());
        assert!(Backoff::exponential(second, 2.0, second, 1.5).is_err());
        assert_eq!(
            Backoff::exponential(second, 2.0, Duration::ZERO, 0.1),
            Err(BackoffError::MaxBelowBase)
        );
        assert_eq!(Backoff::schedule(vec![]), Err(BackoffError::EmptySchedule));
    }

    proptest! {
        #[test]
        fn an_exponential_stays_within_its_bounds(
            base_ms in 0u64..100_000, factor in 1.0f64..100.0, extra_ms in 0u64..10_000_000,
            jitter in 0.0f64..=1.0, failures in 0u32..=u32::MAX, random in 0.0f64..1.0,
        ) {
            let (base, max) = (Duration::from_millis(base_ms), Duration::from_millis(base_ms + extra_ms));
            let backoff = Backoff::exponential(base, factor, max, jitter).unwrap();
            let delay = backoff.delay(failures, random).as_secs_f64();
            prop_assert!(delay >= base.as_secs_f64() * (1.0 - jitter) - 1e-6);
            prop_assert!(delay <= max.as_secs_f64() + 1e-6);
        }
    }
}
