//! Counts of verdicts that pull consumers sent over HTTP to this process, for the metrics. Only topics of
//! the manifest and of its patterns occur, so their number is bounded.

use std::collections::BTreeMap;

use duebox_job::{FailureClass, TopicName};
use duebox_queue::Settled;
use parking_lot::Mutex;

/// Counts since the start.
#[derive(Debug, Default)]
pub struct PullCounters(Mutex<BTreeMap<TopicName, BTreeMap<Label, u64>>>);

/// The labels of a count: the verdict, and the class of the failure.
pub type Label = (&'static str, &'static str);

impl PullCounters {
    /// Counts a consumer's verdict, and the class of the failure it reported. A lost verdict is not
    /// counted.
    pub fn count_settled(&self, topic: &TopicName, settled: Settled, class: Option<FailureClass>) {
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
        let class = class.filter(|_| has_failed).map_or("", FailureClass::name);
        let mut counts = self.0.lock();
        *counts.entry(topic.clone()).or_default().entry((verdict, class)).or_default() += 1;
    }

    /// The counts of at most `topics` topics, sorted by name.
    pub fn all(&self, topics: usize) -> Vec<(String, Label, u64)> {
        let counts = self.0.lock();
        let of = |(topic, counts): (&TopicName, &BTreeMap<Label, u64>)| {
            let name = topic.to_string();
            counts.iter().map(|(label, jobs)| (name.clone(), *label, *jobs)).collect::<Vec<_>>()
        };
        counts.iter().take(topics).flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_counted_by_topic_and_class_unless_lost() {
        let (consumed, mail) = (PullCounters::default(), TopicName::new("mail").unwrap());
        consumed.count_settled(&mail, Settled::Done, None);
        consumed.count_settled(&mail, Settled::Discarded, Some(FailureClass::Nack));
        consumed.count_settled(&mail, Settled::Dead, Some(FailureClass::Drop));
        consumed.count_settled(&mail, Settled::Lost, None);
        let count = |verdict, class, jobs| ("mail".to_owned(), (verdict, class), jobs);
        assert_eq!(
            consumed.all(10),
            [count("ack", "", 1), count("dead", "drop", 1), count("discard", "nack", 1)]
        );
        assert_eq!(consumed.all(0), []);
    }
}
