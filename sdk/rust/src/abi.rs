//! The ABI as safe functions. The SDK's `unsafe` code is in two files below this module:
//! `imports.rs` calls the host, `arena.rs` hands out memory.
//!
//! Invariant: this module's functions take and return ordinary slices and values. On targets other
//! than wasm32, [`testing`](crate::testing) provides the imports.

#[cfg(all(target_arch = "wasm32", feature = "arena"))]
mod arena;
#[cfg(any(test, all(target_arch = "wasm32", feature = "arena")))]
mod free;
#[cfg(target_arch = "wasm32")]
mod imports;

#[cfg(not(target_arch = "wasm32"))]
use crate::testing::imports;

pub(crate) use imports::{
    http_send, kv_add, kv_delete, kv_set, log, meta_int, payload_read, push, random, reason,
    result, retry_after, snooze,
};

/// Error codes of the host that callers distinguish.
pub(crate) mod code {
    pub(crate) const NOT_FOUND: i32 = -1;
    pub(crate) const DENIED: i32 = -2;
    pub(crate) const INVALID: i32 = -3;
    pub(crate) const TOO_LARGE: i32 = -4;
    pub(crate) const TIMEOUT: i32 = -5;
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) const UNAVAILABLE: i32 = -6;
    pub(crate) const CONFLICT: i32 = -7;
}

/// The ABI's metadata keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meta {
    Id = 1,
    Topic = 2,
    Attempt = 3,
    MaxAttempts = 4,
    DueAt = 5,
    Deadline = 6,
    Headers = 7,
    Now = 8,
    TimeLeft = 9,
}

/// The parts of the last response to `http_send`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Head = 0,
    Body = 1,
    Error = 2,
}

/// The condition under which `kv_set` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Always = 0,
    IfAbsent = 1,
    IfUnchanged = 2,
}

/// Reads a whole part of the last response to `http_send`. Its length is unknown, so it is read in
/// pieces, each as large as everything read before it.
pub(crate) fn http_read(part: Part) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let start = bytes.len();
        bytes.resize(2 * start.max(FIRST_PIECE / 2), 0);
        let offset = u32::try_from(start).unwrap_or(u32::MAX);
        let end = start + imports::http_read(part, offset, &mut bytes[start..]);
        let is_whole = end < bytes.len();
        bytes.truncate(end);
        if is_whole {
            return bytes;
        }
    }
}

/// Size of the first piece of a response part, in bytes.
const FIRST_PIECE: usize = 1 << 10;

/// Reads a key of the topic's store, or returns the host's error. Another job may write the key
/// between two calls, so the read repeats with a longer buffer until the value, of at most 64 KiB,
/// fits.
pub(crate) fn kv_get(key: &[u8]) -> Result<Vec<u8>, i32> {
    let mut value = vec![0; 512];
    loop {
        let len = imports::kv_get(key, &mut value);
        let len = usize::try_from(len).map_err(|_| len)?;
        if len <= value.len() {
            value.truncate(len);
            return Ok(value);
        }
        value = vec![0; len];
    }
}

/// Reads a metadata value; `None` if the host does not know the key.
pub(crate) fn meta_read(key: Meta) -> Option<Vec<u8>> {
    whole(|into| imports::meta_read(key, into))
}

/// Reads a configuration value; `None` if there is no value of that name.
pub(crate) fn config_read(name: &str) -> Option<Vec<u8>> {
    whole(|into| imports::config_read(name, into))
}

/// Calls an import that returns a value's full length, a second time if the value did not fit.
fn whole(mut read: impl FnMut(&mut [u8]) -> i32) -> Option<Vec<u8>> {
    let mut short = [0; 128];
    let len = usize::try_from(read(&mut short)).ok()?;
    if let Some(value) = short.get(..len) {
        return Some(value.to_vec());
    }
    let mut value = vec![0; len];
    // The value cannot change within a job, so the second length equals the first.
    usize::try_from(read(&mut value)).ok()?;
    Some(value)
}

/// Passes a panic's message to the host as the reason before the module traps.
pub(crate) fn report_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| reason(&panic.to_string())));
}
