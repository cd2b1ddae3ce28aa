//! How much of the quick threads a topic may have: a tenth of one thread's time, and a little at once. What a
//! topic needs beyond that it has on the slow threads, where all there is left is shared out by topic.
//! Whoever keeps a quick thread for as long as it may have it at all comes to none for a while. So topics that
//! compute, fail or run in masses leave the quick threads to those that need little.
//!
//! It is the virtual scheduling algorithm of ITU-T I.371: what was spent pushes a time to come away.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One part in so many of a thread's time.
const ONE_IN: u32 = 10;
/// What may be spent at once by a topic that has spent nothing for long.
const BURST: Duration = Duration::from_millis(10);
/// For how long a topic that has overstayed begins nothing on quick threads.
const PENALTY: Duration = Duration::from_secs(1);

/// What a topic has spent lately.
#[derive(Debug, Default)]
pub(super) struct CpuAllowance {
    /// When all of it will have been made good.
    repaid_at: Mutex<Option<Instant>>,
}

impl CpuAllowance {
    /// So much was spent until now.
    pub(super) fn spend(&self, now: Instant, time: Duration) {
        let mut repaid_at = self.repaid_at.lock().unwrap_or_else(PoisonError::into_inner);
        *repaid_at = Some(repaid_at.map_or(now, |at| at.max(now)) + time * ONE_IN);
    }

    /// A job had to be taken from its quick thread.
    pub(super) fn overrun(&self, now: Instant) {
        let mut repaid_at = self.repaid_at.lock().unwrap_or_else(PoisonError::into_inner);
        *repaid_at = repaid_at.max(Some(now + PENALTY + BURST * ONE_IN));
    }

    /// Whether more may be spent.
    pub(super) fn has_left(&self, now: Instant) -> bool {
        let repaid_at = *self.repaid_at.lock().unwrap_or_else(PoisonError::into_inner);
        repaid_at.is_none_or(|at| at.saturating_duration_since(now) < BURST * ONE_IN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_time_can_be_spent_for_ever() {
        let (time, start) = (CpuAllowance::default(), Instant::now());
        for ms in 0..1_000 {
            let now = start + Duration::from_millis(10 * ms);
            assert!(time.has_left(now));
            time.spend(now, Duration::from_millis(1));
        }
    }

    #[test]
    fn who_spends_more_waits_until_it_is_made_good() {
        let (time, now) = (CpuAllowance::default(), Instant::now());
        time.spend(now, BURST - Duration::from_millis(1));
        assert!(time.has_left(now));
        time.spend(now, Duration::from_millis(2));
        assert!(!time.has_left(now));
        assert!(!time.has_left(now + Duration::from_millis(10)));
        assert!(time.has_left(now + Duration::from_millis(11)));
    }

    #[test]
    fn who_overstays_is_away_for_a_while_and_not_for_longer_the_more_often() {
        let (time, now) = (CpuAllowance::default(), Instant::now());
        assert!(time.has_left(now));
        (0..100).for_each(|_| time.overrun(now));
        assert!(!time.has_left(now + PENALTY));
        assert!(time.has_left(now + PENALTY + Duration::from_millis(1)));
    }
}
