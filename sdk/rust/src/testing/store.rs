//! The topic's store as the host keeps it, by the rules of `docs/reference/abi.md`, so that a test refuses
//! what the daemon refuses. Time stands still in a test, so nothing expires.

use std::collections::BTreeMap;

use crate::abi::Mode;
use crate::abi::code::{CONFLICT, INVALID, NOT_FOUND, TOO_LARGE};

const KEY_MAX: usize = 256;
const VALUE_MAX: usize = 64 << 10;
const TTL_MAX_MS: i64 = 10 * 365 * 86_400_000;
const KEYS_MAX: usize = 100_000;

/// Values by key, and the keys that the job has read.
#[derive(Debug, Clone, Default)]
pub(super) struct Store {
    pub(super) values: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How many more conditional writes fail.
    pub(super) conflicts: u32,
    /// Keys that were read and have not changed since.
    seen: Vec<Vec<u8>>,
}

impl Store {
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>, i32> {
        check(key)?;
        if !self.seen.iter().any(|seen| seen == key) {
            self.seen.push(key.to_vec());
        }
        Ok(self.values.get(key).map(Vec::as_slice))
    }

    pub(super) fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        ttl_ms: i64,
        mode: Mode,
    ) -> Result<(), i32> {
        check(key)?;
        if !(0..=TTL_MAX_MS).contains(&ttl_ms) {
            return Err(INVALID);
        }
        if value.len() > VALUE_MAX {
            return Err(TOO_LARGE);
        }
        let is_free = match mode {
            Mode::Always => true,
            Mode::IfAbsent => !self.values.contains_key(key),
            Mode::IfUnchanged if self.conflicts > 0 => {
                self.conflicts -= 1;
                false
            }
            Mode::IfUnchanged => self.seen.iter().any(|seen| seen == key),
        };
        if !is_free {
            return Err(CONFLICT);
        }
        self.write(key, value)
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), i32> {
        check(key)?;
        self.values.remove(key).map(drop).ok_or(NOT_FOUND)?;
        self.seen.retain(|seen| seen != key);
        Ok(())
    }

    pub(super) fn add(&mut self, key: &[u8], delta: i64) -> Result<i64, i32> {
        check(key)?;
        let number = match self.values.get(key) {
            Some(value) => std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()),
            None => Some(0_i64),
        };
        let sum = number.and_then(|number| number.checked_add(delta)).ok_or(INVALID)?;
        self.write(key, sum.to_string().as_bytes())?;
        Ok(sum)
    }

    fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), i32> {
        if self.values.len() == KEYS_MAX && !self.values.contains_key(key) {
            return Err(TOO_LARGE);
        }
        self.values.insert(key.to_vec(), value.to_vec());
        self.seen.retain(|seen| seen != key);
        Ok(())
    }
}

fn check(key: &[u8]) -> Result<(), i32> {
    if (1..=KEY_MAX).contains(&key.len()) { Ok(()) } else { Err(INVALID) }
}
