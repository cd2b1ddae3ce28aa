//! How many jobs a second each topic runs, from what daemons say of themselves: they renew it every ten
//! seconds, so a rate is the mean of the last ten.

use std::collections::BTreeMap;

use crate::report::status::Status;

/// What was known of each topic of each daemon when it last said something new.
#[derive(Default)]
pub(super) struct Rates {
    /// By runner and topic: when it was told by the runner's clock, the jobs until then, and the rate before.
    told: BTreeMap<(String, String), Told>,
}

struct Told {
    at_ms: u64,
    jobs: u64,
    rate: f64,
}

impl Rates {
    /// Takes what daemons say now; those that are gone are forgotten.
    pub(super) fn saw(&mut self, runners: &[Status]) {
        let mut before = std::mem::take(&mut self.told);
        for runner in runners {
            for topic in &runner.topics {
                let key = (runner.runner.clone(), topic.topic.clone());
                let (at_ms, jobs) = (runner.told_at_ms, topic.total.jobs);
                let told = match before.remove(&key) {
                    None => Told { at_ms, jobs, rate: 0.0 },
                    Some(known) if known.at_ms >= at_ms => known,
                    Some(known) => {
                        let seconds = (at_ms - known.at_ms) as f64 / 1_000.0;
                        let rate = jobs.saturating_sub(known.jobs) as f64 / seconds;
                        Told { at_ms, jobs, rate }
                    }
                };
                self.told.insert(key, told);
            }
        }
    }

    /// Jobs a second of a topic, in all daemons.
    pub(super) fn of(&self, topic: &str) -> f64 {
        let own = self.told.iter().filter(|((_, name), _)| name == topic);
        own.map(|(_, told)| told.rate).sum()
    }
}
