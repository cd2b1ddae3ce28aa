//! The resources that a guest may use, and how instances are assigned to jobs.
//!
//! The default is the safest choice: every job finds the state of a new instance.

use std::num::NonZeroU64;

/// How many tables a module may have.
pub(crate) const TABLES_PER_MODULE: u32 = 4;

/// The limits of one topic's sandbox. The defaults are those of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory, in bytes. A wasm32 memory never exceeds 4 GiB.
    pub memory: usize,
    /// The longest payload, in bytes. The runner enforces it, see
    /// [`Handler::payload_max`](crate::Handler::payload_max).
    pub payload: usize,
    /// The largest module file, in bytes.
    pub module: usize,
    /// Log text of one job, in bytes. Each call of `log` and each line of output counts as at least
    /// 1 byte. A job has at most 64 lines, and one more for every 16 bytes.
    pub log: usize,
    /// Elements of all tables together.
    pub tables: u32,
    /// How many WebAssembly instructions one job may execute, approximately. `None` means no limit. A
    /// module that uses no random numbers burns the same fuel for the same job on every machine. Host
    /// calls burn no fuel.
    pub fuel: Option<NonZeroU64>,
    /// How instances are assigned to jobs.
    pub instances: Instances,
}

/// How instances are assigned to the jobs of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instances {
    /// Whether `_initialize` runs once, when the module is loaded. Each instance then starts with the
    /// memory and the globals of that moment. Random numbers and times that `_initialize` read are the
    /// same for every job.
    pub snapshot: bool,
    /// How many jobs one instance may run, one after the other, 1 or more. With 1, no job sees data of
    /// another. With more, the next job finds the memory that the last one left.
    pub jobs_each: u32,
}

impl Default for Instances {
    fn default() -> Self {
        Self { snapshot: false, jobs_each: 1 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            payload: 1 << 20,
            module: 16 << 20,
            log: 64 << 10,
            tables: 100_000,
            fuel: None,
            instances: Instances::default(),
        }
    }
}
