//! How many jobs a worker leases ahead of those that run: what its lanes start within 20 ms, so that
//! they never stand still while a turn is under way, and a job that was leased starts soon.

use std::time::Duration;

use duebox_queue::BATCH_MAX;

/// How far ahead jobs are leased. With the turn that brings them, a job starts within about 50 ms.
const WINDOW: Duration = Duration::from_millis(20);
/// Jobs that are leased ahead at most: while a turn brings one batch, the lanes have another.
const AHEAD_MAX: usize = 2 * BATCH_MAX;
/// Payload bytes that a worker leases at once, so that large payloads do not fill the memory.
const BYTES_MAX: usize = 16 << 20;
/// The weight of the newest figure against those before.
const NEWEST: f64 = 0.3;

/// The pace of one topic's lanes, as it was seen lately.
#[derive(Debug, Default)]
pub struct Pace {
    jobs_per_second: f64,
    payload_bytes: f64,
}

impl Pace {
    /// `jobs` ended while the lanes were busy for `busy`.
    pub fn saw_ended(&mut self, jobs: usize, busy: Duration) {
        let seconds = busy.as_secs_f64();
        if jobs > 0 && seconds > 0.0 {
            self.jobs_per_second = blend(self.jobs_per_second, jobs as f64 / seconds);
        }
    }

    /// A job with a payload of this many bytes was leased.
    pub fn saw_payload(&mut self, bytes: usize) {
        self.payload_bytes += NEWEST / 10.0 * (bytes as f64 - self.payload_bytes);
    }

    /// The lanes stand still: lease nothing ahead until they move again.
    pub fn stalled(&mut self) {
        self.jobs_per_second = 0.0;
    }

    /// Jobs to lease ahead of those that run.
    pub fn ahead(&self) -> usize {
        let jobs = self.jobs_per_second * WINDOW.as_secs_f64();
        (jobs as usize).min(AHEAD_MAX)
    }

    /// Jobs that may be leased in one call, for the size of their payloads.
    pub fn call_max(&self) -> usize {
        let jobs = BYTES_MAX as f64 / self.payload_bytes.max(1.0);
        (jobs as usize).clamp(1, BATCH_MAX)
    }
}

fn blend(before: f64, newest: f64) -> f64 {
    if before == 0.0 { newest } else { before + NEWEST * (newest - before) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_jobs_are_not_leased_ahead() {
        let mut pace = Pace::default();
        assert_eq!(pace.ahead(), 0);
        pace.saw_ended(10, Duration::from_secs(1));
        assert_eq!(pace.ahead(), 0);
    }

    #[test]
    fn fast_ones_are_up_to_a_batch() {
        let mut pace = Pace::default();
        pace.saw_ended(100, Duration::from_millis(10));
        assert_eq!(pace.ahead(), 200);
        pace.saw_ended(1_000_000, Duration::from_millis(10));
        assert_eq!(pace.ahead(), AHEAD_MAX);
        pace.stalled();
        assert_eq!(pace.ahead(), 0);
    }

    #[test]
    fn large_payloads_come_in_small_calls() {
        let mut pace = Pace::default();
        assert_eq!(pace.call_max(), BATCH_MAX);
        (0..1_000).for_each(|_| pace.saw_payload(1 << 20));
        assert!((15..=17).contains(&pace.call_max()), "{}", pace.call_max());
    }
}
