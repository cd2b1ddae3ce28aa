//! What passed over one connection to Redis: round trips, how long they took, and how many failed. Counted
//! where commands are sent, so that nothing is left out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duebox_job::Durations;

/// Bounds that tell a Redis next door from one across the town, and both from one that is in trouble.
const BOUNDS: [Duration; 14] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// The traffic of one connection. It only grows.
#[derive(Debug)]
pub struct Traffic {
    /// How long each round trip took: a pipeline of commands is one. Those without an answer count too.
    pub round_trips: Durations,
    failed: AtomicU64,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { round_trips: Durations::new(&BOUNDS), failed: AtomicU64::new(0) }
    }
}

impl Traffic {
    pub(crate) fn saw(&self, took: Duration, is_answered: bool) {
        self.round_trips.add(took);
        if !is_answered {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Round trips that ended without an answer.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}
