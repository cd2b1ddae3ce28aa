//! How much time a topic may use on the interactive threads: 10 % of one thread, with a burst of 10 ms. With
//! a CPU quota of less than a core it is 10 % of the quota.
//! Beyond that its jobs run on the long-running threads, which topics share equally. A topic whose job
//! overruns its time slice starts no job on an interactive thread for one second. So topics that compute,
//! fail or run in masses leave the interactive threads to topics that need little.
//!
//! If a slice is overrun again after that, the time doubles, up to 16 s. Nothing interrupts a bulk instruction: the first
//! job of each second would hold an interactive thread for the 20 ms in which it fills 32 MiB. A job that is acked within
//! a slice ends the doubling.
//!
//! The allowance is the virtual scheduling algorithm of ITU-T I.371: spending moves a point in time ahead.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A topic may use one part in so many of one thread's time.
const ONE_IN: u32 = 10;
/// What a topic may use at once after a long idle time.
const BURST: Duration = Duration::from_millis(10);
/// For how long a topic that overran its time slice starts nothing on interactive threads.
const PENALTY: Duration = Duration::from_secs(1);
/// How often the penalty doubles.
const DOUBLINGS_MAX: u32 = 4;

/// What a topic has used lately.
#[derive(Debug, Default)]
pub(super) struct CpuAllowance {
    usage: Mutex<Usage>,
    /// How many penalties followed each other without a job that was acked within its slice.
    overruns: AtomicU32,
}

#[derive(Debug, Default)]
struct Usage {
    /// When all that was spent will be paid back.
    repaid_at: Option<Instant>,
    penalty_ends: Option<Instant>,
}

impl CpuAllowance {
    /// Charges the topic.
    pub(super) fn spend(&self, now: Instant, time: Duration) {
        let repaid_at = &mut self.usage.lock().repaid_at;
        *repaid_at = Some(repaid_at.map_or(now, |at| at.max(now)) + time * ONE_IN);
    }

    /// A task overran its time slice on an interactive thread.
    pub(super) fn overrun(&self, now: Instant) {
        let mut usage = self.usage.lock();
        // Tasks that had started before the penalty count once.
        if !usage.is_penalized(now) {
            self.overruns.fetch_add(1, Ordering::Relaxed);
        }
        let doublings = self.overruns.load(Ordering::Relaxed).saturating_sub(1).min(DOUBLINGS_MAX);
        let until = now + PENALTY * 2_u32.pow(doublings);
        usage.penalty_ends = usage.penalty_ends.max(Some(until));
    }

    /// A job was acked within a time slice.
    pub(super) fn slice_sufficed(&self) {
        if self.overruns.load(Ordering::Relaxed) > 0 {
            self.overruns.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the topic may start a job on an interactive thread.
    pub(super) fn has_left(&self, now: Instant) -> bool {
        let usage = self.usage.lock();
        let owed = usage.repaid_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now));
        owed < BURST * ONE_IN && !usage.is_penalized(now)
    }
}

impl Usage {
    fn is_penalized(&self, now: Instant) -> bool {
        self.penalty_ends.is_some_and(|end| end > now)
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
        assert!(!time.has_left(now + PENALTY - Duration::from_millis(1)));
        assert!(time.has_left(now + PENALTY));
    }

    /// How long the topic starts nothing on interactive threads, in seconds.
    fn penalty(time: &CpuAllowance, now: Instant) -> Option<u64> {
        (0..100).find(|second| time.has_left(now + Duration::from_secs(*second)))
    }

    #[test]
    fn the_penalty_doubles_until_a_slice_suffices() {
        let (time, mut now) = (CpuAllowance::default(), Instant::now());
        for wanted in [1, 2, 4, 8, 16, 16, 16] {
            time.overrun(now);
            // Another one that had started before.
            time.overrun(now);
            assert_eq!(penalty(&time, now), Some(wanted));
            now += Duration::from_secs(wanted);
        }
        time.slice_sufficed();
        time.overrun(now);
        assert_eq!(penalty(&time, now), Some(1));
    }
}
