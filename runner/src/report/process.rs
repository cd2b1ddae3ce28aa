//! What a daemon reports of its process: the machine, its slots, its memory and its round trips to Redis.

use std::sync::Arc;
use std::time::Duration;

use duebox_queue::LatencyStats;
use duebox_sandbox::Sandbox;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::metrics::process;
use crate::executor::fair_semaphore::FairSemaphore;

/// The process of a daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProcessStatus {
    /// The name of its machine or container; empty if it is unknown.
    #[serde(default)]
    pub host: String,
    /// Jobs that may run at once (`runner.max_jobs`).
    pub slots: u64,
    /// Slots in use.
    pub slots_used: u64,
    /// Resident memory in bytes; null if it is unknown.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Memory of all guests in bytes, a part of it.
    #[serde(default)]
    pub guest_memory_bytes: u64,
    /// The mean round trip to Redis since the report before, in ms; null if there was none.
    #[serde(default)]
    pub redis_ms: Option<f64>,
}

/// The sources of the status.
#[derive(Clone)]
pub struct ProcessSources {
    slots: FairSemaphore,
    slots_max: u32,
    sandbox: Arc<Sandbox>,
    latency: Arc<LatencyStats>,
    /// The round trips until the last reading, and their sum.
    before: (u64, Duration),
}

impl ProcessSources {
    /// The process with these permits to run jobs, their number, these guests and this connection to Redis.
    pub fn new(
        (slots, slots_max): (FairSemaphore, u32),
        sandbox: Arc<Sandbox>,
        latency: Arc<LatencyStats>,
    ) -> Self {
        Self { slots, slots_max, sandbox, latency, before: (0, Duration::ZERO) }
    }

    /// The status now.
    pub(super) fn read(&mut self) -> ProcessStatus {
        let slots = u64::from(self.slots_max);
        let counted = self.latency.round_trips.counted();
        let (count, sum) = std::mem::replace(&mut self.before, (counted.count, counted.sum));
        let (trips, took) = (counted.count.saturating_sub(count), counted.sum.saturating_sub(sum));
        ProcessStatus {
            host: host(),
            slots,
            slots_used: slots.saturating_sub(self.slots.free() as u64),
            memory_bytes: process::resident_bytes(),
            guest_memory_bytes: self.sandbox.memory_held() as u64,
            redis_ms: (trips > 0).then(|| took.as_micros() as f64 / trips as f64 / 1_000.0),
        }
    }
}

#[cfg(target_os = "linux")]
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn host() -> String {
    String::new()
}
