//! The imports of AssemblyScript from `env`: `abort`, `trace` and `seed`, and its bindings for console and
//! time.
//!
//! A string of AssemblyScript is UTF-16LE. Its length in bytes is stored in the four bytes before it. A
//! string outside the guest's memory is a fault of the guest, like any invalid range.

use std::sync::Arc;

use bytes::Bytes;
use rand::Rng as _;
use wasmtime::{Caller, Linker};

use crate::imports::call::{GuestState, View, view};
use crate::imports::clock::{InstanceClock, nanos};
use crate::imports::fault::Fault;
use crate::imports::intercept::{self, HostAnswer, HostClock, HostRequest};
use crate::imports::log::{HasLog, Level};

/// The namespace.
pub(crate) const NAMESPACE: &str = "env";

/// The imports, and whether each takes a pointer.
pub(crate) const IMPORTS: [(&str, bool); 10] = [
    ("abort", true),
    ("trace", true),
    ("seed", false),
    ("console.log", true),
    ("console.debug", true),
    ("console.info", true),
    ("console.warn", true),
    ("console.error", true),
    ("Date.now", false),
    ("performance.now", false),
];

/// The longest string that the host reads, in bytes of UTF-16. A longer one is cut.
const STRING_MAX: usize = 128 << 10;
/// The longest message of an abort, in characters.
const ABORT_MAX: usize = 1 << 10;

/// The state of a guest of AssemblyScript.
pub(crate) trait HasInstanceClock: GuestState {
    fn instance_clock(&self) -> InstanceClock;
}

/// Links the imports.
pub(crate) fn link<T: HasLog + HasInstanceClock>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.func_wrap(NAMESPACE, "abort", abort::<T>)?;
    linker.func_wrap_async(NAMESPACE, "trace", |caller, (message, count, a, b, c, d, e)| {
        Box::new(trace::<T>(caller, message, count, [a, b, c, d, e]))
    })?;
    linker.func_wrap(NAMESPACE, "seed", |caller: Caller<'_, T>| {
        caller.data().calls().io.count_call();
        seed(caller.data())
    })?;
    let consoles = [
        ("console.log", Level::Info),
        ("console.debug", Level::Debug),
        ("console.info", Level::Info),
        ("console.warn", Level::Warn),
        ("console.error", Level::Error),
    ];
    for (name, level) in consoles {
        linker.func_wrap_async(
            NAMESPACE,
            name,
            move |mut caller: Caller<'_, T>, (text,): (u32,)| {
                Box::new(async move {
                    let view = view(&mut caller, name)?;
                    let (text, log) = (string(&view, text)?, Arc::clone(view.guest.log()));
                    log.write_in_pieces(level, text.as_bytes()).await;
                    wasmtime::Result::Ok(())
                })
            },
        )?;
    }
    linker.func_wrap(NAMESPACE, "Date.now", |caller: Caller<'_, T>| {
        caller.data().calls().io.count_call();
        let guest = caller.data();
        let now = || guest.instance_clock().unix_ms();
        intercept::clock(guest.interceptor(), HostClock::Now, now) as f64
    })?;
    linker.func_wrap(NAMESPACE, "performance.now", |caller: Caller<'_, T>| {
        caller.data().calls().io.count_call();
        let guest = caller.data();
        let elapsed = || nanos(guest.instance_clock().elapsed());
        intercept::clock(guest.interceptor(), HostClock::Elapsed, elapsed) as f64 / 1e6
    })?;
    Ok(())
}

/// A number from 0 to 1, without 1: 53 random bits.
fn seed<T: GuestState>(guest: &T) -> f64 {
    let mut bytes = [0; 8];
    let interceptor = guest.interceptor();
    if !interceptor.is_some_and(|it| it.fill_random(&mut bytes)) {
        rand::rng().fill_bytes(&mut bytes);
        if let Some(interceptor) = interceptor {
            let answer = HostAnswer::Random(Bytes::copy_from_slice(&bytes));
            interceptor.answered(&HostRequest::Random(bytes.len()), &answer);
        }
    }
    (u64::from_le_bytes(bytes) >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

fn abort<T: HasLog>(
    mut caller: Caller<'_, T>,
    message: u32,
    file: u32,
    line: u32,
    column: u32,
) -> wasmtime::Result<()> {
    let view = view(&mut caller, "abort")?;
    let message: String = string(&view, message)?.chars().take(ABORT_MAX).collect();
    let file: String = string(&view, file)?.chars().take(ABORT_MAX).collect();
    let message = if message.is_empty() { "abort".to_owned() } else { format!("abort: {message}") };
    Err(Fault::Abort(match file.as_str() {
        "" => message,
        file => format!("{message} in {file}({line}:{column})"),
    })
    .into())
}

async fn trace<T: HasLog>(
    mut caller: Caller<'_, T>,
    message: u32,
    count: u32,
    values: [f64; 5],
) -> wasmtime::Result<()> {
    let view = view(&mut caller, "trace")?;
    let mut line = string(&view, message)?;
    for (index, value) in values.iter().take(count as usize).enumerate() {
        line.push_str(if index == 0 { " " } else { ", " });
        line.push_str(&value.to_string());
    }
    let log = Arc::clone(view.guest.log());
    log.write_in_pieces(Level::Trace, line.as_bytes()).await;
    Ok(())
}

/// Reads a string. A null pointer is the empty string, and an unpaired surrogate becomes U+FFFD.
fn string<T: GuestState>(view: &View<'_, T>, pointer: u32) -> Result<String, Fault> {
    if pointer == 0 {
        return Ok(String::new());
    }
    // A length before the first byte of memory is outside of it, like one past its end.
    let header = view.read(pointer.checked_sub(4).unwrap_or(u32::MAX), 4)?;
    let length = header.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    let bytes = view.read(pointer, length)?;
    let units = bytes[..bytes.len().min(STRING_MAX)]
        .chunks_exact(2)
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    Ok(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}
