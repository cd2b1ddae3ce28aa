//! Samples the log lines of verdicts when stderr is too slow: failures are always logged, acks are sampled.
//! Without pressure every verdict is logged.

use std::time::{Duration, Instant};

use duebox_queue::Settled;

/// Under pressure, one ack in so many is logged.
const ACKS_ONE_IN: u64 = 64;
/// How often the number of omitted acks is logged.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Samples the verdicts of one worker.
#[derive(Debug, Default)]
pub struct AttemptSampler {
    acks: u64,
    left_out: u64,
    reported_at: Option<Instant>,
}

impl AttemptSampler {
    /// Whether to log a verdict; `is_pressed` is true while lines are dropped because stderr is too slow.
    pub fn should_log(&mut self, settled: Settled, is_pressed: bool) -> bool {
        if !is_pressed || settled != Settled::Done {
            return true;
        }
        self.acks += 1;
        let is_chosen = self.acks % ACKS_ONE_IN == 1;
        self.left_out += u64::from(!is_chosen);
        is_chosen
    }

    /// Takes the number of omitted acks to report, at most once a second.
    pub fn take_omitted(&mut self, now: Instant) -> Option<u64> {
        let is_early = self.reported_at.is_some_and(|at| now.duration_since(at) < REPORT_EVERY);
        if self.left_out == 0 || is_early {
            return None;
        }
        self.reported_at = Some(now);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_acks_are_sampled_and_only_under_pressure() {
        let mut sampler = AttemptSampler::default();
        assert!((0..1_000).all(|_| sampler.should_log(Settled::Done, false)));
        assert!(
            (0..1_000).all(|_| sampler.should_log(Settled::Retry, true)
                && sampler.should_log(Settled::Dead, true))
        );
        assert_eq!(sampler.take_omitted(Instant::now()), None);
        let said = (0..6_400).filter(|_| sampler.should_log(Settled::Done, true)).count();
        let now = Instant::now();
        assert_eq!((said, sampler.take_omitted(now)), (100, Some(6_300)));
        assert!(
            sampler.should_log(Settled::Done, true) && !sampler.should_log(Settled::Done, true)
        );
        assert_eq!(sampler.take_omitted(now), None, "it was just reported");
        assert_eq!(sampler.take_omitted(now + REPORT_EVERY), Some(1));
    }
}
