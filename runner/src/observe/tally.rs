//! Counts a topic's attempts by outcome, failure class, lateness and run time. The difference of two tallies is what
//! happened in between.

use std::sync::atomic::Ordering;
use std::time::Duration;

use duebox_job::{Durations, FailureClass};
use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::counters::{Counters, Fate, LATE, RAN};

/// Buckets of a histogram: one for each bound, and one for longer durations.
pub const BUCKETS: usize = LATE.len() + 1;

const ACKED: usize = 0;
const SNOOZED: usize = 1;
const DEAD: usize = 2;
const LATE_FROM: usize = 3;
const RAN_FROM: usize = LATE_FROM + BUCKETS;
/// The classes stand last, so that a new class moves no other count.
const CLASSES_FROM: usize = RAN_FROM + BUCKETS;

/// The number of counts.
pub const COUNTS: usize = CLASSES_FROM + FailureClass::ALL.len();

/// Counts of attempts. In JSON, pairs of a count's index and its value; counts of zero are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally([u32; COUNTS]);

impl Default for Tally {
    fn default() -> Self {
        Self([0; COUNTS])
    }
}

impl Tally {
    /// The counts of a topic's workers since their start. They wrap, so that only differences are exact.
    pub fn of(counters: &Counters) -> Self {
        let mut tally = Self::default();
        let read = |count: u64| count as u32;
        tally.0[ACKED] = read(counters.acked.load(Ordering::Relaxed));
        tally.0[SNOOZED] = read(counters.snoozed.load(Ordering::Relaxed));
        tally.0[DEAD] = read(counters.all_failures(Fate::Dead));
        for class in FailureClass::ALL {
            let failed: u64 = Fate::ALL.iter().map(|fate| counters.failures(*fate, class)).sum();
            tally.0[CLASSES_FROM + class as usize] = read(failed);
        }
        let mut fill = |from: usize, durations: &Durations| {
            for (at, (_, count)) in durations.counted().buckets.iter().enumerate() {
                tally.0[from + at] = read(*count);
            }
        };
        fill(LATE_FROM, &counters.late);
        fill(RAN_FROM, &counters.ran);
        tally
    }

    /// What happened since `before`; all of it if the counts began anew.
    pub fn since(&self, before: &Self) -> Self {
        let is_new = self.0.iter().zip(&before.0).any(|(now, then)| {
            // A count that wrapped is far below the one before.
            now < then && then - now < u32::MAX / 2
        });
        if is_new {
            return *self;
        }
        let mut since = *self;
        since.0.iter_mut().zip(&before.0).for_each(|(now, then)| *now = now.wrapping_sub(*then));
        since
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
    }

    /// The counts that are not zero, by index.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, u32)> {
        self.0.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// Adds to the count with this index; an unknown one, of another version, is ignored.
    pub fn add(&mut self, index: usize, count: u32) {
        if let Some(sum) = self.0.get_mut(index) {
            *sum = sum.saturating_add(count);
        }
    }

    /// True if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|count| *count == 0)
    }

    /// Acked attempts.
    pub fn acked(&self) -> u32 {
        self.0[ACKED]
    }

    /// Snoozed attempts.
    pub fn snoozed(&self) -> u32 {
        self.0[SNOOZED]
    }

    /// Jobs that became dead.
    pub fn dead(&self) -> u32 {
        self.0[DEAD]
    }

    /// Failures of one class.
    pub fn of_class(&self, class: FailureClass) -> u32 {
        self.0[CLASSES_FROM + class as usize]
    }

    /// Failures of any class.
    pub fn failed(&self) -> u32 {
        self.0[CLASSES_FROM..].iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Attempts of any outcome.
    pub fn attempts(&self) -> u32 {
        self.acked().saturating_add(self.snoozed()).saturating_add(self.failed())
    }

    /// The started attempts by lateness: a count for each bound of [`LATE`], and one for what is longer.
    pub fn late_counts(&self) -> &[u32] {
        &self.0[LATE_FROM..RAN_FROM]
    }

    /// The attempts by run time: a count for each bound of [`RAN`], and one for what is longer.
    pub fn ran_counts(&self) -> &[u32] {
        &self.0[RAN_FROM..CLASSES_FROM]
    }

    /// The lateness that this share of the started attempts did not exceed, in ms.
    pub fn late_ms(&self, share: f64) -> Option<f64> {
        quantile(self.late_counts(), &LATE, share)
    }

    /// The run time that this share of the attempts did not exceed, in ms.
    pub fn ran_ms(&self, share: f64) -> Option<f64> {
        quantile(self.ran_counts(), &RAN, share)
    }
}

/// A quantile of a histogram in ms, interpolated in its bucket; the last bound for what is longer.
fn quantile(counts: &[u32], bounds: &[Duration], share: f64) -> Option<f64> {
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    if total == 0 {
        return None;
    }
    let wanted = share * total as f64;
    let mut below = 0.0;
    let mut lower = 0.0;
    for (count, bound) in counts.iter().zip(bounds) {
        let (count, upper) = (f64::from(*count), bound.as_secs_f64() * 1_000.0);
        if count > 0.0 && below + count >= wanted {
            return Some(lower + (upper - lower) * (wanted - below) / count);
        }
        below += count;
        lower = upper;
    }
    Some(lower)
}

impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.pairs())
    }
}

impl<'de> Deserialize<'de> for Tally {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut tally = Self::default();
        for (index, count) in Vec::<(usize, u32)>::deserialize(from)? {
            tally.add(index, count);
        }
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use duebox_queue::Settled;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_difference_of_two_tallies_is_what_happened_in_between() {
        let counters = Counters::default();
        counters.count_settled(Settled::Done, None);
        counters.late.add(MS);
        let before = Tally::of(&counters);
        counters.count_settled(Settled::Dead, Some(FailureClass::Trap));
        counters.count_settled(Settled::Retry, Some(FailureClass::Trap));
        counters.count_settled(Settled::Snoozed, None);
        counters.ran.add(20 * MS);
        let since = Tally::of(&counters).since(&before);
        assert_eq!((since.acked(), since.snoozed(), since.dead()), (0, 1, 1));
        assert_eq!(
            (since.of_class(FailureClass::Trap), since.failed(), since.attempts()),
            (2, 2, 3)
        );
        assert_eq!((since.late_ms(0.5), since.ran_ms(1.0)), (None, Some(25.0)));
        // The counters of a topic that was removed and came back begin at 0.
        assert_eq!(before.since(&Tally::of(&counters)), before);
        let mut sum = before;
        sum.merge(&since);
        assert_eq!(sum, Tally::of(&counters));
    }

    #[test]
    fn both_histograms_have_as_many_buckets_and_no_count_has_two_meanings() {
        assert_eq!(LATE.len(), RAN.len());
        let mut tally = Tally::default();
        for index in 0..COUNTS {
            tally.add(index, index as u32 + 1);
        }
        tally.add(COUNTS + 5, 1);
        assert_eq!((tally.acked(), tally.snoozed(), tally.dead()), (1, 2, 3));
        assert_eq!(tally.of_class(FailureClass::Nack), CLASSES_FROM as u32 + 1);
        let json = serde_json::to_string(&tally).unwrap();
        assert_eq!(serde_json::from_str::<Tally>(&json).unwrap(), tally);
        assert_eq!(serde_json::to_string(&Tally::default()).unwrap(), "[]");
    }

    #[test]
    fn a_quantile_lies_in_the_bucket_of_its_value() {
        let mut tally = Tally::default();
        tally.add(LATE_FROM, 50);
        tally.add(LATE_FROM + 11, 50);
        assert_eq!(tally.late_ms(0.25), Some(0.25));
        assert_eq!(tally.late_ms(0.75), Some(750.0));
        tally.add(LATE_FROM + 17, 1_000);
        assert_eq!(tally.late_ms(0.99), Some(3_600_000.0));
    }
}
