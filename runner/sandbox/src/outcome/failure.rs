//! From the end of an attempt to its outcome.
//!
//! A verdict, or an end that the guest caused, spends the attempt. A fault or an interrupt of the host does
//! not.

use duebox_job::{Failure, FailureClass, Outcome};
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::backtrace;
use crate::imports::fault::Fault;
use crate::imports::text::{REASON_MAX, lossy};
use crate::instance::guest::Guest;
use crate::instance::interrupt::InterruptReason;
use crate::instance::limiter::MemoryRefusal;
use crate::memory_budget::BudgetExhausted;

/// The longest function name in a reason, in bytes.
const FUNCTION_MAX: usize = 256;

/// How an attempt ended.
pub(crate) enum End {
    /// `handle` returned this value.
    Returned(i32),
    /// A trap, an exit or the host ended it.
    Error(wasmtime::Error),
    /// The deadline passed while the guest waited or had yielded.
    TimedOut,
    /// The interrupt was raised while the guest waited or had yielded.
    Interrupted(InterruptReason),
}

impl End {
    /// Whether `handle` returned a valid verdict.
    pub(crate) fn is_verdict(&self) -> bool {
        matches!(self, Self::Returned(0..=2))
    }

    /// The backtrace of the guest, if it was running when it ended.
    pub(crate) fn backtrace(&self) -> Option<String> {
        match self {
            Self::Error(error) => backtrace::format(&message(error), error),
            Self::Returned(_) | Self::TimedOut | Self::Interrupted(_) => None,
        }
    }
}

/// The message of Wasmtime, of the import that faulted, or of WASI.
fn message(error: &wasmtime::Error) -> String {
    let text = match (error.downcast_ref::<Fault>(), error.downcast_ref::<Trap>()) {
        (Some(fault), _) => fault.to_string(),
        (None, Some(trap)) => trap.to_string(),
        (None, None) => error.root_cause().to_string(),
    };
    text.strip_prefix("wasm trap: ").unwrap_or(&text).to_owned()
}

/// The outcome for the job. Takes the guest's reason.
pub(crate) fn outcome(end: End, guest: &mut Guest) -> Outcome {
    match end {
        End::Returned(0) => Outcome::Acked,
        End::Returned(1) => nacked(guest),
        End::Returned(2) => failed(guest, FailureClass::Drop, String::new()),
        End::Returned(verdict) => failed(
            guest,
            FailureClass::BadVerdict,
            format!("handle returned {verdict}; it must be 0 (ack), 1 (nack) or 2 (drop)"),
        ),
        End::TimedOut => timed_out(guest),
        End::Interrupted(reason) => Outcome::HostFault(reason.describe().to_owned()),
        End::Error(error) => ended_by_error(&error, guest),
    }
}

fn nacked(guest: &mut Guest) -> Outcome {
    let reason = guest.output.reason.take().unwrap_or_default();
    match guest.output.snooze {
        Some(delay) => Outcome::Snoozed { delay, reason },
        None => {
            let retry_after = guest.output.retry_after;
            Outcome::Failed(Failure { class: FailureClass::Nack, reason, retry_after })
        }
    }
}

fn timed_out(guest: &mut Guest) -> Outcome {
    if guest.waits_for_memory {
        let text =
            "no memory was free for the job within its ttr; raise runner.memory, or lower max_jobs";
        return Outcome::HostFault(text.to_owned());
    }
    let ttr = guest.job.invocation.ttr;
    failed(guest, FailureClass::Timeout, format!("the attempt exceeded its ttr of {ttr:?}"))
}

fn ended_by_error(error: &wasmtime::Error, guest: &mut Guest) -> Outcome {
    if error.is::<PoolConcurrencyLimitError>() {
        return Outcome::HostFault(format!("no sandbox is free: {error}"));
    }
    if let Some(exhausted) = error.downcast_ref::<BudgetExhausted>() {
        return Outcome::HostFault(exhausted.to_string());
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        let text = format!("the guest called proc_exit({})", exit.0);
        return failed_after_refusal(guest, FailureClass::Exit, text);
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => timed_out(guest),
        Some(Trap::OutOfFuel) => {
            let fuel = guest.fuel.map_or(0, u64::from);
            let text =
                format!("the attempt has burnt the {fuel} units of fuel that the topic allows");
            failed(guest, FailureClass::OutOfFuel, text)
        }
        Some(Trap::StackOverflow) => failed(guest, FailureClass::StackOverflow, describe(error)),
        Some(_) => failed_after_refusal(guest, FailureClass::Trap, describe(error)),
        None => ended_by_host(error, guest),
    }
}

/// An error that is not a trap. If the guest was running, which a backtrace shows, a host function raised it
/// and it is a failure of the guest. If not, it is a fault of the host.
fn ended_by_host(error: &wasmtime::Error, guest: &mut Guest) -> Outcome {
    if !error.is::<Fault>() && !error.is::<WasmBacktrace>() {
        return match guest.limiter.refused {
            Some(_) => failed_after_refusal(guest, FailureClass::Trap, error.to_string()),
            None => Outcome::HostFault(format!("the sandbox could not run the job: {error:#}")),
        };
    }
    failed_after_refusal(guest, FailureClass::Trap, describe(error))
}

/// A trap or an exit. If a growth of memory was refused before, the failure is out of memory.
fn failed_after_refusal(guest: &mut Guest, class: FailureClass, text: String) -> Outcome {
    let refused = match guest.limiter.refused {
        None => return failed(guest, class, text),
        Some(MemoryRefusal::ByMachine) => "memory was refused, the machine has no more".to_owned(),
        Some(MemoryRefusal::OverLimit(wanted)) => {
            let max = guest.limiter.memory_max();
            format!("memory of {wanted} bytes was refused, the topic's limit is {max}")
        }
    };
    failed(guest, FailureClass::OutOfMemory, format!("{refused}: {text}"))
}

/// A failure with the guest's own reason, or with that of the host if the guest gave none.
fn failed(guest: &mut Guest, class: FailureClass, host_reason: String) -> Outcome {
    let reason = guest.output.reason.take().unwrap_or(host_reason);
    let reason = lossy(reason.as_bytes(), REASON_MAX).into_owned();
    Outcome::Failed(Failure { class, reason, retry_after: None })
}

/// The message of an error, and the function in which it happened.
fn describe(error: &wasmtime::Error) -> String {
    let message = message(error);
    match backtrace::innermost(error, FUNCTION_MAX) {
        Some(function) => format!("{message}, in {function}"),
        None => message,
    }
}
