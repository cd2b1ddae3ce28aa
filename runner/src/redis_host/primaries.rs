//! Which primaries of a cluster are away: one log line when one goes and one when it is back or replaced, however many
//! calls fail meanwhile, and a count for each.

use std::collections::BTreeMap;
use std::time::Instant;

use duebox_queue::PrimaryAway;
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::monotonic;

/// The most primaries that are counted: a cluster has at most 1,000 servers.
const COUNTED_MAX: usize = 1_000;

/// The primaries of the cluster, shared by the loop that watches them and the metrics.
#[derive(Default)]
pub struct PrimaryOutages(Mutex<BTreeMap<String, Primary>>);

/// What is known of a primary.
#[derive(Debug, Default, Clone)]
struct Primary {
    away_since: Option<Instant>,
    outages: u64,
    /// It has slots.
    serves: bool,
}

/// A primary as the metrics show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryReport {
    /// Its address.
    pub address: String,
    /// It has slots, and a connection.
    pub is_up: bool,
    /// How often its connection was lost and could not be made again at once.
    pub outages: u64,
}

impl PrimaryOutages {
    /// Records the primaries of the cluster, and those of them that are away.
    pub fn record(&self, primaries: &[String], away: &[PrimaryAway]) {
        let mut known = self.0.lock();
        known.values_mut().for_each(|primary| primary.serves = false);
        for address in primaries {
            if known.len() < COUNTED_MAX || known.contains_key(address) {
                known.entry(address.clone()).or_default().serves = true;
            }
        }
        for (address, primary) in known.iter_mut() {
            let failure = away.iter().find(|away| away.address == *address);
            match (failure, primary.away_since) {
                (Some(PrimaryAway { reason, .. }), None) => {
                    primary.away_since = Some(monotonic::now());
                    primary.outages += 1;
                    warn!(primary = %address, error = %reason,
                        "a primary of the cluster is away; the jobs of its topics wait");
                }
                (None, Some(since)) => {
                    primary.away_since = None;
                    let outage_ms = (monotonic::now() - since).as_millis() as u64;
                    match primary.serves {
                        true => {
                            info!(primary = %address, outage_ms, "a primary of the cluster is back")
                        }
                        false => info!(primary = %address, outage_ms,
                            "a primary of the cluster was away and has been replaced"),
                    }
                }
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
    }

    /// All primaries that have been seen.
    pub fn all(&self) -> Vec<PrimaryReport> {
        let known = self.0.lock();
        let report = |(address, primary): (&String, &Primary)| PrimaryReport {
            address: address.clone(),
            is_up: primary.serves && primary.away_since.is_none(),
            outages: primary.outages,
        };
        known.iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_counts_once_however_often_it_is_seen() {
        let outages = PrimaryOutages::default();
        let names = ["a:1".to_owned(), "b:1".to_owned()];
        let away = [PrimaryAway { address: "b:1".to_owned(), reason: "refused".to_owned() }];
        let report = |address: &str, is_up, outages| PrimaryReport {
            address: address.to_owned(),
            is_up,
            outages,
        };
        for _ in 0..3 {
            outages.record(&names, &away);
        }
        assert_eq!(outages.all(), [report("a:1", true, 0), report("b:1", false, 1)]);
        outages.record(&names, &[]);
        outages.record(&names, &away);
        assert_eq!(outages.all()[1], report("b:1", false, 2));
        // Its replica has taken its slots.
        let names = ["a:1".to_owned(), "c:1".to_owned()];
        outages.record(&names, &[]);
        let all = [report("a:1", true, 0), report("b:1", false, 2), report("c:1", true, 0)];
        assert_eq!(outages.all(), all);
    }
}
