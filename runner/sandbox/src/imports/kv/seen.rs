//! What one job has seen of its topic's store, so that it can write only what nobody has changed since.
//! Bounded, and gone with the job.

use std::collections::BTreeMap;

use super::Condition;

/// Keys that are remembered for one job.
const KEYS_MAX: usize = 1_000;

/// The revisions that the job's `kv_get` found.
#[derive(Debug, Default)]
pub(crate) struct Seen(BTreeMap<Box<[u8]>, Option<u64>>);

impl Seen {
    /// Remembers what was found under a key: a revision, or that there was none. Beyond 1,000 keys a
    /// further one is not remembered.
    pub(crate) fn found(&mut self, key: &[u8], revision: Option<u64>) {
        if let Some(known) = self.0.get_mut(key) {
            *known = revision;
        } else if self.0.len() < KEYS_MAX {
            self.0.insert(key.into(), revision);
        }
    }

    /// The condition under which the key is as the job found it; none if the job has not looked.
    pub(crate) fn unchanged(&self, key: &[u8]) -> Option<Condition> {
        self.0.get(key).map(|revision| match revision {
            Some(revision) => Condition::IfRevision(*revision),
            None => Condition::IfAbsent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_last_counts_and_no_more_than_a_thousand_keys() {
        let mut seen = Seen::default();
        assert_eq!(seen.unchanged(b"a"), None);
        seen.found(b"a", None);
        assert_eq!(seen.unchanged(b"a"), Some(Condition::IfAbsent));
        for key in 0..2_000_u32 {
            seen.found(&key.to_le_bytes(), Some(1));
        }
        seen.found(b"a", Some(7));
        assert_eq!(seen.unchanged(b"a"), Some(Condition::IfRevision(7)));
        let seen_of = |key: u32| seen.unchanged(&key.to_le_bytes()).is_some();
        assert!(seen_of(998) && !seen_of(999));
    }
}
