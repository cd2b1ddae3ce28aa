//! The report of one run: the outcome, the output of the guest, and the cost of the run.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, Outcome};

use super::failure::{self, End};
use crate::imports::call::GuestState as _;
use crate::imports::spans::AttemptTrace;
use crate::instance::guest::Guest;

/// The report of one run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// The outcome for the job.
    pub outcome: Outcome,
    /// The result to store with the job, at most 64 KiB. Only with an ack.
    pub result: Option<Bytes>,
    /// The follow-up jobs to push, in the guest's order, at most 100. Only with an ack.
    pub follow_ups: Vec<FollowUp>,
    /// What ended the guest, and one line for each call that led to it, innermost first; at most 8 KiB.
    /// `None` if the guest returned, or was not running.
    pub backtrace: Option<String>,
    /// The last 64 log lines within the budget, oldest first. Each begins with its level (`error: …`) and is
    /// cut at 1 KiB. Empty with an ack.
    pub log_tail: Vec<String>,
    /// The wall-clock time since the call of [`Handler::run`](crate::Handler::run).
    pub wall: Duration,
    /// The CPU time, including that of host calls. The first time slice of up to 2 ms is measured by the
    /// wall clock, all others by the thread's CPU clock.
    pub cpu: Duration,
    /// The largest linear memory of the guest, in bytes.
    pub memory_peak: usize,
    /// The fuel that was burnt, about one unit for each instruction. `None` without a fuel limit.
    pub fuel_used: Option<u64>,
    /// Calls of imports, including those of WASI.
    pub host_calls: u64,
    /// Bytes that the host wrote into the guest's memory: the payload, and results of imports. WASI is not
    /// included.
    pub bytes_in: u64,
    /// Bytes that the host read from the guest: log, output, result, reason, follow-up jobs.
    pub bytes_out: u64,
    /// Lines, or calls of `log`, that exceeded the log budget.
    pub log_lines_dropped: u32,
    /// The trace of the attempt, if the invocation has a span.
    pub attempt_trace: Option<Box<AttemptTrace>>,
}

impl RunReport {
    /// The report of an attempt that ran. Of the guest's output, it contains what counts with this outcome.
    pub(crate) fn new(end: End, guest: &mut Guest, fuel_used: Option<u64>) -> Self {
        let backtrace = end.backtrace();
        let outcome = failure::outcome(end, guest);
        let (result, follow_ups, log_tail) = match outcome {
            Outcome::Acked => (guest.output.result.take(), guest.follow_ups.take(), Vec::new()),
            _ => (None, Vec::new(), guest.log.take_tail()),
        };
        let io = &guest.calls().io;
        Self {
            outcome,
            result,
            follow_ups,
            backtrace,
            log_tail,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            memory_peak: guest.limiter.memory_peak,
            fuel_used,
            host_calls: io.calls(),
            bytes_in: io.bytes_in(),
            bytes_out: io.bytes_out(),
            log_lines_dropped: guest.log.dropped(),
            attempt_trace: guest.spans.take(),
        }
    }

    /// The report of an attempt that the host could not start.
    pub(crate) fn not_started(reason: String) -> Self {
        Self::without_guest(Outcome::HostFault(reason))
    }

    /// The report of an attempt in which no guest ran.
    pub fn without_guest(outcome: Outcome) -> Self {
        Self {
            outcome,
            result: None,
            follow_ups: Vec::new(),
            backtrace: None,
            log_tail: Vec::new(),
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            memory_peak: 0,
            fuel_used: None,
            host_calls: 0,
            bytes_in: 0,
            bytes_out: 0,
            log_lines_dropped: 0,
            attempt_trace: None,
        }
    }
}
