//! What the rules of a topic promise: how many jobs of a key, how many jobs in all, and how many in a
//! span of time may run.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::time::Duration;

use duebox_job::JobId;
use duebox_queue::Limits;

use super::{Job, Life};

#[derive(Debug, Clone, Default)]
pub(super) struct Promises {
    pub(super) rules: Limits,
    /// Nothing was alive when the rules were made: none of what lives came under others.
    from_the_first: bool,
    /// When jobs were started under these rules, in µs.
    starts: Vec<f64>,
}

impl Promises {
    pub(super) fn configure(&mut self, rules: &Limits, idle: bool) {
        if self.rules != *rules {
            self.starts.clear();
            self.from_the_first = idle;
        }
        self.rules = rules.clone();
    }

    /// Jobs of one key run one at a time, or as many as the limits say; a job in retry counts, unless
    /// the order is relaxed.
    pub(super) fn turn_is_free(&self, lives: &BTreeMap<JobId, Life>, key: Option<&str>) {
        let (Some(key), Some(most)) = (key, self.rules.per_key) else { return };
        let most = most.get() as usize;
        let takes_turn = |life: &Life| {
            let running = life.running.as_ref().map(|(_, job, _)| job);
            let waiting = life.waiting.as_ref().filter(|job| job.has_turn);
            [running, waiting].into_iter().flatten().any(|job| job.key() == Some(key))
        };
        let taken = lives.values().filter(|life| takes_turn(life)).count();
        assert!(!self.from_the_first || taken < most, "{taken} jobs of {key} have its turns");
    }

    /// Of jobs of one key that were all due when they were pushed, the first that was pushed is next.
    pub(super) fn is_next(
        &self,
        lives: &BTreeMap<JobId, Life>,
        key: Option<&str>,
        arrived: Option<u64>,
    ) {
        let (Some(key), Some(arrived)) = (key, arrived) else { return };
        if self.rules.per_key != Some(NonZero::<u32>::MIN) {
            return;
        }
        let waiting = lives.values().filter_map(|life| life.waiting.as_ref());
        let before =
            |job: &&Job| job.key() == Some(key) && job.arrived.is_some_and(|a| a < arrived);
        let passed = waiting.filter(before).count();
        assert!(!self.from_the_first || passed == 0, "{passed} jobs of {key} came before");
    }

    /// Jobs may start at these times, after which so many run.
    pub(super) fn may_start(&mut self, at_us: &[f64], running: usize) {
        if at_us.is_empty() {
            return;
        }
        let most = self.rules.max_running;
        assert!(
            most.is_none_or(|most| running <= most.get() as usize),
            "{running} jobs run at once"
        );
        let Some(rate) = self.rules.rate else { return };
        self.starts.extend(at_us);
        let last = self.starts[self.starts.len() - 1];
        for (i, first) in self.starts.iter().enumerate() {
            let count = (self.starts.len() - i) as f64;
            let allowed = (last - first) / rate.interval_us()
                + f64::from(self.rules.burst.map_or(1, NonZero::get));
            assert!(count <= allowed + 1e-6, "{count} jobs started where {allowed} may");
        }
    }

    pub(super) fn put_back(&mut self, by: Duration) {
        self.starts.iter_mut().for_each(|start| *start -= by.as_micros() as f64);
    }
}
