//! The topic's store (`sandbox.kv`): small values under keys, for counters, cursors and markers.
//! All jobs of the topic share it, whichever daemon runs them.
//!
//! ```
//! use std::time::Duration;
//! use duebox_sdk::{Job, Verdict, kv};
//!
//! fn handle(job: Job) -> Result<Verdict, Verdict> {
//!     let day = Duration::from_secs(86_400);
//!     if !kv::set_if_absent(&format!("seen/{}", job.id()), "", Some(day))? {
//!         return Ok(Verdict::Ack); // done before
//!     }
//!     kv::add("messages", 1)?;
//!     Ok(Verdict::Ack)
//! }
//! # use duebox_sdk::testing::TestJob;
//! # assert_eq!(TestJob::new("").run(handle).store["messages".as_bytes()], b"1");
//! ```
//!
//! A key has 1 to 256 bytes, a value at most 64 KiB, and a topic at most 100,000 keys and 64 MiB. A
//! write takes effect at once and stays when the job fails, so it may already be there when the job
//! runs again.

use std::fmt;
use std::time::Duration;

use crate::abi::{self, Mode, code};

/// How often [`update`] tries.
const UPDATES_MAX: u32 = 10;

/// Why a call did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The key or the time to live is out of range, or [`add`] found a value that is not a 64-bit
    /// integer, or would overflow.
    Invalid,
    /// The value is too large, or the store is full.
    TooLarge,
    /// Other jobs kept changing the key, so [`update`] gave up.
    Conflict,
    /// The store cannot be reached.
    Unavailable,
}

/// The value of a key; `None` if it has no value or its time to live is over. A number written by
/// [`add`] reads as decimal text.
///
/// # Errors
/// [`Error::Invalid`] or [`Error::Unavailable`].
pub fn get(key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
    match abi::kv_get(key.as_ref()) {
        Ok(value) => Ok(Some(value)),
        Err(code::NOT_FOUND) => Ok(None),
        Err(code) => Err(Error::new(code)),
    }
}

/// Sets a key, for `ttl` (1 ms to ten years) or permanently.
///
/// # Errors
/// Any [`Error`] except a conflict; then nothing is written.
pub fn set(
    key: impl AsRef<[u8]>,
    value: impl AsRef<[u8]>,
    ttl: Option<Duration>,
) -> Result<(), Error> {
    write(key.as_ref(), value.as_ref(), ttl, Mode::Always).map(|_| ())
}

/// Sets a key that has no value, and returns whether it did. Of several jobs that try, one
/// succeeds.
///
/// # Errors
/// Any [`Error`] except a conflict; then nothing is written.
pub fn set_if_absent(
    key: impl AsRef<[u8]>,
    value: impl AsRef<[u8]>,
    ttl: Option<Duration>,
) -> Result<bool, Error> {
    write(key.as_ref(), value.as_ref(), ttl, Mode::IfAbsent)
}

/// Sets a key that no job, including this one, has written since this job's last [`get`] of it, and
/// returns whether it did. Without an earlier `get` it writes nothing. The host remembers the last
/// reads of at most 1,000 keys.
///
/// # Errors
/// Any [`Error`] except a conflict; then nothing is written.
pub fn set_if_unchanged(
    key: impl AsRef<[u8]>,
    value: impl AsRef<[u8]>,
    ttl: Option<Duration>,
) -> Result<bool, Error> {
    write(key.as_ref(), value.as_ref(), ttl, Mode::IfUnchanged)
}

/// Changes a key's value with `change` and returns the new value. If another job writes the key
/// meanwhile, it starts again, up to ten times, so `change` should have no side effects.
///
/// # Errors
/// Any [`Error`]; then nothing is written.
pub fn update(
    key: impl AsRef<[u8]>,
    ttl: Option<Duration>,
    mut change: impl FnMut(Option<Vec<u8>>) -> Vec<u8>,
) -> Result<Vec<u8>, Error> {
    let key = key.as_ref();
    for _ in 0..UPDATES_MAX {
        let value = change(get(key)?);
        if set_if_unchanged(key, &value, ttl)? {
            return Ok(value);
        }
    }
    Err(Error::Conflict)
}

/// Deletes a key, and returns whether it had a value.
///
/// # Errors
/// [`Error::Invalid`] or [`Error::Unavailable`].
pub fn delete(key: impl AsRef<[u8]>) -> Result<bool, Error> {
    match abi::kv_delete(key.as_ref()) {
        0 => Ok(true),
        code::NOT_FOUND => Ok(false),
        code => Err(Error::new(code)),
    }
}

/// Adds to a key's number, 0 if it has no value, and returns the new number. The key's time to live
/// does not change. Concurrent additions each count once.
///
/// # Errors
/// Any [`Error`] except a conflict; then nothing is added.
pub fn add(key: impl AsRef<[u8]>, delta: i64) -> Result<i64, Error> {
    let mut sum = [0; 8];
    match abi::kv_add(key.as_ref(), delta, &mut sum) {
        0 => Ok(i64::from_le_bytes(sum)),
        code => Err(Error::new(code)),
    }
}

fn write(key: &[u8], value: &[u8], ttl: Option<Duration>, mode: Mode) -> Result<bool, Error> {
    match abi::kv_set(key, value, ttl.map_or(0, millis), mode) {
        0 => Ok(true),
        code::CONFLICT => Ok(false),
        code => Err(Error::new(code)),
    }
}

/// The host takes 0 as permanent, so the minimum is 1.
fn millis(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX).max(1)
}

impl Error {
    fn new(code: i32) -> Self {
        match code {
            code::INVALID => Self::Invalid,
            code::TOO_LARGE => Self::TooLarge,
            code::CONFLICT => Self::Conflict,
            _ => Self::Unavailable,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => {
                "a key has 1 to 256 bytes, a time to live is at most ten years, and a sum is a 64-bit integer"
            }
            Self::TooLarge => "the value is over 64 KiB, or the topic's store is full",
            Self::Conflict => "other jobs kept changing the key",
            Self::Unavailable => "the topic's store cannot be reached",
        })
    }
}

impl std::error::Error for Error {}
