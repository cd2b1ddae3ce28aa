//! The revisions that one job has read from its topic's store. A conditional `kv_set` compares with them, so
//! it writes only values that have not changed since. Their number is bounded.

use std::collections::BTreeMap;

use super::store::KvCondition;

/// How many keys are remembered for one job.
const KEYS_MAX: usize = 1_000;

/// The revisions that `kv_get` returned in one job.
#[derive(Debug, Default)]
pub(crate) struct SeenRevisions(BTreeMap<Box<[u8]>, Option<u64>>);

impl SeenRevisions {
    /// Remembers the revision of a key, or that it had no value. Keys beyond the first 1,000 are ignored.
    pub(super) fn insert(&mut self, key: &[u8], revision: Option<u64>) {
        if let Some(known) = self.0.get_mut(key) {
            *known = revision;
        } else if self.0.len() < KEYS_MAX {
            self.0.insert(key.into(), revision);
        }
    }

    /// The condition that the key has not changed since the job read it. `None` if the job has not read it.
    pub(super) fn unchanged(&self, key: &[u8]) -> Option<KvCondition> {
        self.0.get(key).map(|revision| match revision {
            Some(revision) => KvCondition::IfRevision(*revision),
            None => KvCondition::IfAbsent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_revision_of_up_to_1000_keys_is_remembered() {
        let mut seen = SeenRevisions::default();
        assert_eq!(seen.unchanged(b"a"), None);
        seen.insert(b"a", None);
        assert_eq!(seen.unchanged(b"a"), Some(KvCondition::IfAbsent));
        for key in 0..2_000_u32 {
            seen.insert(&key.to_le_bytes(), Some(1));
        }
        seen.insert(b"a", Some(7));
        assert_eq!(seen.unchanged(b"a"), Some(KvCondition::IfRevision(7)));
        let is_seen = |key: u32| seen.unchanged(&key.to_le_bytes()).is_some();
        assert!(is_seen(998) && !is_seen(999));
    }
}
