//! The imports by which a guest adds to its verdict: `reason`, `result`, `retry_after` and `snooze`.
//!
//! Each value counts only with the verdict that it belongs to, so nothing is interpreted before the verdict
//! is known. A job that sets nothing allocates nothing.

use std::time::Duration;

use bytes::Bytes;
use wasmtime::{Caller, Linker};

use crate::imports::abi::{NAMESPACE, TOO_LARGE};
use crate::imports::call::{GuestState, in_job, job_view};
use crate::imports::text::{REASON_MAX, lossy};

/// The imports, and whether each takes a pointer.
pub(crate) const IMPORTS: [(&str, bool); 4] =
    [("reason", true), ("result", true), ("retry_after", false), ("snooze", false)];

/// The longest result, in bytes.
const RESULT_MAX: usize = 64 << 10;
/// The longest delay that a guest can request, in milliseconds: 365 days.
const DELAY_MAX_MS: i64 = 365 * 86_400_000;

/// The state of a guest that can add to its verdict.
pub(crate) trait HasOutput: GuestState {
    fn output_mut(&mut self) -> &mut GuestOutput;
}

/// What a guest adds to its verdict. The last value of each kind counts.
#[derive(Debug, Default)]
pub(crate) struct GuestOutput {
    /// The reason of the verdict, unless it is an ack.
    pub(crate) reason: Option<String>,
    /// The delay before the next attempt, for a nack.
    pub(crate) retry_after: Option<Duration>,
    /// With a nack, run the job again after this delay without counting a failure.
    pub(crate) snooze: Option<Duration>,
    /// The result that is stored with the job, for an ack.
    pub(crate) result: Option<Bytes>,
}

/// Links the imports.
pub(crate) fn link<T: HasOutput>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap(NAMESPACE, "reason", reason::<T>)?;
    linker.func_wrap(NAMESPACE, "result", result::<T>)?;
    linker.func_wrap(NAMESPACE, "retry_after", retry_after::<T>)?;
    linker.func_wrap(NAMESPACE, "snooze", snooze::<T>)?;
    Ok(())
}

fn reason<T: HasOutput>(mut caller: Caller<'_, T>, p: u32, l: u32) -> wasmtime::Result<()> {
    let view = job_view(&mut caller, "reason")?;
    let text = lossy(view.read(p, l)?, REASON_MAX).into_owned();
    view.guest.output_mut().reason = Some(text);
    Ok(())
}

fn result<T: HasOutput>(mut caller: Caller<'_, T>, p: u32, l: u32) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, "result")?;
    let bytes = view.read(p, l)?;
    if bytes.len() > RESULT_MAX {
        return Ok(TOO_LARGE);
    }
    let result = Bytes::copy_from_slice(bytes);
    view.guest.output_mut().result = Some(result);
    Ok(0)
}

fn retry_after<T: HasOutput>(mut caller: Caller<'_, T>, ms: i64) -> wasmtime::Result<()> {
    in_job(&mut caller, "retry_after")?.output_mut().retry_after = Some(delay(ms));
    Ok(())
}

fn snooze<T: HasOutput>(mut caller: Caller<'_, T>, ms: i64) -> wasmtime::Result<()> {
    in_job(&mut caller, "snooze")?.output_mut().snooze = Some(delay(ms));
    Ok(())
}

fn delay(ms: i64) -> Duration {
    Duration::from_millis(ms.clamp(0, DELAY_MAX_MS).unsigned_abs())
}
