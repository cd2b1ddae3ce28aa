//! What a daemon has and uses now: slots, memory and the round trip to Redis; a part of its status report.

use std::sync::Arc;
use std::time::Duration;

use duebox_queue::LatencyStats;
use serde::{Deserialize, Serialize};

use super::metrics::process;
use crate::executor::fair_semaphore::FairSemaphore;

/// What a daemon has and uses now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DaemonLoad {
    /// Places for running jobs: `runner.max_jobs`.
    pub slots: u32,
    /// Running jobs.
    pub running: u32,
    /// Resident memory of the process; unknown outside of Linux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The mean round trip to Redis since the report before, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_ms: Option<f64>,
}

/// The sources of a daemon's load.
#[derive(Clone)]
pub struct LoadSource {
    slots: FairSemaphore,
    slots_max: u32,
    latency: Arc<LatencyStats>,
    /// The round trips until the last reading, and their sum.
    before: (u64, Duration),
}

impl LoadSource {
    /// The load of a daemon with these slots and this connection.
    pub fn new(slots: FairSemaphore, slots_max: u32, latency: Arc<LatencyStats>) -> Self {
        Self { slots, slots_max, latency, before: (0, Duration::ZERO) }
    }

    /// Reads the load now.
    pub(super) fn read(&mut self) -> DaemonLoad {
        let free = u32::try_from(self.slots.free()).unwrap_or(u32::MAX);
        let counted = self.latency.round_trips.counted();
        let (count, sum) = std::mem::replace(&mut self.before, (counted.count, counted.sum));
        let (trips, took) = (counted.count.saturating_sub(count), counted.sum.saturating_sub(sum));
        DaemonLoad {
            slots: self.slots_max,
            running: self.slots_max.saturating_sub(free),
            memory_bytes: process::resident_bytes(),
            redis_ms: (trips > 0).then(|| took.as_micros() as f64 / trips as f64 / 1_000.0),
        }
    }
}
