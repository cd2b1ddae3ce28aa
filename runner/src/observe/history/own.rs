//! What this daemon did itself, in steps of one minute on their way to Redis, where daemons that start later find them.

use std::collections::{BTreeMap, HashMap, VecDeque};

use duebox_job::TopicName;

use super::MINUTE;
use super::published::{COUNTED, Counted, sum_field, topics_field, write_named};
use super::sample::Sample;

/// The steps of topics of a daemon in Redis, in bytes; the oldest ones are removed beyond it.
const TOPICS_MAX_BYTES: usize = 256 << 10;
/// The steps of a daemon in Redis: two days.
const STEPS_MAX: usize = 2_880;
/// Steps that wait while Redis does not answer; the oldest ones are lost beyond it.
const WAITING_MAX: usize = 60;
/// How many steps in which nothing ran are published together.
const IDLE_TOGETHER: usize = 5;

/// The steps that are not published, and what is known of those that are.
#[derive(Default)]
pub struct OwnSteps {
    open: Step,
    /// True if something is to be published now. What an idle daemon adds waits until [`IDLE_TOGETHER`] steps are over.
    has_news: bool,
    /// Steps that are over, as fields, the oldest first.
    waiting: VecDeque<Encoded>,
    /// Steps in Redis that are over: the minute and the bytes of its topics, the oldest first.
    stored: VecDeque<(u64, usize)>,
}

#[derive(Default)]
struct Step {
    minute: u64,
    total: Sample,
    topics: HashMap<TopicName, Sample>,
}

/// A step as it is published.
struct Encoded {
    minute: u64,
    sum: Vec<u8>,
    topics: Vec<u8>,
}

/// What is to be published.
#[derive(Debug)]
pub struct Publication {
    /// The fields to set.
    pub set: Vec<(String, Vec<u8>)>,
    /// The fields to remove.
    pub removed: Vec<String>,
    /// The steps that are over: the minute and the bytes of its topics.
    over: Vec<(u64, usize)>,
}

impl OwnSteps {
    /// Adds what happened now. Time never goes back.
    pub fn add(&mut self, now_ms: u64, topics: &[(TopicName, Sample)], total: &Sample) {
        let is_empty = topics.is_empty() && total.is_empty();
        let minute = now_ms / MINUTE;
        if minute > self.open.minute {
            let over = std::mem::replace(&mut self.open, Step { minute, ..Step::default() });
            if !over.total.is_empty() {
                self.waiting.push_back(over.encode());
                self.has_news |= !over.total.is_idle() || self.waiting.len() >= IDLE_TOGETHER;
            }
            if self.waiting.len() > WAITING_MAX {
                self.waiting.pop_front();
            }
        }
        if is_empty {
            return;
        }
        self.has_news |= !topics.is_empty() || !total.is_idle();
        self.open.total.merge(total);
        for (name, sample) in topics {
            self.open.total.tally.merge(&sample.tally);
            self.open.topics.entry(name.clone()).or_default().merge(sample);
        }
    }

    /// What is not published; `None` if there is nothing. `counted` are the counts that the steps add up to.
    pub fn publication(&mut self, counted: impl FnOnce() -> Counted) -> Option<Publication> {
        if !std::mem::take(&mut self.has_news) {
            return None;
        }
        let mut set = vec![(COUNTED.to_owned(), counted().write())];
        let mut add = |step: &Encoded| {
            set.push((sum_field(step.minute), step.sum.clone()));
            set.push((topics_field(step.minute), step.topics.clone()));
        };
        self.waiting.iter().for_each(&mut add);
        if !self.open.total.is_empty() {
            add(&self.open.encode());
        }
        let over: Vec<(u64, usize)> =
            self.waiting.iter().map(|step| (step.minute, step.topics.len())).collect();
        let removed = self.too_many(&over);
        Some(Publication { set, removed, over })
    }

    /// The fields to remove when these steps are added.
    fn too_many(&self, over: &[(u64, usize)]) -> Vec<String> {
        let all = || self.stored.iter().chain(over);
        let steps_over = all().count().saturating_sub(STEPS_MAX);
        let mut bytes: usize = all().map(|(_, bytes)| bytes).sum();
        let mut removed: Vec<String> =
            self.stored.iter().take(steps_over).map(|(minute, _)| sum_field(*minute)).collect();
        for (at, (minute, topics)) in self.stored.iter().enumerate() {
            if at >= steps_over && bytes <= TOPICS_MAX_BYTES {
                break;
            }
            bytes -= topics;
            if *topics > 0 {
                removed.push(topics_field(*minute));
            }
        }
        removed
    }

    /// Notes that a publication is in Redis.
    pub fn confirm(&mut self, publication: &Publication) {
        let last = publication.over.last().map_or(0, |(minute, _)| *minute);
        self.waiting.retain(|step| step.minute > last);
        if !publication.removed.is_empty() {
            for (minute, bytes) in &mut self.stored {
                if publication.removed.contains(&topics_field(*minute)) {
                    *bytes = 0;
                }
            }
        }
        self.stored.extend(&publication.over);
        while self.stored.len() > STEPS_MAX {
            self.stored.pop_front();
        }
    }

    /// Has the next publication hold all that may not be in Redis, idle steps too.
    pub fn publish_all(&mut self) {
        self.has_news |= !self.waiting.is_empty() || !self.open.total.is_empty();
    }
}

impl Step {
    fn encode(&self) -> Encoded {
        let (mut sum, mut topics) = (Vec::new(), Vec::new());
        self.total.write(&mut sum);
        let by_name: BTreeMap<&TopicName, &Sample> = self.topics.iter().collect();
        for (name, sample) in by_name {
            write_named(&mut topics, name, sample);
        }
        Encoded { minute: self.minute, sum, topics }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::history::published::PublishedHistory;
    use crate::observe::tally::Tally;

    const START: u64 = 30_000_000 * MINUTE;

    fn name(number: usize) -> TopicName {
        TopicName::new(&format!("topic-{number:04}")).unwrap()
    }

    fn acked(attempts: u32) -> Tally {
        let mut tally = Tally::default();
        tally.add(0, attempts);
        tally
    }

    fn counted() -> Counted {
        Counted {
            at_ms: START,
            tallies: vec![((name(1), false), acked(7)), ((name(2), true), acked(9))],
        }
    }

    #[test]
    fn what_is_published_reads_back_and_nothing_new_is_not_published() {
        let mut own = OwnSteps::default();
        own.add(START, &[(name(1), Sample::of(acked(3)))], &Sample::default());
        own.add(START + MINUTE, &[(name(1), Sample::of(acked(4)))], &Sample::default());
        let publication = own.publication(counted).unwrap();
        let read = PublishedHistory::read(&publication.set);
        assert_eq!(read.counted, Some(counted()));
        let attempts: Vec<(u64, u32)> = read
            .steps
            .iter()
            .map(|(minute, step)| (*minute, step.topics[0].1.tally.attempts()))
            .collect();
        assert_eq!(attempts, [(30_000_000, 3), (30_000_001, 4)]);
        own.publish_all();
        assert_eq!(own.publication(counted).unwrap().set.len(), 5);
        own.confirm(&publication);
        assert!(own.publication(counted).is_none());
        // The open minute is published again with what was added.
        own.add(START + MINUTE, &[(name(1), Sample::of(acked(1)))], &Sample::default());
        let again = PublishedHistory::read(&own.publication(counted).unwrap().set);
        assert_eq!(again.steps[&30_000_001].total.tally.attempts(), 5);
        // What cannot be read is left out.
        let odd = [
            ("s30000000".to_owned(), vec![9]),
            ("x".to_owned(), vec![]),
            ("ü".to_owned(), vec![1]),
        ];
        assert_eq!(PublishedHistory::read(&odd), PublishedHistory::default());
    }

    #[test]
    fn what_an_idle_daemon_adds_is_published_once_in_five_minutes() {
        let mut own = OwnSteps::default();
        let reply = Sample { redis_us: 80, is_counted: true, ..Sample::default() };
        for minute in 0..5 {
            own.add(START + minute * MINUTE, &[], &reply);
            own.add(START + (minute + 1) * MINUTE - 1, &[], &reply);
            assert!(own.publication(counted).is_none(), "minute {minute}");
        }
        own.publish_all();
        let early = PublishedHistory::read(&own.publication(counted).unwrap().set);
        assert_eq!(early.steps.len(), 5, "a daemon that stops publishes them earlier");
        own.add(START + 5 * MINUTE, &[], &reply);
        let publication = own.publication(counted).unwrap();
        own.confirm(&publication);
        let read = PublishedHistory::read(&publication.set);
        assert!((0..5).all(|minute| read.steps[&(30_000_000 + minute)].total.redis_us == 80));
        own.add(START + 5 * MINUTE + 1, &[], &Sample { is_away: true, ..Sample::default() });
        assert!(own.publication(counted).is_some(), "an outage is news");
        own.add(START + 6 * MINUTE, &[], &reply);
        assert!(own.publication(counted).is_some(), "the end of a step with news is news");
    }

    #[test]
    fn the_fields_in_redis_are_bounded() {
        let mut own = OwnSteps::default();
        let topics: Vec<(TopicName, Sample)> =
            (0..500).map(|number| (name(number), Sample::of(acked(1)))).collect();
        let mut fields: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for minute in 0..3_000 {
            own.add(START + minute * MINUTE, &topics, &Sample::default());
            if let Some(publication) = own.publication(counted) {
                fields.extend(publication.set.clone());
                publication.removed.iter().for_each(|name| drop(fields.remove(name)));
                own.confirm(&publication);
            }
        }
        let bytes = |first: char| -> usize {
            let some = fields.iter().filter(|(name, _)| name.starts_with(first));
            some.map(|(_, value)| value.len()).sum()
        };
        assert!(bytes('t') <= TOPICS_MAX_BYTES + (20 << 10), "{} bytes", bytes('t'));
        let sums = fields.keys().filter(|name| name.starts_with('s')).count();
        assert!((2_880..=2_882).contains(&sums), "{sums} steps");
    }
}
