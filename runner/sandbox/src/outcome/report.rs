//! What one run came to: the outcome, what the guest leaves behind, and what the run cost.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, Outcome};

use crate::imports::spans::Traced;
use crate::instance::guest::Guest;
use crate::outcome::failure::{self, End};

/// What one run came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it means for the job.
    pub outcome: Outcome,
    /// What the guest wants kept with the job, at most 64 KiB; only with an ack.
    pub result: Option<Bytes>,
    /// The jobs it wants pushed, in its order, at most 100; only with an ack.
    pub follow_ups: Vec<FollowUp>,
    /// What ended the guest and, a line each, the calls that led to it, innermost first; at most 8 KiB.
    /// `None` if it ended by itself, or was not running.
    pub trace: Option<String>,
    /// The last 64 lines of its log within the budget, oldest first, each with its level before it
    /// (`error: …`) and cut at 1 KiB; none with an ack.
    pub log_tail: Vec<String>,
    /// How long it took, from the call of [`Handler::run`](crate::Handler::run) on.
    pub wall: Duration,
    /// Time of a processor that it took, the host's part of it included. A stretch of up to 2 ms, after
    /// which a guest gives way, is measured by the wall clock if it is the first; all others by the
    /// thread's own clock.
    pub cpu: Duration,
    /// The largest linear memory the guest had, in bytes.
    pub memory_peak: usize,
    /// Units of fuel it burnt, about one an instruction; `None` if the topic has no budget of fuel.
    pub fuel_used: Option<u64>,
    /// Calls of imports, those of WASI too.
    pub host_calls: u64,
    /// Bytes that the host wrote into the guest's memory: the payload, and what imports gave; not what
    /// WASI did.
    pub bytes_in: u64,
    /// Bytes that the host took from the guest: log, output, result, reason, follow-ups.
    pub bytes_out: u64,
    /// Lines, or calls of `log`, that were over the log's budget.
    pub log_lines_dropped: u32,
    /// The attempt's place in a trace and the calls below it, if it was given one.
    pub traced: Option<Box<Traced>>,
}

impl Report {
    /// What an attempt came to: of what the guest said, the part that its end lets count.
    pub(crate) fn new(end: End, guest: &mut Guest, fuel_used: Option<u64>) -> Self {
        let trace = end.trace();
        let outcome = failure::outcome(end, guest);
        let said = &mut guest.said;
        let (result, follow_ups, log_tail) = match outcome {
            Outcome::Acked => (said.result.take(), said.follow_ups.take(), Vec::new()),
            _ => (None, Vec::new(), guest.log.take_tail()),
        };
        Self {
            outcome,
            result,
            follow_ups,
            trace,
            log_tail,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            memory_peak: guest.meter.memory_peak,
            fuel_used,
            host_calls: guest.traffic.calls(),
            bytes_in: guest.traffic.bytes_in(),
            bytes_out: guest.traffic.bytes_out(),
            log_lines_dropped: guest.log.dropped(),
            traced: guest.traced.take(),
        }
    }

    /// What an attempt came to that the host could not begin.
    pub(crate) fn not_begun(why: String) -> Self {
        Self {
            outcome: Outcome::HostFault(why),
            result: None,
            follow_ups: Vec::new(),
            trace: None,
            log_tail: Vec::new(),
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            memory_peak: 0,
            fuel_used: None,
            host_calls: 0,
            bytes_in: 0,
            bytes_out: 0,
            log_lines_dropped: 0,
            traced: None,
        }
    }
}
