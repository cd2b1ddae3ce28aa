//! The recent past of all topics in memory: attempts by outcome and class, lateness and run times, waiting jobs, and
//! Redis' round trips. Steps of one second reach back ten minutes, of ten seconds six hours, of one minute two days.
//!
//! The sums of all topics reach back that far always. The steps of single topics share a bounded number of bytes: with
//! hundreds of topics that are busy in every second their fine steps end earlier, and the next coarser ones are used.
//! A topic in which nothing happens takes no space. The memory is about 2 MB for 1,000 busy topics, at most.

mod ring;
mod sample;

use std::collections::{BTreeMap, HashMap, HashSet};

use duebox_job::TopicName;
use parking_lot::Mutex;

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
            state: Mutex::new(State { rings, ids: HashMap::new(), free: Vec::new() }),
        }
    }

    /// When it began.
    pub fn since_ms(&self) -> u64 {
        self.since_ms
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
        let at = state.ring_for(now_ms.saturating_sub(span_ms), now_ms, by_topic);
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
        let ring = &state.rings[state.ring_for(from_ms, now_ms, true)];
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
    /// The finest ring that still has the steps from this time on.
    fn ring_for(&self, from_ms: u64, now_ms: u64, by_topic: bool) -> usize {
        let reaches = |ring: &Ring| {
            let has_detail = !by_topic || ring.dropped_before * ring.step_ms <= from_ms;
            now_ms.saturating_sub(from_ms) <= ring.reach_ms() && has_detail
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
mod tests {
    use super::*;
    use crate::observe::tally::Tally;

    const START: u64 = 1_800_000_000_000;

    fn name(number: usize) -> TopicName {
        TopicName::new(&format!("topic-{number:04}")).unwrap()
    }

    /// Acked attempts, each with a lateness and a run time.
    fn acked(attempts: u32) -> Sample {
        let mut tally = Tally::default();
        for index in [0, 4, 24] {
            tally.add(index, attempts);
        }
        Sample::of(tally)
    }

    fn attempts(samples: &[Sample]) -> Vec<u32> {
        samples.iter().map(|sample| sample.tally.attempts()).collect()
    }

    #[test]
    fn each_resolution_has_what_happened_and_reaches_back_as_far_as_it_should() {
        let history = History::new(START);
        let total = Sample { redis_us: 200, ..Sample::default() };
        for second in 0..3 * 3_600 {
            let topics = [(name(1), acked(1)), (name(2), acked(2))];
            history.add(START + second * SECOND, &topics, &total);
        }
        let now = START + 3 * 3_600 * SECOND - 1;
        for (span, step) in [(600, 5), (3_600, 30), (3 * 3_600, 90)] {
            let window = history.window(now, span * SECOND, 120, true);
            assert_eq!((window.step_ms, window.steps), (step * SECOND, 120));
            let one = history.sum(window, |topic| *topic == name(1));
            assert_eq!(attempts(&one), vec![step as u32; 120], "{span} s");
            let all = history.total(window);
            assert_eq!(attempts(&all), vec![3 * step as u32; 120], "{span} s");
            assert_eq!(all[7].redis_us, 200);
            let by_topic = history.by_topic(window);
            assert_eq!(by_topic[&name(2)], vec![(2 * step as u32, 0); 120]);
        }
        let recent = history.recent(now);
        assert_eq!(recent[&name(2)].sample.tally.attempts(), 1_200);
        assert_eq!(recent[&name(2)].last.0, 20);
    }

    #[test]
    fn a_thousand_busy_topics_take_two_megabytes_and_their_sum_stays_exact() {
        let history = History::new(START);
        let topics: Vec<_> = (0..1_000).map(|number| (name(number), acked(3))).collect();
        for second in 0..1_200 {
            history.add(START + second * SECOND, &topics, &Sample::default());
        }
        let bytes = history.bytes();
        assert!(bytes <= 2 << 20, "{bytes} bytes");
        let now = START + 1_200 * SECOND - 1;
        let window = history.window(now, 600 * SECOND, 120, false);
        assert_eq!(attempts(&history.total(window)), vec![15_000; 120]);
        // The steps of a topic are coarser, but none is missing.
        let window = history.window(now, 600 * SECOND, 120, true);
        assert_eq!(window.step_ms, MINUTE);
        assert_eq!(attempts(&history.sum(window, |topic| *topic == name(7))), vec![180; 10]);
    }

    #[test]
    fn nothing_happening_costs_nothing_and_names_are_freed() {
        let history = History::new(START);
        for number in 0..TOPICS_MAX + 5 {
            history.add(START, &[(name(number), acked(1))], &Sample::default());
        }
        assert_eq!(history.state.lock().ids.len(), TOPICS_MAX);
        // Two days later none of them has steps.
        let later = START + 49 * 60 * MINUTE;
        for minute in 0..3 {
            history.add(later + minute * MINUTE, &[(name(9_999), acked(1))], &Sample::default());
        }
        let window = history.window(later + 2 * MINUTE, 600 * SECOND, 600, true);
        let seen = history.sum(window, |topic| *topic == name(9_999));
        assert_eq!(attempts(&seen).iter().sum::<u32>(), 3);
        assert_eq!(history.state.lock().ids.len(), 1);
        assert!(history.bytes() < 200 << 10, "{} bytes", history.bytes());
    }

    #[test]
    fn waiting_jobs_of_topics_add_up_and_time_never_goes_back() {
        let history = History::new(START);
        let waiting = |waiting| Sample { waiting, ..Sample::default() };
        let counted = Sample { waiting: 7, is_counted: true, ..Sample::default() };
        history.add(START, &[(name(1), waiting(3)), (name(2), waiting(4))], &counted);
        history.add(START - MINUTE, &[(name(1), acked(1))], &Sample::default());
        let window = history.window(START, 10 * SECOND, 10, true);
        let sum = history.sum(window, |_| true);
        assert_eq!((sum[9].waiting, sum[9].is_counted, sum[9].tally.attempts()), (7, true, 1));
        assert_eq!(history.total(window)[9].waiting, 7);
        assert!(sum[8].is_empty());
    }
}
