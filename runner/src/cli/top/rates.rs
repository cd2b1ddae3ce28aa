//! Jobs per second of each topic, from the reports of the daemons. They are renewed every ten
//! seconds, so a rate is a mean over ten seconds.

use std::collections::BTreeMap;

use crate::report::status::Status;

/// The last report of each daemon on each topic.
#[derive(Default)]
pub(super) struct Rates {
    /// By runner and topic.
    samples: BTreeMap<(String, String), RateSample>,
}

/// A report: its time by the runner's clock, the jobs until then, and the rate since the report before.
struct RateSample {
    at_ms: u64,
    jobs: u64,
    rate: f64,
}

impl Rates {
    /// Takes the current reports; daemons that are gone are forgotten.
    pub(super) fn saw(&mut self, runners: &[Status]) {
        let mut before = std::mem::take(&mut self.samples);
        for runner in runners {
            for topic in &runner.topics {
                let key = (runner.runner.clone(), topic.topic.clone());
                let (at_ms, jobs) = (runner.told_at_ms, topic.total.jobs);
                let sample = match before.remove(&key) {
                    None => RateSample { at_ms, jobs, rate: 0.0 },
                    Some(known) if known.at_ms >= at_ms => known,
                    Some(known) => {
                        let seconds = (at_ms - known.at_ms) as f64 / 1_000.0;
                        let rate = jobs.saturating_sub(known.jobs) as f64 / seconds;
                        RateSample { at_ms, jobs, rate }
                    }
                };
                self.samples.insert(key, sample);
            }
        }
    }

    /// Jobs per second of a topic, over all daemons.
    pub(super) fn of(&self, topic: &str) -> f64 {
        let own = self.samples.iter().filter(|((_, name), _)| name == topic);
        own.map(|(_, sample)| sample.rate).sum()
    }
}
