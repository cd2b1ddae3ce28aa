//! The seed of the random bytes that are drawn while a snapshot is taken.
//!
//! A program keeps what it drew then in its memory: the hash seed of its dicts, an id that its top level made. Two
//! snapshots of one program are equal only if they drew the same bytes. So all of them come from one seed, which is
//! random, and which a recording keeps.

use std::fmt;

use data_encoding::HEXLOWER;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

/// 32 random bytes. What the program drew can be computed from them, so no log shows them.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotSeed([u8; Self::LENGTH]);

/// A text that is not 64 hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("a seed has 64 hexadecimal digits")]
pub struct InvalidSeed;

impl SnapshotSeed {
    /// The length of a seed, in bytes.
    pub(crate) const LENGTH: usize = 32;

    /// The seed of trial runs, whose output is the same each time. Anybody knows it.
    pub const TRIAL: Self = Self([0; Self::LENGTH]);

    /// A new seed.
    pub(crate) fn draw() -> Self {
        let mut seed = [0; Self::LENGTH];
        rand::rng().fill_bytes(&mut seed);
        Self(seed)
    }

    pub(crate) fn of_bytes(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    pub(crate) fn bytes(self) -> [u8; Self::LENGTH] {
        self.0
    }
}

impl From<SnapshotSeed> for String {
    fn from(seed: SnapshotSeed) -> Self {
        HEXLOWER.encode(&seed.0)
    }
}

impl TryFrom<String> for SnapshotSeed {
    type Error = InvalidSeed;

    fn try_from(text: String) -> Result<Self, InvalidSeed> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| InvalidSeed)?;
        bytes.try_into().map(Self).map_err(|_| InvalidSeed)
    }
}

impl fmt::Debug for SnapshotSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SnapshotSeed(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_written_as_hexadecimal_digits_and_shown_nowhere_else() {
        let seed = SnapshotSeed::draw();
        let json = serde_json::to_string(&seed).unwrap();
        assert_eq!(json.len(), 2 * SnapshotSeed::LENGTH + 2);
        assert_eq!(serde_json::from_str::<SnapshotSeed>(&json).unwrap(), seed);
        assert_ne!(SnapshotSeed::draw(), seed);
        assert_eq!(format!("{seed:?}"), "SnapshotSeed(…)");
        for damaged in ["\"\"", "\"00\"", "7", &json.replace('"', "\"0")] {
            assert!(serde_json::from_str::<SnapshotSeed>(damaged).is_err(), "{damaged}");
        }
    }
}
