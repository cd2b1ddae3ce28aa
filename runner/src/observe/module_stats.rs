//! Results and costs of a topic's attempts by module. Rollbacks are decided by them, and `duebox stats`
//! shows them. All shards of a topic share one.
//!
//! An attempt is counted once, when its verdict is made. Host faults are not counted, because the module
//! did not cause them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use duebox_job::{FailureClass, Outcome};
use duebox_sandbox::Digest;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use super::cost::Cost;

/// Modules with sums of their own; the module that ran longest ago is merged into the rest.
const DIGESTS_MAX: usize = 8;

/// Sums of results and costs. They only grow, and saturate. Times are milliseconds in JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sums {
    /// Ended attempts.
    pub attempts: u64,
    /// The same under its earlier name, which programs may read until 0.2.
    pub jobs: u64,
    /// Acked attempts.
    pub acked: u64,
    /// Failed attempts of any class.
    pub failed: u64,
    /// Snoozed attempts.
    pub snoozed: u64,
    /// Failed attempts by class.
    pub classes: BTreeMap<FailureClass, u64>,
    /// Their total wall time.
    #[serde(rename = "wall_ms", with = "in_millis")]
    pub wall: Duration,
    /// The longest wall time.
    #[serde(rename = "wall_max_ms", with = "in_millis")]
    pub wall_max: Duration,
    /// Their total CPU time.
    #[serde(rename = "cpu_ms", with = "in_millis")]
    pub cpu: Duration,
    /// The largest linear memory of an attempt, in bytes.
    #[serde(rename = "memory_peak_bytes")]
    pub memory_peak: u64,
    /// The fuel they used, as far as it is metered.
    pub fuel: u64,
    /// Calls of imports.
    pub host_calls: u64,
    /// Bytes from the host to the guests.
    pub bytes_in: u64,
    /// Bytes from the guests to the host.
    pub bytes_out: u64,
    /// Log lines beyond the budgets.
    pub log_lines_dropped: u64,
}

/// The stats of one topic in this process.
#[derive(Default)]
pub struct ModuleStats(Mutex<SumsByModule>);

#[derive(Default)]
struct SumsByModule {
    /// By module; the one that ran last is at the end.
    by_digest: VecDeque<(Digest, Sums)>,
    /// The sums of modules that have none of their own any more.
    older: Sums,
}

impl ModuleStats {
    /// Counts ended attempts, under one lock.
    pub fn record_runs<'a>(
        &self,
        attempts: impl IntoIterator<Item = (Digest, &'a Outcome, &'a Cost)>,
    ) {
        let mut sums_by_module = self.sums_by_module();
        for (digest, outcome, cost) in attempts {
            if !matches!(outcome, Outcome::HostFault(_)) {
                sums_by_module.sums(digest).add(outcome, cost);
            }
        }
    }

    /// The sums of one module; zero if it never ran, or ran too long ago.
    pub fn of(&self, digest: Digest) -> Sums {
        let sums_by_module = self.sums_by_module();
        let found = sums_by_module.by_digest.iter().find(|(known, _)| *known == digest);
        found.map(|(_, sums)| sums.clone()).unwrap_or_default()
    }

    /// The sums by module, the one that ran last first.
    pub fn by_digest(&self) -> Vec<(Digest, Sums)> {
        self.sums_by_module().by_digest.iter().rev().cloned().collect()
    }

    /// The sums of all modules.
    pub fn total(&self) -> Sums {
        let sums_by_module = self.sums_by_module();
        let mut total = sums_by_module.older.clone();
        sums_by_module.by_digest.iter().for_each(|(_, sums)| total.merge(sums));
        total
    }

    /// The ended attempts of all modules.
    pub fn attempts(&self) -> u64 {
        let sums_by_module = self.sums_by_module();
        let recent: u64 = sums_by_module.by_digest.iter().map(|(_, sums)| sums.attempts).sum();
        recent.saturating_add(sums_by_module.older.attempts)
    }

    fn sums_by_module(&self) -> MutexGuard<'_, SumsByModule> {
        self.0.lock()
    }
}

impl SumsByModule {
    fn sums(&mut self, digest: Digest) -> &mut Sums {
        let index = self.by_digest.iter().position(|(known, _)| *known == digest);
        let entry = match index.and_then(|at| self.by_digest.remove(at)) {
            Some(entry) => entry,
            None => (digest, Sums::default()),
        };
        if self.by_digest.len() == DIGESTS_MAX
            && let Some((_, oldest)) = self.by_digest.pop_front()
        {
            self.older.merge(&oldest);
        }
        let last = self.by_digest.len();
        self.by_digest.push_back(entry);
        &mut self.by_digest[last].1
    }
}

impl Sums {
    /// Adds an attempt.
    fn add(&mut self, outcome: &Outcome, cost: &Cost) {
        raise(&mut self.attempts, 1);
        raise(&mut self.jobs, 1);
        match outcome {
            Outcome::Acked => raise(&mut self.acked, 1),
            Outcome::Snoozed { .. } => raise(&mut self.snoozed, 1),
            Outcome::Failed(failure) => {
                raise(&mut self.failed, 1);
                raise(self.classes.entry(failure.class).or_default(), 1);
            }
            Outcome::HostFault(_) => {}
        }
        self.wall = self.wall.saturating_add(cost.wall);
        self.wall_max = self.wall_max.max(cost.wall);
        self.cpu = self.cpu.saturating_add(cost.cpu);
        self.memory_peak = self.memory_peak.max(cost.memory_peak);
        raise(&mut self.fuel, cost.fuel.unwrap_or(0));
        raise(&mut self.host_calls, cost.host_calls);
        raise(&mut self.bytes_in, cost.bytes_in);
        raise(&mut self.bytes_out, cost.bytes_out);
        raise(&mut self.log_lines_dropped, cost.log_lines_dropped);
    }

    /// The failure rate, 0 to 1; 0 without attempts.
    pub fn failed_part(&self) -> f64 {
        self.failed as f64 / self.attempts.max(1) as f64
    }

    /// The mean wall time.
    pub fn wall_mean(&self) -> Duration {
        self.wall.div_f64(self.attempts.max(1) as f64)
    }

    /// The mean CPU time.
    pub fn cpu_mean(&self) -> Duration {
        self.cpu.div_f64(self.attempts.max(1) as f64)
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        raise(&mut self.attempts, other.attempts);
        raise(&mut self.jobs, other.jobs);
        raise(&mut self.acked, other.acked);
        raise(&mut self.failed, other.failed);
        raise(&mut self.snoozed, other.snoozed);
        for (class, count) in &other.classes {
            raise(self.classes.entry(*class).or_default(), *count);
        }
        self.wall = self.wall.saturating_add(other.wall);
        self.wall_max = self.wall_max.max(other.wall_max);
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.memory_peak = self.memory_peak.max(other.memory_peak);
        raise(&mut self.fuel, other.fuel);
        raise(&mut self.host_calls, other.host_calls);
        raise(&mut self.bytes_in, other.bytes_in);
        raise(&mut self.bytes_out, other.bytes_out);
        raise(&mut self.log_lines_dropped, other.log_lines_dropped);
    }
}

/// Durations as milliseconds with a resolution of 1 µs.
mod in_millis {
    use std::time::Duration;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_micros() as f64 / 1_000.0)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let ms = f64::deserialize(from)?;
        Duration::try_from_secs_f64(ms / 1_000.0).map_err(D::Error::custom)
    }
}

fn raise(sum: &mut u64, by: u64) {
    *sum = sum.saturating_add(by);
}

#[cfg(test)]
mod tests {
    use duebox_job::Failure;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn failed(class: FailureClass) -> Outcome {
        Outcome::Failed(Failure { class, reason: String::new(), retry_after: None })
    }

    fn digest(n: u8) -> Digest {
        Digest::of(&[n])
    }

    #[test]
    fn attempts_are_summed_by_digest() {
        let stats = ModuleStats::default();
        let cost = |ms, memory_peak| Cost { memory_peak, fuel: Some(7), ..Cost::of_wall(ms * MS) };
        stats.record_runs([(digest(1), &Outcome::Acked, &cost(3, 10))]);
        stats.record_runs([(digest(1), &failed(FailureClass::Trap), &cost(5, 4))]);
        stats.record_runs([(digest(2), &failed(FailureClass::Nack), &cost(1, 1))]);
        stats.record_runs([(digest(2), &Outcome::HostFault("no room".into()), &cost(99, 99))]);
        let one = stats.of(digest(1));
        assert_eq!((one.attempts, one.jobs, one.acked, one.failed), (2, 2, 1, 1));
        assert_eq!(one.classes, BTreeMap::from([(FailureClass::Trap, 1)]));
        assert_eq!((one.wall, one.wall_max, one.memory_peak, one.fuel), (8 * MS, 5 * MS, 10, 14));
        let two = stats.of(digest(2));
        assert_eq!((two.jobs, two.failed, two.wall, two.memory_peak), (1, 1, MS, 1));
        assert_eq!(stats.of(digest(3)), Sums::default());
        let total = stats.total();
        assert_eq!((total.jobs, total.failed, total.wall, total.fuel), (3, 2, 9 * MS, 21));
        assert_eq!(total.classes.len(), 2);
    }

    #[test]
    fn sums_read_back_from_their_json() {
        let stats = ModuleStats::default();
        let cost = Cost { fuel: Some(7), host_calls: 3, ..Cost::of_wall(MS * 3 / 2) };
        stats.record_runs([(digest(1), &failed(FailureClass::OutOfMemory), &cost)]);
        stats.record_runs([(digest(1), &Outcome::Acked, &Cost::of_wall(MS / 2))]);
        let sums = stats.total();
        let json = serde_json::to_string(&sums).unwrap();
        assert!(json.contains(r#""classes":{"out_of_memory":1},"wall_ms":2.0"#), "{json}");
        assert_eq!(serde_json::from_str::<Sums>(&json).unwrap(), sums);
        assert_eq!((sums.failed_part(), sums.wall_mean()), (0.5, MS));
        assert_eq!(
            (Sums::default().failed_part(), Sums::default().cpu_mean().as_nanos()),
            (0.0, 0)
        );
        assert!(serde_json::from_str::<Sums>(r#"{"wall_ms":-1}"#).is_err());
    }

    #[test]
    fn a_module_that_ran_long_ago_is_merged_and_still_counts() {
        let stats = ModuleStats::default();
        for n in 1..=8 {
            stats.record_runs([(digest(n), &Outcome::Acked, &Cost::default())]);
        }
        stats.record_runs([(digest(1), &Outcome::Acked, &Cost::default())]);
        stats.record_runs([(digest(9), &Outcome::Acked, &Cost::default())]);
        let kept: Vec<Digest> = stats.by_digest().into_iter().map(|(digest, _)| digest).collect();
        assert_eq!(kept.len(), DIGESTS_MAX);
        assert_eq!(kept[..2], [digest(9), digest(1)]);
        assert_eq!(stats.of(digest(2)), Sums::default());
        assert_eq!((stats.of(digest(1)).jobs, stats.total().jobs), (2, 10));
        assert_eq!(stats.attempts(), 10);
    }
}
