//! The recent lateness of topics: the 99th percentile of the attempts that started in the last 30 to 60
//! seconds.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use duebox_job::CountedDurations;

use super::status::{TopicStatus, Watched};

/// How long a base of comparison stays the newer one.
const SPAN: Duration = Duration::from_secs(30);

/// The counts of each bucket, by topic, at an earlier moment.
type Base = HashMap<String, Vec<u64>>;

/// What the recent attempts are compared with. At first these are all attempts since the start.
pub(super) struct RecentLateness {
    older: Base,
    newer: Base,
    rotated_at: Instant,
}

impl RecentLateness {
    pub(super) fn new(now: Instant) -> Self {
        Self { older: Base::new(), newer: Base::new(), rotated_at: now }
    }

    /// The recent lateness of a topic, whose counts so far these are: the upper bound of its bucket. `None`
    /// if no attempt has started recently.
    pub(super) fn p99(&self, topic: &str, counted: &CountedDurations) -> Option<Duration> {
        let base = self.older.get(topic);
        let before = |at: usize| base.and_then(|base| base.get(at)).copied().unwrap_or(0);
        let buckets = counted.buckets.iter().enumerate();
        let recent: Vec<u64> =
            buckets.map(|(at, (_, count))| count.saturating_sub(before(at))).collect();
        let total: u64 = recent.iter().sum();
        let mut left = total - total / 100;
        if total == 0 {
            return None;
        }
        let at = recent.iter().position(|count| {
            left = left.saturating_sub(*count);
            left == 0
        })?;
        counted.buckets[..=at].iter().rev().find_map(|(bound, _)| *bound)
    }

    /// Fills in how late the recent attempts of these topics started.
    pub(super) fn fill(&self, reports: &mut [TopicStatus], topics: &[Watched]) {
        for (report, topic) in reports.iter_mut().zip(topics) {
            let p99 = topic.lateness().and_then(|(name, late)| self.p99(name, &late));
            report.late_p99_ms = p99.map(|p99| p99.as_micros() as f64 / 1_000.0);
        }
    }

    /// Takes the counts of all topics, if it is time for a new base.
    pub(super) fn rotate<'t>(
        &mut self,
        now: Instant,
        topics: impl Iterator<Item = (&'t str, CountedDurations)>,
    ) {
        if now.saturating_duration_since(self.rotated_at) < SPAN {
            return;
        }
        let counts = |counted: CountedDurations| counted.buckets.iter().map(|(_, n)| *n).collect();
        let current = topics.map(|(topic, counted)| (topic.to_owned(), counts(counted))).collect();
        self.older = std::mem::replace(&mut self.newer, current);
        self.rotated_at = now;
    }
}

#[cfg(test)]
mod tests {
    use duebox_job::Durations;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    static BOUNDS: [Duration; 3] = [MS, Duration::from_millis(10), Duration::from_millis(100)];

    #[test]
    fn one_in_a_hundred_is_later() {
        let (late, recent) = (Durations::new(&BOUNDS), RecentLateness::new(Instant::now()));
        assert_eq!(recent.p99("mail", &late.counted()), None);
        for _ in 0..99 {
            late.add(MS / 2);
        }
        late.add(MS * 50);
        assert_eq!(recent.p99("mail", &late.counted()), Some(MS));
        late.add(MS * 50);
        assert_eq!(recent.p99("mail", &late.counted()), Some(MS * 100));
        let later = Durations::new(&BOUNDS);
        later.add(MS * 5_000);
        assert_eq!(recent.p99("mail", &later.counted()), Some(MS * 100), "the last bound");
    }

    #[test]
    fn attempts_count_for_half_a_minute_to_a_minute() {
        let start = Instant::now();
        let (late, mut recent) = (Durations::new(&BOUNDS), RecentLateness::new(start));
        late.add(MS * 50);
        let p99 = |recent: &RecentLateness, late: &Durations| recent.p99("mail", &late.counted());
        let rotate = |recent: &mut RecentLateness, seconds| {
            let now = start + Duration::from_secs(seconds);
            recent.rotate(now, [("mail", late.counted())].into_iter());
        };
        rotate(&mut recent, 29);
        rotate(&mut recent, 30);
        assert_eq!(p99(&recent, &late), Some(MS * 100));
        rotate(&mut recent, 60);
        assert_eq!(p99(&recent, &late), None);
        late.add(MS);
        assert_eq!(p99(&recent, &late), Some(MS));
    }
}
