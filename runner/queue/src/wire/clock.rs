//! The clock by which this process waits.

use std::time::Instant;

/// Now, by the clock of Tokio's timers, which a simulation pauses.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
