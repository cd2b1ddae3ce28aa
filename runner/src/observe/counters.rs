//! Counts of a topic's workers since their start, without a lock. Counts only grow. They are read for
//! metrics and for the log line at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use duebox_job::{Durations, FailureClass};
use duebox_queue::Settled;

/// Histogram bounds of the delay between due time and start, from 0.5 ms to 1 h.
pub const LATE: [Duration; 17] = [
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(3),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(3_600),
];

/// Histogram bounds of run times, from the shortest handlers to a long ttr.
pub const RAN: [Duration; 17] = [
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(3),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(300),
];

/// The counts of one topic in this process.
pub struct Counters {
    /// Leased jobs.
    pub leased: AtomicU64,
    /// Acked jobs.
    pub acked: AtomicU64,
    /// Snoozed jobs.
    pub snoozed: AtomicU64,
    /// Jobs that did not start within their ttl.
    pub expired: AtomicU64,
    /// Leases that were released without an attempt.
    pub released: AtomicU64,
    /// Jobs that were cancelled or superseded while they ran.
    pub overtaken: AtomicU64,
    /// Leases that were lost before their verdict.
    pub lost: AtomicU64,
    /// Expired leases, of any runner, that this one reclaimed.
    pub reclaimed: AtomicU64,
    /// Failures by fate of the job and by class.
    failures: [[AtomicU64; FailureClass::ALL.len()]; Fate::ALL.len()],
    /// How late attempts started.
    pub late: Durations,
    /// How long attempts ran.
    pub ran: Durations,
}

/// The fate of a failed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is retried.
    Retry,
    /// It is dead.
    Dead,
    /// It is discarded, as the topic's policy says.
    Discard,
}

impl Fate {
    /// Every fate.
    pub const ALL: [Self; 3] = [Self::Retry, Self::Dead, Self::Discard];

    /// Its word in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Dead => "dead",
            Self::Discard => "discard",
        }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            leased: AtomicU64::default(),
            acked: AtomicU64::default(),
            snoozed: AtomicU64::default(),
            expired: AtomicU64::default(),
            released: AtomicU64::default(),
            overtaken: AtomicU64::default(),
            lost: AtomicU64::default(),
            reclaimed: AtomicU64::default(),
            failures: Default::default(),
            late: Durations::new(&LATE),
            ran: Durations::new(&RAN),
        }
    }
}

impl Counters {
    /// Counts a settled job; `class` is the class of its failure, if it failed.
    pub fn count_settled(&self, settled: Settled, class: Option<FailureClass>) {
        let class_or_nack = class.unwrap_or(FailureClass::Nack);
        match settled {
            Settled::Retry => self.count_failed(Fate::Retry, class_or_nack, 1),
            Settled::Dead => self.count_failed(Fate::Dead, class_or_nack, 1),
            Settled::Discarded => self.count_failed(Fate::Discard, class_or_nack, 1),
            Settled::Done => add(&self.acked, 1),
            Settled::Snoozed => add(&self.snoozed, 1),
            Settled::Released => add(&self.released, 1),
            Settled::Superseded | Settled::Cancelled => add(&self.overtaken, 1),
            Settled::Lost => add(&self.lost, 1),
        }
    }

    /// Counts failed jobs.
    pub fn count_failed(&self, fate: Fate, class: FailureClass, jobs: usize) {
        add(&self.failures[fate as usize][class as usize], jobs);
    }

    /// The failures of a class with this fate.
    pub fn failures(&self, fate: Fate, class: FailureClass) -> u64 {
        read(&self.failures[fate as usize][class as usize])
    }

    /// All failures with this fate.
    pub fn all_failures(&self, fate: Fate) -> u64 {
        self.failures[fate as usize].iter().map(read).sum()
    }
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// Reads a counter.
pub fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_counted_once_and_under_its_class() {
        let counters = Counters::default();
        counters.count_settled(Settled::Done, None);
        counters.count_settled(Settled::Discarded, Some(FailureClass::Trap));
        counters.count_settled(Settled::Retry, Some(FailureClass::Timeout));
        counters.count_settled(Settled::Dead, None);
        counters.count_settled(Settled::Lost, Some(FailureClass::Trap));
        assert_eq!((read(&counters.acked), read(&counters.lost)), (1, 1));
        assert_eq!(counters.failures(Fate::Discard, FailureClass::Trap), 1);
        assert_eq!(counters.failures(Fate::Retry, FailureClass::Timeout), 1);
        assert_eq!(counters.failures(Fate::Dead, FailureClass::Nack), 1);
        let all: u64 = Fate::ALL.iter().map(|fate| counters.all_failures(*fate)).sum();
        assert_eq!(all, 3);
    }

    #[test]
    fn each_fate_and_class_has_a_counter() {
        let counters = Counters::default();
        for (at, fate) in Fate::ALL.into_iter().enumerate() {
            assert_eq!(fate as usize, at);
        }
        for (at, class) in FailureClass::ALL.into_iter().enumerate() {
            counters.count_failed(Fate::Dead, class, at + 1);
        }
        let classes = FailureClass::ALL.into_iter().enumerate();
        for (at, class) in classes {
            assert_eq!(counters.failures(Fate::Dead, class), at as u64 + 1, "{class}");
        }
    }
}
