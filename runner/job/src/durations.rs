//! A histogram of durations that many threads fill without a lock. It reads no clock: callers
//! measure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A histogram. Counts and sum only grow; a reader may see a duration in one and not yet in the
/// other.
#[derive(Debug)]
pub struct Durations {
    bounds: &'static [Duration],
    /// One count for each bound, and one for longer durations.
    counts: Box<[AtomicU64]>,
    sum_ns: AtomicU64,
}

/// The counts so far.
#[derive(Debug, Clone, PartialEq)]
pub struct CountedDurations {
    /// The number of durations.
    pub count: u64,
    /// Their sum, up to 584 years.
    pub sum: Duration,
    /// For each bound the number of durations up to it and above the bound before; at last, without a
    /// bound, the longer ones.
    pub buckets: Vec<(Option<Duration>, u64)>,
}

impl Durations {
    /// An empty histogram with these bounds, which must rise.
    pub fn new(bounds: &'static [Duration]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum_ns: AtomicU64::new(0) }
    }

    /// Counts one duration.
    pub fn add(&self, duration: Duration) {
        let bucket = self.bounds.partition_point(|bound| *bound < duration);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The counts so far.
    pub fn counted(&self) -> CountedDurations {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        CountedDurations {
            count: buckets.iter().map(|(_, count)| count).sum(),
            sum: Duration::from_nanos(self.sum_ns.load(Ordering::Relaxed)),
            buckets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn each_is_counted_under_the_first_bound_that_it_does_not_pass() {
        static BOUNDS: [Duration; 3] = [MS, Duration::from_millis(3), Duration::from_millis(10)];
        let durations = Durations::new(&BOUNDS);
        for ms in [0, 1, 2, 3, 11, 5_000] {
            durations.add(ms * MS);
        }
        let counted = durations.counted();
        assert_eq!((counted.count, counted.sum), (6, 5_017 * MS));
        let expected = vec![(Some(MS), 2), (Some(3 * MS), 2), (Some(10 * MS), 0), (None, 2)];
        assert_eq!(counted.buckets, expected);
    }
}
