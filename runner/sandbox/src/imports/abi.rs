//! The namespace `duebox_v1`: what every handler can import (docs/reference/abi.md, "Imports"). Each import is one
//! function here; all of them check first and write last, so a call that faults has done nothing.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use rand::Rng as _;
use wasmtime::{Caller, Linker};

use crate::imports::blocks as block;
use crate::imports::call::{View, job, job_view, view};
use crate::imports::http;
use crate::imports::io::Traffic;
use crate::imports::kv;
use crate::imports::log::Level;
use crate::imports::output::RESULT_MAX;
use crate::imports::push;
use crate::instance::guest::{Guest, millis, unix_ms};

/// The namespace, which is the version.
pub(crate) const NAMESPACE: &str = "duebox_v1";

/// The imports there are, and whether each takes a pointer; those of `http` and `kv` are listed there.
pub(crate) const IMPORTS: [(&str, bool); 11] = [
    ("payload_read", true),
    ("meta_read", true),
    ("meta_int", false),
    ("config_read", true),
    ("random", true),
    ("retry_after", false),
    ("snooze", false),
    ("reason", true),
    ("result", true),
    ("log", true),
    (push::NAME, true),
];

pub(crate) const NOT_FOUND: i32 = -1;
pub(crate) const DENIED: i32 = -2;
pub(crate) const INVALID: i32 = -3;
pub(crate) const TOO_LARGE: i32 = -4;
pub(crate) const TIMEOUT: i32 = -5;
pub(crate) const UNAVAILABLE: i32 = -6;
pub(crate) const CONFLICT: i32 = -7;

/// The longest reason that is kept, in bytes.
const REASON_MAX: usize = 4 << 10;
/// The longest wait a guest can ask for, in milliseconds: 365 days.
const WAIT_MAX_MS: i64 = 365 * 86_400_000;

/// Links every import of the namespace.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap(NAMESPACE, "payload_read", payload_read)?;
    linker.func_wrap(NAMESPACE, "meta_read", meta_read)?;
    linker.func_wrap(NAMESPACE, "meta_int", meta_int)?;
    linker.func_wrap(NAMESPACE, "config_read", config_read)?;
    linker.func_wrap(NAMESPACE, "random", random)?;
    linker.func_wrap(NAMESPACE, "retry_after", retry_after)?;
    linker.func_wrap(NAMESPACE, "snooze", snooze)?;
    linker.func_wrap(NAMESPACE, "reason", reason)?;
    linker.func_wrap(NAMESPACE, "result", result)?;
    linker.func_wrap(NAMESPACE, "log", log)?;
    linker.func_wrap(NAMESPACE, push::NAME, push::push)?;
    http::link(linker)?;
    kv::link(linker)
}

fn payload_read(
    mut caller: Caller<'_, Guest>,
    dst: u32,
    off: u32,
    len: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, "payload_read")?;
    let target = view.range(dst, len)?;
    let rest = view.guest.invocation.payload.get(off as usize..).unwrap_or_default();
    Ok(copy(&view.guest.traffic, &mut view.bytes[target], rest))
}

fn meta_read(mut caller: Caller<'_, Guest>, key: u32, dst: u32, cap: u32) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, "meta_read")?;
    let target = view.range(dst, cap)?;
    let View { bytes, guest, .. } = view;
    let target = &mut bytes[target];
    Ok(match key {
        1 => fill(&guest.traffic, target, guest.invocation.id.as_bytes()),
        2 => fill(&guest.traffic, target, guest.invocation.topic.as_str().as_bytes()),
        7 => {
            let headers = &guest.invocation.headers;
            let block = guest.headers.get_or_insert_with(|| block::write(headers));
            fill(&guest.traffic, target, block.as_bytes())
        }
        _ => match number(guest, key) {
            Some(number) => fill(&guest.traffic, target, number.to_string().as_bytes()),
            None => NOT_FOUND,
        },
    })
}

fn meta_int(mut caller: Caller<'_, Guest>, key: u32) -> wasmtime::Result<i64> {
    let number = number(job(&mut caller, "meta_int")?, key);
    Ok(number.map_or(i64::from(NOT_FOUND), |number| i64::try_from(number).unwrap_or(i64::MAX)))
}

/// The metadata that are numbers.
fn number(guest: &Guest, key: u32) -> Option<u64> {
    match key {
        3 => Some(guest.invocation.attempt.into()),
        4 => Some(guest.invocation.max_attempts.into()),
        5 => Some(guest.invocation.due_at_ms),
        6 => Some(guest.clock.deadline_ms()),
        8 => Some(unix_ms()),
        9 => Some(millis(guest.clock.left())),
        _ => None,
    }
}

fn config_read(
    mut caller: Caller<'_, Guest>,
    kp: u32,
    kl: u32,
    dst: u32,
    cap: u32,
) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, "config_read")?;
    let (key, target) = (view.range(kp, kl)?, view.range(dst, cap)?);
    let Ok(key) = std::str::from_utf8(&view.bytes[key]) else {
        return Ok(INVALID);
    };
    Ok(match view.guest.grants.config.get(key) {
        Some(value) => fill(&view.guest.traffic, &mut view.bytes[target], value.as_bytes()),
        None => NOT_FOUND,
    })
}

fn random(mut caller: Caller<'_, Guest>, dst: u32, len: u32) -> wasmtime::Result<()> {
    let view = view(&mut caller, "random")?;
    let target = view.range(dst, len)?;
    view.guest.traffic.gave(target.len());
    rand::rng().fill_bytes(&mut view.bytes[target]);
    Ok(())
}

fn retry_after(mut caller: Caller<'_, Guest>, ms: i64) -> wasmtime::Result<()> {
    job(&mut caller, "retry_after")?.said.retry_after = Some(wait(ms));
    Ok(())
}

fn snooze(mut caller: Caller<'_, Guest>, ms: i64) -> wasmtime::Result<()> {
    job(&mut caller, "snooze")?.said.snooze = Some(wait(ms));
    Ok(())
}

fn wait(ms: i64) -> Duration {
    Duration::from_millis(ms.clamp(0, WAIT_MAX_MS).unsigned_abs())
}

fn reason(mut caller: Caller<'_, Guest>, p: u32, l: u32) -> wasmtime::Result<()> {
    let view = job_view(&mut caller, "reason")?;
    let text = lossy(view.read(p, l)?, REASON_MAX).into_owned();
    view.guest.said.reason = Some(text);
    Ok(())
}

fn result(mut caller: Caller<'_, Guest>, p: u32, l: u32) -> wasmtime::Result<i32> {
    let view = job_view(&mut caller, "result")?;
    let bytes = view.read(p, l)?;
    if bytes.len() > RESULT_MAX {
        return Ok(TOO_LARGE);
    }
    let kept = Bytes::copy_from_slice(bytes);
    view.guest.said.result = Some(kept);
    Ok(0)
}

fn log(mut caller: Caller<'_, Guest>, level: u32, p: u32, l: u32) -> wasmtime::Result<()> {
    let view = view(&mut caller, "log")?;
    view.guest.log.say(Level::from_abi(level), view.read(p, l)?);
    Ok(())
}

/// Copies what fits and answers how much that was.
pub(crate) fn copy(traffic: &Traffic, target: &mut [u8], source: &[u8]) -> i32 {
    let count = target.len().min(source.len());
    target[..count].copy_from_slice(&source[..count]);
    traffic.gave(count);
    length(count)
}

/// Copies what fits and answers the full length: `=n` of docs/reference/abi.md.
pub(crate) fn fill(traffic: &Traffic, target: &mut [u8], source: &[u8]) -> i32 {
    copy(traffic, target, source);
    length(source.len())
}

fn length(bytes: usize) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

/// The first bytes of a text, bad UTF-8 replaced, not longer than `max` bytes and cut between
/// characters.
pub(crate) fn lossy(bytes: &[u8], max: usize) -> Cow<'_, str> {
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(max)]);
    // A character that the cut went through is not the guest's mistake.
    if bytes.len() > max && text.ends_with('\u{fffd}') {
        let whole = text.trim_end_matches('\u{fffd}').len();
        text.to_mut().truncate(whole);
    }
    if text.len() > max {
        let end = text.floor_char_boundary(max);
        text.to_mut().truncate(end);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(lossy(b"abc", 10), "abc");
        assert_eq!(lossy("aä".as_bytes(), 2), "a");
        assert_eq!(lossy("aä".as_bytes(), 3), "aä");
        assert_eq!(lossy("a😀b".as_bytes(), 4), "a");
        assert_eq!(lossy(b"a\xffb", 10), "a\u{fffd}b");
        assert!(lossy(&[0xff; 10], 10).len() <= 10);
    }

    #[test]
    fn filling_answers_the_full_length() {
        let mut target = [0; 2];
        let traffic = Traffic::default();
        assert_eq!((fill(&traffic, &mut target, b"abc"), &target), (3, b"ab"));
        assert_eq!((copy(&traffic, &mut target, b"xyz"), &target), (2, b"xy"));
        assert_eq!(fill(&traffic, &mut [], b"abc"), 3);
        assert_eq!(traffic.bytes_in(), 4);
    }
}
