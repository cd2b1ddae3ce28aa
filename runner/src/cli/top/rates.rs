//! Attempts per second of each topic and the failed part of them, from the reports of the daemons. A rate is a
//! mean over the time between two reports: one to ten seconds.

use std::collections::BTreeMap;

use crate::report::status::Status;

/// The last report of each daemon on each topic.
#[derive(Default)]
pub(super) struct Rates {
    /// By runner and topic.
    samples: BTreeMap<(String, String), RateSample>,
}

/// A report: its time by the runner's clock, the attempts until then, and the rates since the report before.
struct RateSample {
    at_ms: u64,
    attempts: u64,
    failed: u64,
    rate: Rate,
}

/// Attempts per second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rate {
    /// All attempts.
    pub(super) attempts: f64,
    /// Failed ones.
    pub(super) failed: f64,
}

impl Rate {
    /// The failed part, 0 to 1; `None` without attempts.
    pub(super) fn failed_part(self) -> Option<f64> {
        (self.attempts > 0.0).then(|| self.failed / self.attempts)
    }
}

impl Rates {
    /// Takes the current reports; daemons that are gone are forgotten.
    pub(super) fn saw(&mut self, runners: &[Status]) {
        let mut before = std::mem::take(&mut self.samples);
        for runner in runners {
            for (topic, (attempts, failed)) in totals(runner) {
                let key = (runner.runner.clone(), topic.to_owned());
                let (at_ms, rate) = (runner.told_at_ms, Rate::default());
                let mut sample = RateSample { at_ms, attempts, failed, rate };
                match before.remove(&key) {
                    Some(known) if known.at_ms >= at_ms => sample = known,
                    Some(known) => sample.rate = sample.since(&known),
                    None => {}
                }
                self.samples.insert(key, sample);
            }
        }
    }

    /// The rates of a topic, over all daemons.
    pub(super) fn of(&self, topic: &str) -> Rate {
        let own = self.samples.iter().filter(|((_, name), _)| name == topic);
        own.fold(Rate::default(), |sum, (_, sample)| Rate {
            attempts: sum.attempts + sample.rate.attempts,
            failed: sum.failed + sample.rate.failed,
        })
    }
}

/// The attempts and failures of each topic of a daemon: those of its handlers and of pull consumers.
fn totals(runner: &Status) -> BTreeMap<&str, (u64, u64)> {
    let served = runner.topics.iter().map(|topic| {
        let total = &topic.total;
        (topic.topic.as_str(), (total.attempts, total.failed))
    });
    let pulled = runner
        .pulled
        .iter()
        .map(|topic| (topic.topic.as_str(), (topic.attempts(), u64::from(topic.tally.failed()))));
    let mut totals: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (topic, (attempts, failed)) in served.chain(pulled) {
        let sums = totals.entry(topic).or_default();
        *sums = (sums.0.saturating_add(attempts), sums.1.saturating_add(failed));
    }
    totals
}

impl RateSample {
    fn since(&self, known: &Self) -> Rate {
        let seconds = (self.at_ms - known.at_ms) as f64 / 1_000.0;
        Rate {
            attempts: self.attempts.saturating_sub(known.attempts) as f64 / seconds,
            failed: self.failed.saturating_sub(known.failed) as f64 / seconds,
        }
    }
}
