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
    /// In the compact form: whole samples of a thousand topics would take most of the memory.
    topics: BTreeMap<TopicId, Box<[u8]>>,
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
        topics.iter().for_each(|(_, sample)| self.open.total.tally.merge(&sample.tally));
        self.open.add(topics);
    }

    /// Adds to a step that is over; returns whether it is still kept.
    pub(super) fn add_past(
        &mut self,
        index: u64,
        topics: &[(Option<TopicId>, Sample)],
        total: &Sample,
    ) -> bool {
        if index > self.open.index || index + self.reach <= self.open.index {
            return false;
        }
        if index == self.open.index {
            self.open.total.merge(total);
            self.open.add(topics);
            return true;
        }
        let at = self.slots.partition_point(|slot| slot.index < index);
        if self.slots.get(at).is_none_or(|slot| slot.index != index) {
            self.slots.insert(at, Slot { index, total: [].into(), topics: [].into() });
        }
        let slot = &mut self.slots[at];
        let mut sum = Sample::read(&mut &slot.total[..]);
        sum.merge(total);
        slot.total = compact(|to| sum.write(to));
        if index < self.dropped_before {
            return true;
        }
        let mut by_topic = BTreeMap::new();
        slot.each_topic(|id, sample| {
            by_topic.insert(id, *sample);
        });
        for (id, sample) in topics.iter().filter_map(|(id, sample)| Some(((*id)?, sample))) {
            by_topic.entry(id).or_default().merge(sample);
        }
        self.detail -= slot.topics.len();
        slot.topics = compact_topics(&by_topic);
        self.detail += slot.topics.len();
        self.drop_detail();
        true
    }

    fn close(&mut self) {
        let Open { index, total, topics } = std::mem::take(&mut self.open);
        if total.is_empty() && topics.is_empty() {
            return;
        }
        let topics = compact(|to| {
            for (id, sample) in topics {
                write_number(to, u32::from(id));
                to.extend_from_slice(&sample);
            }
        });
        self.detail += topics.len();
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(self.slots.len() / 8 + 16);
        }
        self.slots.push_back(Slot { index, total: compact(|to| total.write(to)), topics });
        self.drop_detail();
    }

    /// Drops the oldest steps of topics beyond the number of bytes.
    fn drop_detail(&mut self) {
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
            slot.each_topic(|id, sample| each(slot.index * self.step_ms, id, sample));
        }
        if self.open.index * self.step_ms >= from_ms {
            for (id, sample) in &self.open.topics {
                each(self.open.index * self.step_ms, *id, &Sample::read(&mut &sample[..]));
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
        let entry = 2 * size_of::<(TopicId, Box<[u8]>)>();
        let open: usize = self.open.topics.values().map(|sample| sample.len() + entry).sum();
        self.slots.capacity() * size_of::<Slot>() + totals + self.detail + open
    }
}

impl Open {
    /// Adds to the topics.
    fn add(&mut self, topics: &[(Option<TopicId>, Sample)]) {
        for (id, sample) in topics {
            let Some(id) = id else { continue };
            let known = self.topics.entry(*id).or_default();
            let mut sum = Sample::read(&mut &known[..]);
            sum.merge(sample);
            *known = compact(|to| sum.write(to));
        }
    }
}

impl Slot {
    fn each_topic(&self, mut each: impl FnMut(TopicId, &Sample)) {
        let mut rest = &self.topics[..];
        while !rest.is_empty() {
            let id = read_number(&mut rest) as TopicId;
            each(id, &Sample::read(&mut rest));
        }
    }
}

fn compact(write: impl FnOnce(&mut Vec<u8>)) -> Box<[u8]> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes.into()
}

fn compact_topics(topics: &BTreeMap<TopicId, Sample>) -> Box<[u8]> {
    compact(|to| {
        for (id, sample) in topics.iter().filter(|(_, sample)| !sample.is_empty()) {
            write_number(to, u32::from(*id));
            sample.write(to);
        }
    })
}
