//! From how an attempt ended to what it means. A verdict or an end of the guest's own making spends
//! the attempt; what the host could not do, or ended itself, does not.

use duebox_job::{Failure, FailureClass, Outcome};
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::imports::abi::lossy;
use crate::imports::call::Fault;
use crate::instance::guest::Guest;
use crate::instance::interrupt::InterruptReason;
use crate::instance::limiter::Refusal;
use crate::memory_budget::Spent;
use crate::outcome::backtrace;

/// The longest text of a failure, in bytes.
const REASON_MAX: usize = 4 << 10;
/// The longest name of a function in it, in bytes.
const FUNCTION_MAX: usize = 256;

/// How an attempt ended.
pub(crate) enum End {
    /// `handle` answered.
    Answered(i32),
    /// Something else ended it: a trap, an exit, or the host.
    Broken(wasmtime::Error),
    /// The deadline came while the guest waited or gave way.
    TimedOut,
    /// The interrupt came while the guest waited or gave way.
    Interrupted(InterruptReason),
}

impl End {
    /// Whether `handle` came back with a word that it may say.
    pub(crate) fn is_verdict(&self) -> bool {
        matches!(self, Self::Answered(0..=2))
    }

    /// Where the guest was, if it was running when it ended.
    pub(crate) fn trace(&self) -> Option<String> {
        match self {
            Self::Broken(error) => backtrace::trace(&what(error), error),
            Self::Answered(_) | Self::TimedOut | Self::Interrupted(_) => None,
        }
    }
}

/// What ended the guest, in the words of wasm, of the import that faulted, or of WASI.
fn what(error: &wasmtime::Error) -> String {
    let text = match (error.downcast_ref::<Fault>(), error.downcast_ref::<Trap>()) {
        (Some(fault), _) => fault.to_string(),
        (None, Some(trap)) => trap.to_string(),
        (None, None) => error.root_cause().to_string(),
    };
    text.strip_prefix("wasm trap: ").unwrap_or(&text).to_owned()
}

/// What the end means for the job. Takes what the guest said of it.
pub(crate) fn outcome(end: End, guest: &mut Guest) -> Outcome {
    match end {
        End::Answered(0) => Outcome::Acked,
        End::Answered(1) => nacked(guest),
        End::Answered(2) => failed(guest, FailureClass::Drop, String::new()),
        End::Answered(verdict) => failed(
            guest,
            FailureClass::BadVerdict,
            format!("handle returned {verdict}; it must be 0 (ack), 1 (nack) or 2 (drop)"),
        ),
        End::TimedOut => timed_out(guest),
        End::Interrupted(reason) => Outcome::HostFault(reason.describe().to_owned()),
        End::Broken(error) => broken(&error, guest),
    }
}

fn nacked(guest: &mut Guest) -> Outcome {
    let reason = guest.said.reason.take().unwrap_or_default();
    match guest.said.snooze {
        Some(delay) => Outcome::Snoozed { delay, reason },
        None => {
            let retry_after = guest.said.retry_after;
            Outcome::Failed(Failure { class: FailureClass::Nack, reason, retry_after })
        }
    }
}

fn timed_out(guest: &mut Guest) -> Outcome {
    if guest.waits_for_memory {
        let why =
            "no memory was free for the job within its ttr; raise runner.memory, or lower max_jobs";
        return Outcome::HostFault(why.to_owned());
    }
    let text = format!("the attempt was not over within its ttr of {:?}", guest.invocation.ttr);
    failed(guest, FailureClass::Timeout, text)
}

fn broken(error: &wasmtime::Error, guest: &mut Guest) -> Outcome {
    if error.is::<PoolConcurrencyLimitError>() {
        return Outcome::HostFault(format!("no sandbox is free: {error}"));
    }
    if let Some(spent) = error.downcast_ref::<Spent>() {
        return Outcome::HostFault(spent.to_string());
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        let text = format!("the guest called proc_exit({})", exit.0);
        return over_memory(guest, FailureClass::Exit, text);
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => timed_out(guest),
        Some(Trap::OutOfFuel) => {
            let fuel = guest.fuel;
            let text = format!("all {fuel} units of fuel are spent, the topic allows no more");
            failed(guest, FailureClass::OutOfFuel, text)
        }
        Some(Trap::StackOverflow) => failed(guest, FailureClass::StackOverflow, describe(error)),
        Some(_) => over_memory(guest, FailureClass::Trap, describe(error)),
        None => broken_by_call(error, guest),
    }
}

/// An error that is no trap of wasm itself: from a host function if the guest was running, which a
/// backtrace tells; otherwise the host could not do its part.
fn broken_by_call(error: &wasmtime::Error, guest: &mut Guest) -> Outcome {
    if !error.is::<Fault>() && !error.is::<WasmBacktrace>() {
        return match guest.meter.refused {
            Some(_) => over_memory(guest, FailureClass::Trap, error.to_string()),
            None => Outcome::HostFault(format!("the sandbox could not run the job: {error:#}")),
        };
    }
    over_memory(guest, FailureClass::Trap, describe(error))
}

/// A trap or exit after a refused growth of memory is a failure for want of memory.
fn over_memory(guest: &mut Guest, class: FailureClass, text: String) -> Outcome {
    let refused = match guest.meter.refused {
        None => return failed(guest, class, text),
        Some(Refusal::ByMachine) => "memory was refused, the machine has no more".to_owned(),
        Some(Refusal::OverLimit(wanted)) => {
            let max = guest.meter.memory_max();
            format!("memory of {wanted} bytes was refused, the topic's limit is {max}")
        }
    };
    failed(guest, FailureClass::OutOfMemory, format!("{refused}: {text}"))
}

/// A failure with the guest's own reason, or else with what the host saw.
fn failed(guest: &mut Guest, class: FailureClass, seen: String) -> Outcome {
    let reason = guest.said.reason.take().unwrap_or(seen);
    let reason = lossy(reason.as_bytes(), REASON_MAX).into_owned();
    Outcome::Failed(Failure { class, reason, retry_after: None })
}

/// What happened, and in which function.
fn describe(error: &wasmtime::Error) -> String {
    let what = what(error);
    match backtrace::innermost(error, FUNCTION_MAX) {
        Some(function) => format!("{what}, in {function}"),
        None => what,
    }
}
