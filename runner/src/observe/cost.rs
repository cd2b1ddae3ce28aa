//! What one attempt cost, as its log line and the topic's figures have it.

use std::time::Duration;

use duebox_sandbox::RunReport;

/// The cost of one attempt; all zero of one that no module has begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// How long it ran.
    pub wall: Duration,
    /// Time of a processor that it took, the host's part of it included.
    pub cpu: Duration,
    /// The largest linear memory it had, in bytes.
    pub memory_peak: u64,
    /// Units of fuel it burnt; none where the topic has no budget of fuel.
    pub fuel: Option<u64>,
    /// Calls of imports.
    pub host_calls: u64,
    /// Bytes that the host gave to it: payload, config, answers.
    pub bytes_in: u64,
    /// Bytes that the host took from it: log, result, reason, follow-ups.
    pub bytes_out: u64,
    /// Log lines that were over its budget.
    pub log_lines_dropped: u64,
}

impl Cost {
    /// Of an attempt of which only the time is known.
    pub fn of_wall(wall: Duration) -> Self {
        Self { wall, ..Self::default() }
    }

    /// Of a run that took this long, its wait for a place in the sandbox included.
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
