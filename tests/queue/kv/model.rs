//! The model of the key-value store that random steps follow.

use std::collections::{BTreeMap, BTreeSet};

use duebox_queue::KvWrite;

/// Names and bytes that the store still holds when a life begins.
pub(super) const NAMES_LEFT: usize = 12;
pub(super) const BYTES_LEFT: usize = 1_500;

/// What the store must hold, by name: the value, its revision, and the hour at which it is over.
#[derive(Default)]
pub(super) struct Model {
    pub(super) kept: BTreeMap<String, (String, u64, Option<u64>)>,
    pub(super) hour: u64,
    /// Every revision there was.
    pub(super) revisions: BTreeSet<(String, u64)>,
}

impl Model {
    pub(super) fn there(&self, name: &str) -> Option<&(String, u64, Option<u64>)> {
        self.kept.get(name).filter(|(_, _, until)| until.is_none_or(|until| until > self.hour))
    }

    pub(super) fn has_room(&self, name: &str, value: &str) -> bool {
        let others = self.kept.keys().filter(|other| *other != name);
        let others: Vec<_> = others.filter_map(|name| Some((name, self.there(name)?))).collect();
        let bytes: usize = others.iter().map(|(name, (value, ..))| name.len() + value.len()).sum();
        others.len() < NAMES_LEFT && bytes + name.len() + value.len() <= BYTES_LEFT
    }

    pub(super) fn write<T>(
        &mut self,
        name: &str,
        value: String,
        until: Option<u64>,
        word: T,
    ) -> KvWrite<T> {
        if !self.has_room(name, &value) {
            return KvWrite::Full;
        }
        self.kept.insert(name.to_owned(), (value, 0, until));
        KvWrite::Done(word)
    }

    pub(super) fn add(&mut self, name: &str, delta: i64) -> KvWrite<i64> {
        let (number, until) = match self.there(name) {
            None => (Some(0), None),
            Some((value, _, until)) => (value.parse::<i64>().ok(), *until),
        };
        match number.and_then(|number| number.checked_add(delta)) {
            None => KvWrite::NotANumber,
            Some(sum) => self.write(name, sum.to_string(), until, sum),
        }
    }
}
