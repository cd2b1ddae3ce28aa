//! What AssemblyScript imports from `env`: its abort, trace and seed, and the standard bindings for
//! console and time. Its strings are UTF-16LE with their length in bytes four bytes before them; one
//! that does not lie in memory is the guest's fault, like any bad range.

use std::time::Duration;

use rand::RngExt as _;
use wasmtime::{Caller, Linker};

use crate::imports::call::{Fault, View, view};
use crate::imports::log::Level;
use crate::imports::wasi;
use crate::instance::guest::{Guest, unix_ms};

/// The namespace.
pub(crate) const NAMESPACE: &str = "env";

/// The imports there are, and whether each takes a pointer.
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

/// The longest string the host reads, in bytes of UTF-16. A longer one is cut.
const STRING_MAX: usize = 128 << 10;
/// The longest message of an abort, in characters.
const ABORT_MAX: usize = 1 << 10;

/// Links every import of the namespace.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap(NAMESPACE, "abort", abort)?;
    linker.func_wrap(NAMESPACE, "trace", trace)?;
    linker.func_wrap(NAMESPACE, "seed", |caller: Caller<'_, Guest>| {
        caller.data().traffic.call();
        rand::rng().random::<f64>()
    })?;
    let consoles = [
        ("console.log", Level::Info),
        ("console.debug", Level::Debug),
        ("console.info", Level::Info),
        ("console.warn", Level::Warn),
        ("console.error", Level::Error),
    ];
    for (name, level) in consoles {
        linker.func_wrap(NAMESPACE, name, move |mut caller: Caller<'_, Guest>, text: u32| {
            let view = view(&mut caller, name)?;
            view.guest.log.say(level, string(&view, text)?.as_bytes());
            wasmtime::Result::Ok(())
        })?;
    }
    linker.func_wrap(NAMESPACE, "Date.now", |caller: Caller<'_, Guest>| {
        caller.data().traffic.call();
        let now = caller.data().born.map_or(wasi::FROZEN_UNIX_MS, |_| unix_ms());
        now as f64
    })?;
    linker.func_wrap(NAMESPACE, "performance.now", |caller: Caller<'_, Guest>| {
        caller.data().traffic.call();
        let lived = caller.data().born.map_or(Duration::ZERO, |born| born.elapsed());
        lived.as_secs_f64() * 1e3
    })?;
    Ok(())
}

fn abort(
    mut caller: Caller<'_, Guest>,
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

#[expect(clippy::too_many_arguments, reason = "the signature is AssemblyScript's")]
fn trace(
    mut caller: Caller<'_, Guest>,
    message: u32,
    count: u32,
    a: f64,
    b: f64,
    c: f64,
    d: f64,
    e: f64,
) -> wasmtime::Result<()> {
    let view = view(&mut caller, "trace")?;
    let mut line = string(&view, message)?;
    for (index, value) in [a, b, c, d, e].iter().take(count as usize).enumerate() {
        line.push_str(if index == 0 { " " } else { ", " });
        line.push_str(&value.to_string());
    }
    view.guest.log.say(Level::Trace, line.as_bytes());
    Ok(())
}

/// Reads a string; null is the empty one, and half a surrogate pair becomes U+FFFD.
fn string(view: &View<'_>, pointer: u32) -> Result<String, Fault> {
    if pointer == 0 {
        return Ok(String::new());
    }
    // The length before the first byte of memory, or past its end, lies nowhere.
    let header = view.read(pointer.checked_sub(4).unwrap_or(u32::MAX), 4)?;
    let length = header.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    let bytes = view.read(pointer, length)?;
    let units = bytes[..bytes.len().min(STRING_MAX)]
        .chunks_exact(2)
        .map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
    Ok(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
}
