//! The history at one resolution: a step for all topics together for as long as the ring reaches, and the steps of
//! each topic as far back as they fit into a number of bytes.

use std::collections::{BTreeMap, VecDeque};

use super::sample::{Sample, read_number, write_number};

/// The id of a topic in the rings.
pub(super) type TopicId = u16;

/// Steps of one length, the oldest first. A step in which nothing happened takes no space.
pub(super) struct Ring {
    pub(super) step_ms: u64,
    /// The number of steps it reaches back.
    reach: u64,
    /// The most bytes of steps of topics.
    detail_max: usize,
    detail: usize,
    slots: VecDeque<Slot>,
    /// Steps of topics before this one are dropped.
    pub(super) dropped_before: u64,
    open: Open,
}

/// A step that is over.
struct Slot {
    /// Its start in steps since 1970.
    index: u64,
    total: Box<[u8]>,
    topics: Box<[u8]>,
}

/// The current step.
#[derive(Default)]
struct Open {
    index: u64,
    total: Sample,
    topics: BTreeMap<TopicId, Sample>,
}

impl Ring {
    pub(super) fn new(step_ms: u64, reach: u64, detail_max: usize) -> Self {
        let (slots, open) = (VecDeque::new(), Open::default());
        Self { step_ms, reach, detail_max, detail: 0, slots, dropped_before: 0, open }
    }

    /// How far it reaches back, in ms.
    pub(super) fn reach_ms(&self) -> u64 {
        self.reach * self.step_ms
    }

    /// Begins the step of this time, and drops steps that are too old. Time never goes back.
    pub(super) fn advance(&mut self, at_ms: u64) {
        let index = at_ms / self.step_ms;
        if index <= self.open.index {
            return;
        }
        self.close();
        self.open.index = index;
        while self.slots.front().is_some_and(|slot| slot.index + self.reach <= index) {
            let dropped = self.slots.pop_front().map_or(0, |slot| slot.topics.len());
            self.detail -= dropped;
        }
    }

    /// Adds to the current step.
    pub(super) fn add(&mut self, topics: &[(Option<TopicId>, Sample)], total: &Sample) {
        self.open.total.merge(total);
        for (id, sample) in topics {
            self.open.total.tally.merge(&sample.tally);
            if let Some(id) = id {
                self.open.topics.entry(*id).or_default().merge(sample);
            }
        }
    }

    fn close(&mut self) {
        let Open { index, total, topics } = std::mem::take(&mut self.open);
        if total.is_empty() && topics.is_empty() {
            return;
        }
        let (mut total_bytes, mut topic_bytes) = (Vec::new(), Vec::new());
        total.write(&mut total_bytes);
        for (id, sample) in topics.iter().filter(|(_, sample)| !sample.is_empty()) {
            write_number(&mut topic_bytes, u32::from(*id));
            sample.write(&mut topic_bytes);
        }
        self.detail += topic_bytes.len();
        self.slots.push_back(Slot { index, total: total_bytes.into(), topics: topic_bytes.into() });
        let mut at = self.slots.partition_point(|slot| slot.index < self.dropped_before);
        while self.detail > self.detail_max && at < self.slots.len() {
            self.dropped_before = self.slots[at].index + 1;
            self.detail -= std::mem::take(&mut self.slots[at].topics).len();
            at += 1;
        }
    }

    /// Passes the steps from this time on, each with the time it starts at.
    pub(super) fn totals(&self, from_ms: u64, mut each: impl FnMut(u64, &Sample)) {
        for slot in self.slots_since(from_ms) {
            each(slot.index * self.step_ms, &Sample::read(&mut &slot.total[..]));
        }
        if self.open.index * self.step_ms >= from_ms {
            each(self.open.index * self.step_ms, &self.open.total);
        }
    }

    /// Passes the steps of topics from this time on.
    pub(super) fn topics(&self, from_ms: u64, mut each: impl FnMut(u64, TopicId, &Sample)) {
        for slot in self.slots_since(from_ms) {
            let mut rest = &slot.topics[..];
            while !rest.is_empty() {
                let id = read_number(&mut rest) as TopicId;
                each(slot.index * self.step_ms, id, &Sample::read(&mut rest));
            }
        }
        if self.open.index * self.step_ms >= from_ms {
            for (id, sample) in &self.open.topics {
                each(self.open.index * self.step_ms, *id, sample);
            }
        }
    }

    fn slots_since(&self, from_ms: u64) -> impl Iterator<Item = &Slot> {
        let first = self.slots.partition_point(|slot| slot.index * self.step_ms < from_ms);
        self.slots.range(first..)
    }

    /// The memory of the steps in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        let totals: usize = self.slots.iter().map(|slot| slot.total.len()).sum();
        let open = self.open.topics.len() * (size_of::<Sample>() + size_of::<TopicId>());
        self.slots.capacity() * size_of::<Slot>() + totals + self.detail + open
    }
}
