//! The cost of one attempt, for its log line and the module stats.

use std::time::Duration;

use duebox_sandbox::RunReport;

/// The cost of one attempt; zero if no module ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Its wall time.
    pub wall: Duration,
    /// Its CPU time, including the host's part.
    pub cpu: Duration,
    /// Its largest linear memory, in bytes.
    pub memory_peak: u64,
    /// The fuel it used; `None` if the topic does not meter fuel.
    pub fuel: Option<u64>,
    /// Calls of imports.
    pub host_calls: u64,
    /// Bytes from the host to the guest: payload, config, replies.
    pub bytes_in: u64,
    /// Bytes from the guest to the host: log, result, reason, follow-ups.
    pub bytes_out: u64,
    /// Log lines beyond its budget.
    pub log_lines_dropped: u64,
}

impl Cost {
    /// The cost of an attempt of which only the wall time is known.
    pub fn of_wall(wall: Duration) -> Self {
        Self { wall, ..Self::default() }
    }

    /// The cost of a run with this wall time, which includes the wait for the sandbox.
    pub fn of(report: &RunReport, wall: Duration) -> Self {
        Self {
            wall,
            cpu: report.cpu,
            memory_peak: report.memory_peak as u64,
            fuel: report.fuel_used,
            host_calls: report.host_calls,
            bytes_in: report.bytes_in,
            bytes_out: report.bytes_out,
            log_lines_dropped: report.log_lines_dropped.into(),
        }
    }
}
