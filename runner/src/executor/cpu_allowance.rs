//! How much time a topic may use on the interactive threads: 10 % of one thread, with a burst of 10 ms. With
//! a CPU quota of less than a core it is 10 % of the quota.
//! Beyond that its jobs run on the long-running threads, which topics share equally. A topic whose job
//! overruns its time slice starts no job on an interactive thread for one second. So topics that compute,
//! fail or run in masses leave the interactive threads to topics that need little.
//!
//! This is the virtual scheduling algorithm of ITU-T I.371: spending moves a point in time ahead.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A topic may use one part in so many of one thread's time.
const ONE_IN: u32 = 10;
/// What a topic may use at once after a long idle time.
const BURST: Duration = Duration::from_millis(10);
/// For how long a topic that overran its time slice starts nothing on interactive threads.
const PENALTY: Duration = Duration::from_secs(1);

/// What a topic has used lately.
#[derive(Debug, Default)]
pub(super) struct CpuAllowance {
    /// When all of it will be paid back.
    repaid_at: Mutex<Option<Instant>>,
}

impl CpuAllowance {
    /// Charges the topic.
    pub(super) fn spend(&self, now: Instant, time: Duration) {
        let mut repaid_at = self.repaid_at.lock();
        *repaid_at = Some(repaid_at.map_or(now, |at| at.max(now)) + time * ONE_IN);
    }

    /// A job overran its time slice on an interactive thread.
    pub(super) fn overrun(&self, now: Instant) {
        let mut repaid_at = self.repaid_at.lock();
        *repaid_at = repaid_at.max(Some(now + PENALTY + BURST * ONE_IN));
    }

    /// Whether the topic may start a job on an interactive thread.
    pub(super) fn has_left(&self, now: Instant) -> bool {
        let repaid_at = *self.repaid_at.lock();
        repaid_at.is_none_or(|at| at.saturating_duration_since(now) < BURST * ONE_IN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_time_is_always_available() {
        let (time, start) = (CpuAllowance::default(), Instant::now());
        for ms in 0..1_000 {
            let now = start + Duration::from_millis(10 * ms);
            assert!(time.has_left(now));
            time.spend(now, Duration::from_millis(1));
        }
    }

    #[test]
    fn spending_more_waits_until_it_is_repaid() {
        let (time, now) = (CpuAllowance::default(), Instant::now());
        time.spend(now, BURST - Duration::from_millis(1));
        assert!(time.has_left(now));
        time.spend(now, Duration::from_millis(2));
        assert!(!time.has_left(now));
        assert!(!time.has_left(now + Duration::from_millis(10)));
        assert!(time.has_left(now + Duration::from_millis(11)));
    }

    #[test]
    fn the_penalty_of_an_overrun_does_not_add_up() {
        let (time, now) = (CpuAllowance::default(), Instant::now());
        assert!(time.has_left(now));
        (0..100).for_each(|_| time.overrun(now));
        assert!(!time.has_left(now + PENALTY));
        assert!(time.has_left(now + PENALTY + Duration::from_millis(1)));
    }
}
