//! The ABI as safe functions. The `unsafe` of the SDK is in two files below this module and
//! nowhere else: `imports.rs` calls the host, `arena.rs` hands out memory.
//!
//! Invariant: what the rest of the SDK sees here takes and gives ordinary slices and values. On
//! other targets than wasm32 the imports are those of [`testing`](crate::testing).

#[cfg(all(target_arch = "wasm32", feature = "arena"))]
mod arena;
#[cfg(any(test, all(target_arch = "wasm32", feature = "arena")))]
mod free;
#[cfg(target_arch = "wasm32")]
mod imports;

#[cfg(not(target_arch = "wasm32"))]
use crate::testing::imports;

pub(crate) use imports::{
    log, meta_int, payload_read, push, random, reason, result, retry_after, snooze,
};

/// The metadata keys of the ABI.
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

/// The value of a metadata key; `None` if the host does not know the key.
pub(crate) fn meta_read(key: Meta) -> Option<Vec<u8>> {
    whole(|into| imports::meta_read(key, into))
}

/// A configuration value; `None` if there is none of that name.
pub(crate) fn config_read(name: &str) -> Option<Vec<u8>> {
    whole(|into| imports::config_read(name, into))
}

/// Calls an import that answers with a value's whole length, again if the value did not fit.
fn whole(mut read: impl FnMut(&mut [u8]) -> i32) -> Option<Vec<u8>> {
    let mut short = [0; 128];
    let len = usize::try_from(read(&mut short)).ok()?;
    if let Some(value) = short.get(..len) {
        return Some(value.to_vec());
    }
    let mut value = vec![0; len];
    // The value cannot change within a job, so the second answer is the first.
    usize::try_from(read(&mut value)).ok()?;
    Some(value)
}

/// Lets a panic's message reach the host as the reason, before the module traps.
pub(crate) fn report_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| reason(&panic.to_string())));
}
