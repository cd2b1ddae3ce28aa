//! The imports that read the job: `payload_read`, `meta_read`, `meta_int` and `config_read`; and `random`.
//!
//! Each import checks its arguments first and writes last, so a call that faults has had no effect.

use std::sync::Arc;

use bytes::Bytes;
use wasmtime::{Caller, Linker};

use crate::imports::abi::{INVALID, NAMESPACE, NOT_FOUND, copied, fill};
use crate::imports::call::{GuestState, View, in_job, job_view, view};
use crate::imports::clock::{AttemptClock, millis, unix_ms};
use crate::imports::intercept::{self, HostClock, HostRequest, Interceptor};
use crate::imports::{blocks, pieces};
use crate::invocation::Invocation;

/// The imports, and whether each takes a pointer.
pub(crate) const IMPORTS: [(&str, bool); 5] = [
    ("payload_read", true),
    ("meta_read", true),
    ("meta_int", false),
    ("config_read", true),
    ("random", true),
];

/// The longest name of a setting, in bytes. A longer one is not looked up.
const NAME_MAX: usize = 64 << 10;

/// The state of a guest that runs a job.
pub(crate) trait HasJob: GuestState {
    fn job(&self) -> &JobState;
    fn job_mut(&mut self) -> &mut JobState;
}

/// The job of a guest.
pub(crate) struct JobState {
    pub(crate) invocation: Invocation,
    pub(crate) clock: AttemptClock,
    /// The headers as a block, after the first request for them.
    headers: Option<String>,
}

impl JobState {
    pub(crate) fn new(invocation: Invocation, clock: AttemptClock) -> Self {
        Self { invocation, clock, headers: None }
    }

    /// Drops the data of a job that is over.
    pub(crate) fn clear(&mut self) {
        self.invocation.payload = Bytes::new();
        self.headers = None;
    }

    /// The metadata with this key, if it is a number.
    fn number(&self, key: u32, interceptor: Option<&Arc<dyn Interceptor>>) -> Option<u64> {
        let clock = |clock, host: &dyn Fn() -> u64| intercept::clock(interceptor, clock, host);
        match key {
            3 => Some(self.invocation.attempt.into()),
            4 => Some(self.invocation.max_attempts.into()),
            5 => Some(self.invocation.due_at_ms),
            6 => Some(self.clock.deadline_ms(interceptor)),
            8 => Some(clock(HostClock::Now, &unix_ms)),
            9 => Some(clock(HostClock::Remaining, &|| millis(self.clock.remaining()))),
            _ => None,
        }
    }
}

/// Links the imports.
pub(crate) fn link<T: HasJob>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap_async(NAMESPACE, "payload_read", |caller, (dst, off, len)| {
        Box::new(payload_read::<T>(caller, dst, off, len))
    })?;
    linker.func_wrap(NAMESPACE, "meta_read", meta_read::<T>)?;
    linker.func_wrap(NAMESPACE, "meta_int", meta_int::<T>)?;
    linker.func_wrap(NAMESPACE, "config_read", config_read::<T>)?;
    linker.func_wrap_async(NAMESPACE, "random", |caller, (dst, len)| {
        Box::new(random::<T>(caller, dst, len))
    })?;
    Ok(())
}

async fn payload_read<T: HasJob>(
    mut caller: Caller<'_, T>,
    dst: u32,
    off: u32,
    len: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, "payload_read")?;
    let target = view.range(dst, len)?;
    let View { bytes, guest, .. } = view;
    let rest = guest.job().invocation.payload.get(off as usize..).unwrap_or_default();
    let target = &mut bytes[target];
    let count = target.len().min(rest.len());
    guest.calls().io.count_in(count);
    pieces::copy(target, rest).await;
    Ok(copied(count))
}

fn meta_read<T: HasJob>(
    mut caller: Caller<'_, T>,
    key: u32,
    dst: u32,
    cap: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, "meta_read")?;
    let target = view.range(dst, cap)?;
    let View { bytes, guest, .. } = view;
    let target = &mut bytes[target];
    if key == 7 {
        let job = guest.job_mut();
        job.headers.get_or_insert_with(|| blocks::write(&job.invocation.headers));
    }
    let (job, io) = (guest.job(), &guest.calls().io);
    Ok(match key {
        1 => fill(io, target, job.invocation.id.as_bytes()),
        2 => fill(io, target, job.invocation.topic.as_str().as_bytes()),
        7 => fill(io, target, job.headers.as_deref().unwrap_or_default().as_bytes()),
        _ => match job.number(key, guest.interceptor()) {
            Some(number) => fill(io, target, number.to_string().as_bytes()),
            None => NOT_FOUND,
        },
    })
}

fn meta_int<T: HasJob>(mut caller: Caller<'_, T>, key: u32) -> wasmtime::Result<i64> {
    let guest = in_job(&mut caller, "meta_int")?;
    let number = guest.job().number(key, guest.interceptor());
    Ok(number.map_or(i64::from(NOT_FOUND), |number| i64::try_from(number).unwrap_or(i64::MAX)))
}

fn config_read<T: HasJob>(
    mut caller: Caller<'_, T>,
    kp: u32,
    kl: u32,
    dst: u32,
    cap: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, "config_read")?;
    let (key, target) = (view.range(kp, kl)?, view.range(dst, cap)?);
    if key.len() > NAME_MAX {
        return Ok(NOT_FOUND);
    }
    let View { bytes, guest, .. } = view;
    let Ok(key) = std::str::from_utf8(&bytes[key]) else {
        return Ok(INVALID);
    };
    if let Some(interceptor) = guest.interceptor() {
        let _ = interceptor.answer(&HostRequest::Config(key));
    }
    Ok(match guest.grants().config.get(key) {
        Some(value) => fill(&guest.calls().io, &mut bytes[target], value.as_bytes()),
        None => NOT_FOUND,
    })
}

async fn random<T: HasJob>(mut caller: Caller<'_, T>, dst: u32, len: u32) -> wasmtime::Result<()> {
    let view = view(&mut caller, "random")?;
    let target = view.range(dst, len)?;
    view.guest.calls().io.count_in(target.len());
    let interceptor = view.guest.interceptor().cloned();
    pieces::fill_random(interceptor, &mut view.bytes[target]).await;
    Ok(())
}
