//! What a daemon reports of its process: the machine, its slots, its memory and its round trips to Redis.

use std::sync::Arc;
use std::time::Duration;

use duebox_sandbox::Sandbox;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
    /// How long the last report took to Redis and back, in ms; null before the second report.
    #[serde(default)]
    pub redis_ms: Option<f64>,
}

/// The sources of the status.
#[derive(Clone)]
pub struct ProcessSources {
    /// A permit for each job that may run.
    pub slots: FairSemaphore,
    /// The number of permits.
    pub slots_max: u32,
    /// The guests.
    pub sandbox: Arc<Sandbox>,
}

impl ProcessSources {
    /// The status now; `round_trip` is that of the last report.
    pub fn read(&self, round_trip: Option<Duration>) -> ProcessStatus {
        let slots = u64::from(self.slots_max);
        ProcessStatus {
            host: host(),
            slots,
            slots_used: slots.saturating_sub(self.slots.free() as u64),
            memory_bytes: resident_bytes(),
            guest_memory_bytes: self.sandbox.memory_held() as u64,
            redis_ms: round_trip.map(|took| took.as_micros() as f64 / 1_000.0),
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

#[cfg(target_os = "linux")]
fn resident_bytes() -> Option<u64> {
    use procfs::WithCurrentSystemInfo as _;
    let stat = procfs::process::Process::myself().and_then(|process| process.stat()).ok()?;
    Some(stat.rss_bytes().get())
}

#[cfg(not(target_os = "linux"))]
fn resident_bytes() -> Option<u64> {
    None
}
