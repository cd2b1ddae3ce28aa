//! From how an attempt ended to what it means. A verdict or an end of the guest's own making spends
//! the attempt; what the host could not do, or ended itself, does not.

use duebox_job::{Failure, FailureClass, Outcome};
use wasmtime::{FrameInfo, PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::abi::lossy;
use crate::guest::Guest;
use crate::interrupt::InterruptReason;
use crate::limits::Refusal;
use crate::memory::Fault;

/// The longest text of a failure, in bytes.
const REASON_MAX: usize = 4 << 10;
/// The frames of a backtrace that are told.
const FRAMES_MAX: usize = 10;

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

/// What the end means for the job. Takes what the guest said of it.
pub(crate) fn outcome(end: End, guest: &mut Guest) -> Outcome {
    match end {
        End::Answered(0) => Outcome::Acked,
        End::Answered(1) => {
            let retry_after = guest.retry_after.take();
            let reason = guest.reason.take().unwrap_or_default();
            Outcome::Failed(Failure { class: FailureClass::Nack, reason, retry_after })
        }
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

fn timed_out(guest: &mut Guest) -> Outcome {
    let text = format!("the attempt was not over within its ttr of {:?}", guest.invocation.ttr);
    failed(guest, FailureClass::Timeout, text)
}

fn broken(error: &wasmtime::Error, guest: &mut Guest) -> Outcome {
    if error.is::<PoolConcurrencyLimitError>() {
        return Outcome::HostFault(format!("no sandbox is free: {error}"));
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        let text = format!("the guest called proc_exit({})", exit.0);
        return over_memory(guest, FailureClass::Exit, text);
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => timed_out(guest),
        Some(Trap::OutOfFuel) => {
            failed(guest, FailureClass::OutOfFuel, "the fuel is spent".to_owned())
        }
        Some(trap @ Trap::StackOverflow) => {
            let text = describe(&trap.to_string(), error);
            failed(guest, FailureClass::StackOverflow, text)
        }
        Some(trap) => {
            let text = describe(&trap.to_string(), error);
            over_memory(guest, FailureClass::Trap, text)
        }
        None => broken_by_call(error, guest),
    }
}

/// An error that is no trap of wasm itself: from a host function if the guest was running, which a
/// backtrace tells; otherwise the host could not do its part.
fn broken_by_call(error: &wasmtime::Error, guest: &mut Guest) -> Outcome {
    let fault = error.downcast_ref::<Fault>().map(ToString::to_string);
    if fault.is_none() && !error.is::<WasmBacktrace>() {
        return match guest.meter.refused {
            Some(_) => over_memory(guest, FailureClass::Trap, error.to_string()),
            None => Outcome::HostFault(format!("the sandbox could not run the job: {error:#}")),
        };
    }
    let text = describe(&fault.unwrap_or_else(|| error.root_cause().to_string()), error);
    over_memory(guest, FailureClass::Trap, text)
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
    let reason = guest.reason.take().unwrap_or(seen);
    let reason = lossy(reason.as_bytes(), REASON_MAX).into_owned();
    Outcome::Failed(Failure { class, reason, retry_after: None })
}

/// What happened, and in which function, on the first line; then who called it. A function that calls
/// itself is told once.
fn describe(what: &str, error: &wasmtime::Error) -> String {
    let mut text = what.strip_prefix("wasm trap: ").unwrap_or(what).to_owned();
    let frames = error.downcast_ref::<WasmBacktrace>().map_or(&[][..], WasmBacktrace::frames);
    let mut names: Vec<String> = frames.iter().map(name).collect();
    names.dedup();
    for (index, name) in names.iter().take(FRAMES_MAX).enumerate() {
        text.push_str(if index == 0 { ", in " } else { "\n  called by " });
        text.push_str(name);
    }
    text
}

fn name(frame: &FrameInfo) -> String {
    let symbol = frame.symbols().first().and_then(|symbol| symbol.name());
    match symbol.or(frame.func_name()) {
        Some(name) => name.to_owned(),
        None => format!("function {}", frame.func_index()),
    }
}
