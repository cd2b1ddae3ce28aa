//! Durations in milliseconds, as logs, JSON and Redis have them.

use std::time::Duration;

/// Whole milliseconds, rounded down.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds with three decimals.
pub(crate) fn exact_millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
