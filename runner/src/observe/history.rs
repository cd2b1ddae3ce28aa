//! The recent past of all topics in memory: attempts by outcome and class, lateness and run times, waiting jobs, and
//! Redis' round trips. Steps of one second reach back ten minutes, of ten seconds six hours, of one minute two days.
//!
//! The sums of all topics reach back that far always. The steps of single topics share a bounded number of bytes: with
//! hundreds of topics that are busy in every second their fine steps end earlier, and the next coarser ones are used.
//! A topic in which nothing happens takes no space. The memory is about 2 MB for 1,000 busy topics, at most.

mod own;
mod published;
mod ring;
mod sample;

use std::collections::{BTreeMap, HashMap, HashSet};

use duebox_job::TopicName;
use parking_lot::Mutex;

pub use self::own::OwnSteps;
pub use self::published::{Counted, PublishedHistory};
use self::ring::{Ring, TopicId};
pub use self::sample::Sample;

/// Topics with steps of their own; the others count in the sums of all topics.
const TOPICS_MAX: usize = 2_000;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60_000;
/// The time that [`History::recent`] looks back.
pub const RECENT_MS: u64 = 10 * MINUTE;
/// The seconds over which it takes a rate.
pub const RATE_SECONDS: f64 = 10.0;
const RATE_MS: u64 = 10 * SECOND;

/// The history of this process. All times are unix ms by one clock, which never goes back.
pub struct History {
    since_ms: u64,
    state: Mutex<State>,
}

struct State {
    /// The finest first.
    rings: [Ring; 3],
    /// The start of the earliest step of another daemon that was added; only the coarsest ring has those.
    past_from_ms: Option<u64>,
    ids: HashMap<TopicName, TopicId>,
    free: Vec<TopicId>,
}

/// The steps to read: `steps` of `step_ms` from `from_ms` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The start of the first step.
    pub from_ms: u64,
    /// The length of a step.
    pub step_ms: u64,
    /// The number of steps.
    pub steps: usize,
    /// The ring that has them.
    ring: usize,
}

/// The last ten minutes of a topic.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recent {
    /// What happened in them.
    pub sample: Sample,
    /// Attempts and failures in the last ten seconds.
    pub last: (u32, u32),
}

impl History {
    /// An empty history that begins now.
    pub fn new(now_ms: u64) -> Self {
        let rings = [
            Ring::new(SECOND, 600, 256 << 10),
            Ring::new(10 * SECOND, 2_160, 256 << 10),
            Ring::new(MINUTE, 2_880, 400 << 10),
        ];
        Self {
            since_ms: now_ms,
            state: Mutex::new(State {
                rings,
                past_from_ms: None,
                ids: HashMap::new(),
                free: Vec::new(),
            }),
        }
    }

    /// When it began.
    pub fn began_ms(&self) -> u64 {
        self.since_ms
    }

    /// Since when it has steps: its begin, or that of the earliest step of another daemon.
    pub fn since_ms(&self) -> u64 {
        self.state.lock().past_from_ms.map_or(self.since_ms, |past_ms| past_ms.min(self.since_ms))
    }

    /// Since when the steps of a window are known. Steps of single topics may have been dropped for want of space:
    /// there, it is not known that nothing happened.
    pub fn known_from_ms(&self, window: Window, by_topic: bool) -> u64 {
        let since_ms = self.since_ms();
        if !by_topic {
            return since_ms;
        }
        let state = self.state.lock();
        let ring = &state.rings[window.ring];
        since_ms.max(ring.dropped_before * ring.step_ms)
    }

    /// Adds what another daemon has recorded, in steps of one minute.
    pub fn add_past(&self, now_ms: u64, other: &PublishedHistory) {
        let mut state = self.state.lock();
        state.rings[2].advance(now_ms);
        for (minute, step) in &other.steps {
            let topics: Vec<(Option<TopicId>, Sample)> =
                step.topics.iter().map(|(name, sample)| (state.id(name), *sample)).collect();
            if state.rings[2].add_past(*minute, &topics, &step.total) {
                let from_ms = minute * MINUTE;
                let past = &mut state.past_from_ms;
                *past = Some(past.map_or(from_ms, |known_ms| known_ms.min(from_ms)));
            }
        }
    }

    /// Adds what happened to topics, and what concerns all of them.
    pub fn add(&self, now_ms: u64, topics: &[(TopicName, Sample)], total: &Sample) {
        let mut state = self.state.lock();
        state.rings.iter_mut().for_each(|ring| ring.advance(now_ms));
        let known: Vec<(Option<TopicId>, Sample)> =
            topics.iter().map(|(name, sample)| (state.id(name), *sample)).collect();
        for ring in &mut state.rings {
            ring.add(&known, total);
        }
    }

    /// The window of a span that ends now, in at most so many steps. `by_topic` if steps of topics will be read.
    pub fn window(&self, now_ms: u64, span_ms: u64, steps_max: usize, by_topic: bool) -> Window {
        let state = self.state.lock();
        let span_ms = span_ms.clamp(SECOND, state.rings[2].reach_ms());
        let from_ms = now_ms.saturating_sub(span_ms);
        let at = state.ring_for(from_ms, now_ms, self.since_ms, by_topic);
        let ring = &state.rings[at];
        let fine = span_ms.div_ceil(ring.step_ms);
        let step_ms = ring.step_ms * fine.div_ceil(steps_max.max(1) as u64);
        let steps = span_ms.div_ceil(step_ms).max(1);
        // Steps start at multiples of their length, so that a later request has the same ones.
        let end_ms = (now_ms / step_ms + 1) * step_ms;
        let from_ms = end_ms.saturating_sub(steps * step_ms);
        Window { from_ms, step_ms, steps: steps as usize, ring: at }
    }

    /// The steps of all topics together.
    pub fn total(&self, window: Window) -> Vec<Sample> {
        let mut samples = vec![Sample::default(); window.steps];
        let state = self.state.lock();
        state.rings[window.ring].totals(window.from_ms, |at_ms, sample| {
            if let Some(step) = window.step(at_ms) {
                samples[step].merge(sample);
            }
        });
        samples
    }

    /// The steps of the topics that `sees` selects, together.
    pub fn sum(&self, window: Window, sees: impl Fn(&TopicName) -> bool) -> Vec<Sample> {
        let mut samples = vec![Sample::default(); window.steps];
        let state = self.state.lock();
        let seen: HashSet<TopicId> =
            state.ids.iter().filter(|(name, _)| sees(name)).map(|(_, id)| *id).collect();
        let ring = &state.rings[window.ring];
        // Waiting jobs of topics at the same time add up; of different times the most count.
        let mut waiting: BTreeMap<u64, u32> = BTreeMap::new();
        ring.topics(window.from_ms, |at_ms, id, sample| {
            let Some(step) = window.step(at_ms).filter(|_| seen.contains(&id)) else { return };
            let sum = waiting.entry(at_ms).or_default();
            *sum = sum.saturating_add(sample.waiting);
            samples[step].merge(&Sample { waiting: 0, ..*sample });
        });
        for (at_ms, sum) in waiting {
            if let Some(step) = window.step(at_ms) {
                samples[step].waiting = samples[step].waiting.max(sum);
            }
        }
        // When jobs were counted, a topic without a step had none.
        ring.totals(window.from_ms, |at_ms, total| {
            if let Some(step) = window.step(at_ms) {
                samples[step].is_counted |= total.is_counted;
            }
        });
        samples
    }

    /// Attempts and failures of each topic that had some, in the steps of a window.
    pub fn by_topic(&self, window: Window) -> BTreeMap<TopicName, Vec<(u32, u32)>> {
        let state = self.state.lock();
        let mut by_id: HashMap<TopicId, Vec<(u32, u32)>> = HashMap::new();
        state.rings[window.ring].topics(window.from_ms, |at_ms, id, sample| {
            let attempts = sample.tally.attempts();
            let Some(step) = window.step(at_ms).filter(|_| attempts > 0) else { return };
            let steps = by_id.entry(id).or_insert_with(|| vec![(0, 0); window.steps]);
            steps[step].0 += attempts;
            steps[step].1 += sample.tally.failed();
        });
        let named = state.ids.iter();
        named.filter_map(|(name, id)| Some((name.clone(), by_id.remove(id)?))).collect()
    }

    /// The last ten minutes of each topic in which something happened.
    pub fn recent(&self, now_ms: u64) -> HashMap<TopicName, Recent> {
        let state = self.state.lock();
        let mut by_id: HashMap<TopicId, Recent> = HashMap::new();
        let from_ms = now_ms.saturating_sub(RECENT_MS);
        let ring = &state.rings[state.ring_for(from_ms, now_ms, self.since_ms, true)];
        ring.topics(from_ms, |_, id, sample| by_id.entry(id).or_default().sample.merge(sample));
        state.rings[0].topics(now_ms.saturating_sub(RATE_MS), |_, id, sample| {
            let last = &mut by_id.entry(id).or_default().last;
            last.0 += sample.tally.attempts();
            last.1 += sample.tally.failed();
        });
        let named = state.ids.iter();
        named.filter_map(|(name, id)| Some((name.clone(), by_id.remove(id)?))).collect()
    }

    /// The memory it takes in bytes, about.
    pub fn bytes(&self) -> usize {
        let state = self.state.lock();
        let names = state.ids.capacity() * (size_of::<(TopicName, TopicId)>() + 1);
        names + state.rings.iter().map(Ring::bytes).sum::<usize>()
    }
}

impl Window {
    fn step(&self, at_ms: u64) -> Option<usize> {
        let step = at_ms.checked_sub(self.from_ms)? / self.step_ms;
        usize::try_from(step).ok().filter(|step| *step < self.steps)
    }
}

impl State {
    /// The finest ring that still has the steps from this time on; `since_ms` is when this daemon began.
    fn ring_for(&self, from_ms: u64, now_ms: u64, since_ms: u64, by_topic: bool) -> usize {
        let is_past = from_ms < since_ms && self.past_from_ms.is_some();
        let reaches = |ring: &Ring| {
            let has_detail = !by_topic || ring.dropped_before * ring.step_ms <= from_ms;
            let has_past = !is_past || ring.step_ms == MINUTE;
            now_ms.saturating_sub(from_ms) <= ring.reach_ms() && has_detail && has_past
        };
        self.rings.iter().position(reaches).unwrap_or(self.rings.len() - 1)
    }

    /// The id of a topic; `None` if there are too many.
    fn id(&mut self, name: &TopicName) -> Option<TopicId> {
        if let Some(id) = self.ids.get(name) {
            return Some(*id);
        }
        if self.ids.len() == TOPICS_MAX && self.free.is_empty() {
            self.forget_unused();
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.ids.len() < TOPICS_MAX => self.ids.len() as TopicId,
            None => return None,
        };
        self.ids.insert(name.clone(), id);
        Some(id)
    }

    /// Frees the ids of topics without steps.
    fn forget_unused(&mut self) {
        let mut used = HashSet::new();
        for ring in &self.rings {
            ring.topics(0, |_, id, _| {
                used.insert(id);
            });
        }
        let free = &mut self.free;
        self.ids.retain(|_, id| {
            let is_used = used.contains(id);
            if !is_used {
                free.push(*id);
            }
            is_used
        });
    }
}

#[cfg(test)]
mod tests;
