//! Latency of the connection to Redis: round trips, how long they took, and how many failed. Every
//! command is counted, because the count is taken where commands are sent.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duebox_job::Durations;

/// Bucket bounds: from a local Redis (100 µs) to one that is failing (5 s).
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

/// Latency statistics of one connection. The counters only grow.
#[derive(Debug)]
pub struct LatencyStats {
    /// Duration of each round trip. A pipeline is one round trip; a failed one counts too.
    pub round_trips: Durations,
    failed: AtomicU64,
}

impl Default for LatencyStats {
    fn default() -> Self {
        Self { round_trips: Durations::new(&BOUNDS), failed: AtomicU64::new(0) }
    }
}

impl LatencyStats {
    pub(crate) fn saw(&self, took: Duration, has_reply: bool) {
        self.round_trips.add(took);
        if !has_reply {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Round trips without a reply.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}
