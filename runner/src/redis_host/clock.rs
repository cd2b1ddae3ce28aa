//! Redis' clock, as this process sees it. Redis decides what is due; this says when to ask, and how
//! late a job was, without trusting that two machines agree on the time.
//!
//! Every answer that carries Redis' time is a sample: that time lies somewhere between the moments the
//! question left and the answer came. The sample of the quickest answer is kept, so what is known of
//! the offset is off by half of its round trip at most, and by the drift of two clocks since.

use std::time::{Duration, Instant};

/// How far two clocks drift apart in a second, at worst: beyond what RFC 5905 takes them for.
const DRIFT: f64 = 100e-6;

/// What a sample may be off beyond its round trip before it is taken for another clock.
const SLACK: Duration = Duration::from_millis(1);

/// The best of the samples seen.
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
    /// An answer that came at `answered_at` to a question sent at `sent_at` carried this time, in µs
    /// since the epoch.
    pub fn saw(&mut self, sent_at: Instant, answered_at: Instant, redis_us: u64) {
        let error = answered_at.saturating_duration_since(sent_at) / 2;
        let at = sent_at + error;
        let known = self.us_at(at).unwrap_or_default();
        let better = self.best.is_none_or(|best| {
            let drift = at.saturating_duration_since(best.at).mul_f64(DRIFT);
            // Further off than both can be wrong: somebody has set Redis' clock.
            let is_set =
                known.abs_diff(redis_us) > (error + best.error + drift + SLACK).as_micros() as u64;
            error <= best.error + drift || is_set
        });
        if better {
            self.best = Some(Sample { at, redis_us, error });
        }
    }

    /// Redis' time at a moment, in µs since the epoch; none before the first answer.
    pub fn us_at(&self, when: Instant) -> Option<u64> {
        let best = self.best?;
        let after = when.saturating_duration_since(best.at).as_micros() as u64;
        let before = best.at.saturating_duration_since(when).as_micros() as u64;
        Some((best.redis_us + after).saturating_sub(before))
    }

    /// How long after `due_ms`, in unix ms by Redis' clock, a moment was; zero before it, or if the
    /// clock is not known yet.
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
    fn the_quickest_answer_counts() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        assert_eq!(clock.us_at(start), None);
        clock.saw(start, start + 100 * MS, 1_000_000);
        assert_eq!(clock.us_at(start + 50 * MS), Some(1_000_000));
        clock.saw(start + 200 * MS, start + 202 * MS, 1_180_000);
        assert_eq!(clock.us_at(start + 201 * MS), Some(1_180_000));
        clock.saw(start + 300 * MS, start + 400 * MS, 1_300_000);
        assert_eq!(clock.us_at(start + 301 * MS), Some(1_280_000));
    }

    #[test]
    fn an_old_sample_gives_way() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        clock.saw(start, start + 2 * MS, 1_000_000);
        let later = start + Duration::from_secs(3_600);
        clock.saw(later, later + 100 * MS, 3_601_000_000);
        assert_eq!(clock.us_at(later + 50 * MS), Some(3_601_000_000));
    }

    #[test]
    fn a_clock_that_was_set_is_followed_at_once() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        clock.saw(start, start + MS, 1_000_000);
        clock.saw(start + 10 * MS, start + 20 * MS, 9_000_000);
        assert_eq!(clock.us_at(start + 15 * MS), Some(9_000_000));
    }

    #[test]
    fn late_is_never_negative() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        assert_eq!(clock.late(5, start), Duration::ZERO);
        clock.saw(start, start, 2_500_000);
        assert_eq!(clock.late(2_000, start), 500 * MS);
        assert_eq!(clock.late(3_000, start), Duration::ZERO);
    }
}
