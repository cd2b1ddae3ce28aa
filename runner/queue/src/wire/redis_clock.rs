//! An estimate of the Redis clock. Redis decides which jobs are due. The estimate tells when to ask it, and
//! how late a job was, without assuming that two machines have the same time.
//!
//! Every reply with the Redis time is a sample: the time lies between sending the request and receiving the
//! reply. The sample with the shortest round trip is kept. The error is at most half of that round trip plus
//! the drift of the two clocks since then.

use std::time::{Duration, Instant};

/// The assumed drift between two clocks, in seconds per second; more than RFC 5905 assumes.
const DRIFT: f64 = 100e-6;

/// The tolerance beyond the known error before a sample means that the Redis clock was set.
const SLACK: Duration = Duration::from_millis(1);

/// The best sample so far.
#[derive(Debug, Default)]
pub struct RedisClock {
    best: Option<Sample>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    redis_us: u64,
    error: Duration,
}

impl RedisClock {
    /// Records a sample: the reply to a request sent at `sent_at` arrived at `answered_at` and contained
    /// `redis_us`, in µs since the epoch.
    pub fn add_sample(&mut self, sent_at: Instant, answered_at: Instant, redis_us: u64) {
        let error = answered_at.saturating_duration_since(sent_at) / 2;
        let at = sent_at + error;
        let known = self.us_at(at).unwrap_or_default();
        let better = self.best.is_none_or(|best| {
            let drift = at.saturating_duration_since(best.at).mul_f64(DRIFT);
            // The difference exceeds both errors, so the Redis clock was set.
            let is_set =
                known.abs_diff(redis_us) > (error + best.error + drift + SLACK).as_micros() as u64;
            error <= best.error + drift || is_set
        });
        if better {
            self.best = Some(Sample { at, redis_us, error });
        }
    }

    /// The Redis time at a moment, in µs since the epoch; `None` before the first sample.
    pub fn us_at(&self, when: Instant) -> Option<u64> {
        let best = self.best?;
        let after = when.saturating_duration_since(best.at).as_micros() as u64;
        let before = best.at.saturating_duration_since(when).as_micros() as u64;
        Some(best.redis_us.saturating_add(after).saturating_sub(before))
    }

    /// How long `when` is after `due_ms`, in Unix ms of the Redis clock. Zero before `due_ms`, and before
    /// the first sample.
    pub fn late(&self, due_ms: u64, when: Instant) -> Duration {
        let now_us = self.us_at(when).unwrap_or_default();
        Duration::from_micros(now_us.saturating_sub(due_ms.saturating_mul(1_000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_sample_with_the_shortest_round_trip_is_kept() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        assert_eq!(clock.us_at(start), None);
        clock.add_sample(start, start + 100 * MS, 1_000_000);
        assert_eq!(clock.us_at(start + 50 * MS), Some(1_000_000));
        clock.add_sample(start + 200 * MS, start + 202 * MS, 1_180_000);
        assert_eq!(clock.us_at(start + 201 * MS), Some(1_180_000));
        clock.add_sample(start + 300 * MS, start + 400 * MS, 1_300_000);
        assert_eq!(clock.us_at(start + 301 * MS), Some(1_280_000));
    }

    #[test]
    fn an_old_sample_is_replaced() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        clock.add_sample(start, start + 2 * MS, 1_000_000);
        let later = start + Duration::from_secs(3_600);
        clock.add_sample(later, later + 100 * MS, 3_601_000_000);
        assert_eq!(clock.us_at(later + 50 * MS), Some(3_601_000_000));
    }

    #[test]
    fn a_changed_clock_is_followed_at_once() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        clock.add_sample(start, start + MS, 1_000_000);
        clock.add_sample(start + 10 * MS, start + 20 * MS, 9_000_000);
        assert_eq!(clock.us_at(start + 15 * MS), Some(9_000_000));
    }

    #[test]
    fn a_time_near_the_end_of_the_range_does_not_overflow() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        clock.add_sample(start, start, u64::MAX - 1);
        assert_eq!(clock.us_at(start + MS), Some(u64::MAX));
        clock.add_sample(start + MS, start + MS, 5_000_000);
        assert_eq!(clock.us_at(start + 2 * MS), Some(5_001_000));
    }

    #[test]
    fn late_is_never_negative() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        assert_eq!(clock.late(5, start), Duration::ZERO);
        clock.add_sample(start, start, 2_500_000);
        assert_eq!(clock.late(2_000, start), 500 * MS);
        assert_eq!(clock.late(3_000, start), Duration::ZERO);
    }
}
