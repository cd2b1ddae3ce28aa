//! The clock by which this process waits.

use std::time::Instant;

/// Now, by the clock of Tokio's timers. In a simulation that clock is paused: it stands still while a task
/// can run, and jumps to the next timer otherwise.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
