//! What pull consumers do over HTTP on this process: who pulls, what came of the jobs, and why some failed. Only
//! topics of the manifest and of its patterns occur, so their number is bounded.

use std::collections::BTreeMap;

use duebox_job::{Failure, FailureClass, JobId, Outcome, TopicName};
use duebox_queue::Settled;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::attempt_record::AttemptRecord;
use super::counters::Counters;
use super::failure_reasons::{FailureReason, FailureReasons};
use super::tally::Tally;

/// Consumers kept of a topic; of more the one that was silent the longest is forgotten.
const CONSUMERS_MAX: usize = 16;
/// Topics in a report, and reasons of each.
const REPORTED_MAX: usize = 200;
const REASONS_MAX: usize = 4;

/// Counts since the start.
#[derive(Default)]
pub struct PullCounters(Mutex<BTreeMap<TopicName, PulledTopic>>);

/// The labels of a count: the verdict, and the class of the failure.
pub type Label = (&'static str, &'static str);

/// What is counted of one topic.
#[derive(Default)]
struct PulledTopic {
    verdicts: BTreeMap<Label, u64>,
    counters: Counters,
    reasons: FailureReasons,
    consumers: Vec<PullingConsumer>,
}

/// A consumer that pulls jobs of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PullingConsumer {
    /// Its name.
    pub name: String,
    /// The jobs it has been given.
    pub leased: u64,
    /// When it pulled last, unix ms.
    pub last_ms: u64,
}

/// What pull consumers did with the jobs of a topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PulledStatus {
    /// The topic.
    pub topic: String,
    /// The attempts they settled.
    #[serde(default)]
    pub tally: Tally,
    /// Why attempts failed, the most recent first; at most 4 reasons.
    #[serde(default)]
    pub failures: Vec<FailureReason>,
    /// The consumers, the most recent first; at most 16.
    #[serde(default)]
    pub consumers: Vec<PullingConsumer>,
}

impl PullCounters {
    /// Counts jobs that a consumer was given; 0 if it only asked.
    pub fn count_leased(&self, topic: &TopicName, consumer: &str, jobs: usize) {
        let mut topics = self.0.lock();
        topics.entry(topic.clone()).or_default().count_leased(consumer, jobs as u64, now_ms());
    }

    /// Counts a consumer's verdict, and the failure it reported. A lost verdict is not counted.
    pub fn count_settled(
        &self,
        topic: &TopicName,
        id: &JobId,
        settled: Settled,
        failure: Option<Failure>,
    ) {
        let verdict = match settled {
            Settled::Done => "ack",
            Settled::Retry => "retry",
            Settled::Dead => "dead",
            Settled::Discarded => "discard",
            Settled::Snoozed => "snooze",
            Settled::Released => "release",
            Settled::Cancelled | Settled::Superseded => "overtaken",
            Settled::Lost => return,
        };
        let has_failed = matches!(settled, Settled::Retry | Settled::Dead | Settled::Discarded);
        let failure = failure.filter(|_| has_failed);
        let class = failure.as_ref().map(|failure| failure.class);
        let mut topics = self.0.lock();
        let counted = topics.entry(topic.clone()).or_default();
        let label = (verdict, class.map_or("", FailureClass::name));
        *counted.verdicts.entry(label).or_default() += 1;
        counted.counters.count_settled(settled, class);
        if let Some(failure) = failure {
            let record = AttemptRecord::not_run(id.clone(), 0, Outcome::Failed(failure));
            counted.reasons.add(std::iter::once(&record));
        }
    }

    /// The counts of at most `topics` topics, sorted by name.
    pub fn all(&self, topics: usize) -> Vec<(String, Label, u64)> {
        let counts = self.0.lock();
        let of = |(topic, counted): (&TopicName, &PulledTopic)| {
            let name = topic.to_string();
            let verdicts = counted.verdicts.iter();
            verdicts.map(|(label, jobs)| (name.clone(), *label, *jobs)).collect::<Vec<_>>()
        };
        counts.iter().take(topics).flat_map(of).collect()
    }

    /// The attempts of each topic.
    pub fn tallies(&self) -> Vec<(TopicName, Tally)> {
        let counts = self.0.lock();
        counts.iter().map(|(name, counted)| (name.clone(), Tally::of(&counted.counters))).collect()
    }

    /// The report of at most 200 topics.
    pub fn report(&self) -> Vec<PulledStatus> {
        let counts = self.0.lock();
        counts.iter().take(REPORTED_MAX).map(|(name, counted)| counted.status(name)).collect()
    }
}

impl PulledStatus {
    /// The attempts that were settled.
    pub fn attempts(&self) -> u64 {
        u64::from(self.tally.attempts())
    }
}

impl PulledTopic {
    fn count_leased(&mut self, name: &str, jobs: u64, now_ms: u64) {
        let known = self.consumers.iter().position(|consumer| consumer.name == name);
        let mut consumer = match known {
            Some(at) => self.consumers.remove(at),
            None => PullingConsumer { name: name.to_owned(), leased: 0, last_ms: 0 },
        };
        consumer.leased = consumer.leased.saturating_add(jobs);
        consumer.last_ms = now_ms;
        // The most recent stands first.
        self.consumers.insert(0, consumer);
        self.consumers.truncate(CONSUMERS_MAX);
    }

    fn status(&self, name: &TopicName) -> PulledStatus {
        PulledStatus {
            topic: name.to_string(),
            tally: Tally::of(&self.counters),
            failures: self.reasons.latest(REASONS_MAX),
            consumers: self.consumers.clone(),
        }
    }
}

fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(class: FailureClass, reason: &str) -> Option<Failure> {
        Some(Failure { class, reason: reason.to_owned(), retry_after: None })
    }

    #[test]
    fn verdicts_are_counted_by_topic_and_class_unless_lost() {
        let (consumed, mail) = (PullCounters::default(), TopicName::new("mail").unwrap());
        let count_settled = |settled, failure| {
            consumed.count_settled(&mail, &JobId::from_redis("7"), settled, failure);
        };
        count_settled(Settled::Done, None);
        count_settled(Settled::Discarded, failed(FailureClass::Nack, "no address"));
        count_settled(Settled::Dead, failed(FailureClass::Drop, "no such order"));
        count_settled(Settled::Lost, None);
        let count = |verdict, class, jobs| ("mail".to_owned(), (verdict, class), jobs);
        assert_eq!(
            consumed.all(10),
            [count("ack", "", 1), count("dead", "drop", 1), count("discard", "nack", 1)]
        );
        assert_eq!(consumed.all(0), []);
        let report = consumed.report().remove(0);
        let tally = report.tally;
        assert_eq!((tally.acked(), tally.failed(), tally.dead()), (1, 2, 1));
        let reasons: Vec<&str> =
            report.failures.iter().map(|failure| failure.reason.as_str()).collect();
        assert!(reasons.contains(&"no address") && reasons.contains(&"no such order"));
        assert_eq!(consumed.tallies(), [(mail, tally)]);
    }

    #[test]
    fn the_latest_consumers_are_kept() {
        let mut pulled = PulledTopic::default();
        for number in 0..CONSUMERS_MAX + 4 {
            pulled.count_leased(&format!("worker-{number}"), 1, number as u64);
        }
        pulled.count_leased("worker-5", 2, 99);
        assert_eq!(pulled.consumers.len(), CONSUMERS_MAX);
        let first = &pulled.consumers[0];
        assert_eq!((first.name.as_str(), first.leased, first.last_ms), ("worker-5", 3, 99));
        assert!(pulled.consumers.iter().all(|consumer| consumer.name != "worker-0"));
    }
}
