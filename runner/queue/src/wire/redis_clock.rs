//! An estimate of the Redis clock. Redis decides which jobs are due. The estimate tells when to ask it, and
//! how late a job was, without assuming that two machines have the same time.
//!
//! Every reply with the Redis time is a sample: Redis read its clock after the request was sent and before the
//! reply arrived. There are two estimates:
//!
//! - The middle of the shortest round trip. Its error is at most half of that round trip plus the drift of the two clocks
//!   since then.
//! - The latest time that the clock may show, as if Redis had read it when the request was sent. It is ahead of the clock
//!   by the time that the fastest request took to reach Redis. The next request takes at least about as long: if it is sent
//!   when a job is due by this estimate, it arrives when the job is due or soon after. The time of the reply has no effect.

use std::time::{Duration, Instant};

/// The assumed drift between two clocks, in seconds per second; more than RFC 5905 assumes.
const DRIFT: f64 = 100e-6;

/// The tolerance beyond the known error before a sample means that the Redis clock was set.
const SLACK: Duration = Duration::from_millis(1);

/// The best samples so far.
#[derive(Debug, Default)]
pub struct RedisClock {
    middle: Option<Sample>,
    /// Half of its round trip.
    error: Duration,
    latest: Option<Sample>,
}

/// A time of Redis and the moment that it is taken for.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    redis_us: u64,
}

impl RedisClock {
    /// Records a sample: the reply to a request sent at `sent_at` arrived at `answered_at` and contained
    /// `redis_us`, in µs since the epoch.
    pub fn add_sample(&mut self, sent_at: Instant, answered_at: Instant, redis_us: u64) {
        let error = answered_at.saturating_duration_since(sent_at) / 2;
        let middle = Sample { at: sent_at + error, redis_us };
        if self.middle.is_none_or(|known| {
            let drift = known.drift(middle.at);
            // The difference exceeds both errors, so the Redis clock was set.
            let tolerance = error + self.error + drift + SLACK;
            let is_set = known.us_at(middle.at).abs_diff(redis_us) > tolerance.as_micros() as u64;
            error <= self.error + drift || is_set
        }) {
            (self.middle, self.error) = (Some(middle), error);
        }
        if self.latest.is_none_or(|known| {
            let drift_us = known.drift(sent_at).as_micros() as u64;
            // The request was as fast as the best one, or the Redis clock was set back.
            let is_fast = redis_us <= known.us_at(sent_at).saturating_add(drift_us);
            // The Redis clock was set forward, or is faster than this machine's.
            is_fast || redis_us > known.us_at(answered_at)
        }) {
            self.latest = Some(Sample { at: sent_at, redis_us });
        }
    }

    /// The Redis time at a moment, in µs since the epoch; `None` before the first sample.
    pub fn us_at(&self, when: Instant) -> Option<u64> {
        self.middle.map(|known| known.us_at(when))
    }

    /// The latest Redis time that is possible at a moment, in µs since the epoch; `None` before the first sample.
    pub fn latest_us_at(&self, when: Instant) -> Option<u64> {
        self.latest.map(|known| known.us_at(when))
    }

    /// When a request had to be sent to reach Redis at the start of the millisecond of `us`, a time of the Redis clock in µs
    /// before `when`. It is `when` before the first sample.
    pub fn start_of_ms(&self, us: u64, when: Instant) -> Instant {
        let latest_us = self.latest_us_at(when).unwrap_or_default();
        let gone = Duration::from_micros(latest_us.saturating_sub(us / 1_000 * 1_000));
        when.checked_sub(gone).unwrap_or(when)
    }

    /// How long `when` is after `due_ms`, in Unix ms of the Redis clock, at most. Zero before `due_ms`, and before
    /// the first sample.
    pub fn late(&self, due_ms: u64, when: Instant) -> Duration {
        let now_us = self.latest_us_at(when).unwrap_or_default();
        Duration::from_micros(now_us.saturating_sub(due_ms.saturating_mul(1_000)))
    }
}

impl Sample {
    fn us_at(&self, when: Instant) -> u64 {
        let after = when.saturating_duration_since(self.at).as_micros() as u64;
        let before = self.at.saturating_duration_since(when).as_micros() as u64;
        self.redis_us.saturating_add(after).saturating_sub(before)
    }

    /// How far the two clocks may have drifted since.
    fn drift(&self, when: Instant) -> Duration {
        when.saturating_duration_since(self.at).mul_f64(DRIFT)
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
    fn the_latest_time_follows_the_fastest_request() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        assert_eq!(clock.latest_us_at(start), None);
        // Redis reads its clock 50 ms after the first one was sent, then 1 ms, then 30 ms; the replies take 50, 99 and 1.
        clock.add_sample(start, start + 100 * MS, 1_050_000);
        assert_eq!(clock.latest_us_at(start), Some(1_050_000));
        clock.add_sample(start + 200 * MS, start + 300 * MS, 1_201_000);
        assert_eq!(clock.latest_us_at(start + 200 * MS), Some(1_201_000));
        clock.add_sample(start + 300 * MS, start + 331 * MS, 1_330_000);
        assert_eq!(clock.latest_us_at(start + 300 * MS), Some(1_301_000));
    }

    #[test]
    fn the_latest_time_is_never_behind() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        for n in 0..1_000 {
            let way = Duration::from_micros(fastrand::u64(10..500));
            let reply = Duration::from_micros(fastrand::u64(0..5_000));
            let read_after = n * 10 * MS + way;
            let read_us = 5_000_000 + read_after.as_micros() as u64;
            let answered_at = start + read_after + reply;
            clock.add_sample(start + n * 10 * MS, answered_at, read_us);
            let true_us = read_us + reply.as_micros() as u64;
            assert!(clock.latest_us_at(answered_at) >= Some(true_us), "after {n} samples");
        }
    }

    #[test]
    fn an_old_sample_is_replaced() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        clock.add_sample(start, start + 2 * MS, 1_000_000);
        // The clocks may have drifted by 360 ms.
        let later = start + Duration::from_secs(3_600);
        clock.add_sample(later, later + 100 * MS, 3_601_100_000);
        assert_eq!(clock.us_at(later + 50 * MS), Some(3_601_100_000));
        assert_eq!(clock.latest_us_at(later), Some(3_601_100_000));
    }

    #[test]
    fn a_changed_clock_is_followed_at_once() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        clock.add_sample(start, start + MS, 1_000_000);
        for (n, redis_us) in [(1, 9_000_000), (2, 2_000_000)] {
            let sent_at = start + n * 100 * MS;
            clock.add_sample(sent_at, sent_at + 10 * MS, redis_us);
            assert_eq!(clock.us_at(sent_at + 5 * MS), Some(redis_us));
            assert_eq!(clock.latest_us_at(sent_at), Some(redis_us));
        }
    }

    #[test]
    fn a_faster_clock_is_followed() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        // 500 ppm, the most by which Linux slews. A request takes 1 ms, and so does its reply.
        for n in 0..100 {
            let sent_at = start + n * 100 * MS;
            let sent_us = 1_000_000 + u64::from(n) * 100_050;
            clock.add_sample(sent_at, sent_at + 2 * MS, sent_us + 1_000);
            let behind_us = sent_us.saturating_sub(clock.latest_us_at(sent_at).unwrap());
            assert!(behind_us <= 1_000, "behind by {behind_us} µs after {n} samples");
        }
    }

    #[test]
    fn a_time_near_the_end_of_the_range_does_not_overflow() {
        let start = Instant::now();
        let mut clock = RedisClock::default();
        clock.add_sample(start, start, u64::MAX - 1);
        assert_eq!(clock.us_at(start + MS), Some(u64::MAX));
        assert_eq!(clock.latest_us_at(start + MS), Some(u64::MAX));
        clock.add_sample(start + MS, start + MS, 5_000_000);
        assert_eq!(clock.us_at(start + 2 * MS), Some(5_001_000));
        assert_eq!(clock.latest_us_at(start + 2 * MS), Some(5_001_000));
    }

    #[test]
    fn a_millisecond_starts_before_the_times_in_it() {
        let start = Instant::now() + 10 * MS;
        let mut clock = RedisClock::default();
        assert_eq!(clock.start_of_ms(2_500_700, start), start);
        clock.add_sample(start, start, 2_500_700);
        assert_eq!(clock.start_of_ms(2_500_700, start + 5 * MS) + MS * 7 / 10, start);
        assert_eq!(clock.start_of_ms(2_505_000, start + 5 * MS) + MS * 7 / 10, start + 5 * MS);
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
