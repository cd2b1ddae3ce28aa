//! The keys and values.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::hasher::FastState;
use super::zset::Zset;

/// A key, a field, a member or a value.
pub(crate) type Bytes = Vec<u8>;

/// A value of any type.
#[derive(Debug, Clone)]
pub(crate) enum Stored {
    /// A string.
    Text(Bytes),
    /// A hash, sorted so that its order repeats.
    Hash(BTreeMap<Bytes, Bytes>),
    /// A set.
    Set(BTreeSet<Bytes>),
    /// A sorted set.
    Zset(Zset),
}

/// Everything that Redis holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Database {
    keys: HashMap<Bytes, Stored, FastState>,
}

/// The reply for a key of another type.
pub(crate) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Declares how one type of value is read and written.
macro_rules! of_type {
    ($read:ident, $write:ident, $sweep:ident, $kind:ident, $type:ty) => {
        /// The value, if the key exists.
        pub(crate) fn $read(&self, key: &[u8]) -> Result<Option<&$type>, String> {
            match self.keys.get(key) {
                None => Ok(None),
                Some(Stored::$kind(value)) => Ok(Some(value)),
                Some(_) => Err(WRONG_TYPE.to_owned()),
            }
        }

        /// The value, which is created if the key does not exist.
        pub(crate) fn $write(&mut self, key: &[u8]) -> Result<&mut $type, String> {
            if !self.keys.contains_key(key) {
                self.keys.insert(key.to_vec(), Stored::$kind(<$type>::default()));
            }
            match self.keys.get_mut(key) {
                Some(Stored::$kind(value)) => Ok(value),
                _ => Err(WRONG_TYPE.to_owned()),
            }
        }

        /// Removes from a value what `remove` removes, and the key if nothing is left.
        pub(crate) fn $sweep<T: Default>(
            &mut self,
            key: &[u8],
            remove: impl FnOnce(&mut $type) -> T,
        ) -> Result<T, String> {
            match self.keys.get_mut(key) {
                None => Ok(T::default()),
                Some(Stored::$kind(value)) => {
                    let removed = remove(value);
                    if value.is_empty() {
                        self.keys.remove(key);
                    }
                    Ok(removed)
                }
                Some(_) => Err(WRONG_TYPE.to_owned()),
            }
        }
    };
}

impl Database {
    of_type!(hash, hash_mut, sweep_hash, Hash, BTreeMap<Bytes, Bytes>);
    of_type!(set, set_mut, sweep_set, Set, BTreeSet<Bytes>);
    of_type!(zset, zset_mut, sweep_zset, Zset, Zset);

    /// The value of any type.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Stored> {
        self.keys.get(key)
    }

    /// Replaces a value.
    pub(crate) fn put(&mut self, key: &[u8], value: Stored) {
        self.keys.insert(key.to_vec(), value);
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Stored> {
        self.keys.remove(key)
    }

    /// The names of all keys, sorted.
    pub(crate) fn names(&self) -> Vec<&Bytes> {
        let mut names: Vec<_> = self.keys.keys().collect();
        names.sort();
        names
    }
}
