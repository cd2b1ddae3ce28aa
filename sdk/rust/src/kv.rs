//! The topic's store (`sandbox.kv`): small values under keys, for counters, cursors and marks. All jobs
//! of the topic share it, whichever runner they run in.
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
//! A key is 1 to 256 bytes, a value up to 64 KiB; a topic has at most 100,000 keys and 64 MiB. What is
//! written is written at once, and stays when the job fails: it may be there already when a job runs
//! again.

use std::fmt;
use std::time::Duration;

use crate::abi::{self, Mode, code};

/// How often [`update`] begins anew.
const UPDATES_MAX: u32 = 10;

/// Why a call to the store did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The key or the time to live is out of its bounds, or [`add`] met what is no whole number of 64
    /// bits, or would leave their range.
    Invalid,
    /// The value is too large, or the store is full.
    TooLarge,
    /// Others wrote the key again and again, so that [`update`] gave up.
    Conflict,
    /// The store cannot be reached.
    Unavailable,
}

/// The value of a key; `None` if there is none, or its time is over. What [`add`] wrote is decimal
/// text.
///
/// # Errors
/// [`Error::Invalid`] or [`Error::Unavailable`].
pub fn get(key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
    match abi::kv_get(key.as_ref()) {
        Ok(value) => Ok(Some(value)),
        Err(code::NOT_FOUND) => Ok(None),
        Err(answer) => Err(Error::new(answer)),
    }
}

/// Sets a key, for `ttl` (1 ms to ten years) or for good.
///
/// # Errors
/// Any [`Error`] but a conflict; nothing is written then.
pub fn set(
    key: impl AsRef<[u8]>,
    value: impl AsRef<[u8]>,
    ttl: Option<Duration>,
) -> Result<(), Error> {
    write(key.as_ref(), value.as_ref(), ttl, Mode::Always).map(|_| ())
}

/// Sets a key that has no value, and tells whether it did. Of several jobs that try, one does.
///
/// # Errors
/// Any [`Error`] but a conflict; nothing is written then.
pub fn set_if_absent(
    key: impl AsRef<[u8]>,
    value: impl AsRef<[u8]>,
    ttl: Option<Duration>,
) -> Result<bool, Error> {
    write(key.as_ref(), value.as_ref(), ttl, Mode::IfAbsent)
}

/// Sets a key that nobody, this job included, has written since this job's last [`get`] of it, and
/// tells whether it did. A job that did not ask for the key before never writes it so; of more than
/// 1,000 keys the host does not remember what was seen.
///
/// # Errors
/// Any [`Error`] but a conflict; nothing is written then.
pub fn set_if_unchanged(
    key: impl AsRef<[u8]>,
    value: impl AsRef<[u8]>,
    ttl: Option<Duration>,
) -> Result<bool, Error> {
    write(key.as_ref(), value.as_ref(), ttl, Mode::IfUnchanged)
}

/// Changes a key's value into what `change` makes of it, and gives the new one. If others write the
/// key meanwhile, it begins anew, up to ten times; so `change` should do nothing else.
///
/// # Errors
/// Any [`Error`]; nothing is written then.
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

/// Forgets a key, and tells whether it had a value.
///
/// # Errors
/// [`Error::Invalid`] or [`Error::Unavailable`].
pub fn delete(key: impl AsRef<[u8]>) -> Result<bool, Error> {
    match abi::kv_delete(key.as_ref()) {
        0 => Ok(true),
        code::NOT_FOUND => Ok(false),
        answer => Err(Error::new(answer)),
    }
}

/// Adds to a key's number, which is 0 where there is none, and gives the new number. The key's time to
/// live stays as it is. Of several jobs that add, each counts once.
///
/// # Errors
/// Any [`Error`] but a conflict; nothing is added then.
pub fn add(key: impl AsRef<[u8]>, delta: i64) -> Result<i64, Error> {
    let mut sum = [0; 8];
    match abi::kv_add(key.as_ref(), delta, &mut sum) {
        0 => Ok(i64::from_le_bytes(sum)),
        answer => Err(Error::new(answer)),
    }
}

fn write(key: &[u8], value: &[u8], ttl: Option<Duration>, mode: Mode) -> Result<bool, Error> {
    match abi::kv_set(key, value, ttl.map_or(0, millis), mode) {
        0 => Ok(true),
        code::CONFLICT => Ok(false),
        answer => Err(Error::new(answer)),
    }
}

/// The host takes 0 for ever; so the shortest is 1.
fn millis(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX).max(1)
}

impl Error {
    fn new(answer: i32) -> Self {
        match answer {
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
                "a key has 1 to 256 bytes, a time to live is at most ten years, and a sum is of whole numbers of 64 bits"
            }
            Self::TooLarge => "the value is over 64 KiB, or the topic's store is full",
            Self::Conflict => "others wrote the key again and again",
            Self::Unavailable => "the topic's store cannot be reached",
        })
    }
}

impl std::error::Error for Error {}
