//! Durations as scripts take them.

use std::time::Duration;

use duebox_job::DELAY_MAX_MS;

/// A duration in whole milliseconds, rounded down, at most ten years.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).min(DELAY_MAX_MS)
}
