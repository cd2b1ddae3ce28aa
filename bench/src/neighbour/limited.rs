//! `./dev bench neighbour --cpus`: the daemon runs in a cgroup with limits, as in a container. When its CPU
//! quota is used up, the kernel stops all its threads for the rest of a period of 100 ms.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use duebox_harness::{Cgroup, Daemon, Limits, LogLine, Throttling};
use serde::Serialize;

use super::Row;
use crate::machine::{peak_memory_bytes, resident_bytes};
use crate::results::median;

/// Upper bound for the 99th percentile of the quiet topic's lateness, in ms.
const P99_MAX_MS: f64 = 20.0;
/// Pause between the first job and the reading of the daemon's memory.
const REST: Duration = Duration::from_secs(2);

/// The cgroup of a daemon, and what was read from it.
pub(super) struct Limited {
    cgroup: Cgroup,
    begun: Option<Throttling>,
    usage: Usage,
}

/// What a daemon used of its limits.
#[derive(Debug, Default, Serialize)]
pub(super) struct Usage {
    /// The periods of the phases next to the hostile topic.
    periods: u64,
    /// Those in which the kernel stopped the daemon.
    throttled: u64,
    /// Verdicts whose lease was lost.
    leases_lost: usize,
    rest_bytes: u64,
    peak_bytes: u64,
}

/// Reads a number of cores.
pub(super) fn read_cpus(text: &str) -> Result<f64, String> {
    let cpus = text.parse().ok().filter(|cpus| (0.01..=64.0).contains(cpus));
    cpus.ok_or_else(|| "write a number of cores from 0.01 to 64".to_owned())
}

impl Limited {
    /// Creates the cgroup.
    pub(super) fn prepare(cpus: f64, memory_mib: Option<u64>) -> anyhow::Result<Self> {
        let limits = Limits { cpus, memory: memory_mib.map(|mib| mib << 20) };
        let cgroup = Cgroup::create(limits).context("--cpus needs a writable cgroup")?;
        Ok(Self { cgroup, begun: None, usage: Usage::default() })
    }

    pub(super) fn start(&self, manifest: &Path) -> Daemon {
        Daemon::start_in(&self.cgroup, manifest)
    }

    /// Reads the memory of a daemon that has served one job.
    pub(super) async fn rests(&mut self, daemon: &Daemon) -> anyhow::Result<()> {
        tokio::time::sleep(REST).await;
        self.usage.rest_bytes = resident_bytes(daemon.pid())?;
        Ok(())
    }

    /// Begins a phase.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        self.begun = Some(self.cgroup.throttling()?);
        Ok(())
    }

    /// Ends a phase.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        let (after, before) = (self.cgroup.throttling()?, self.begun.take());
        let before = before.context("a phase ends that has not begun")?;
        self.usage.periods += after.periods - before.periods;
        self.usage.throttled += after.throttled - before.throttled;
        Ok(())
    }

    /// What the daemon has used.
    pub(super) fn usage(&mut self, daemon: &Daemon) -> anyhow::Result<Usage> {
        let is_lost = |line: &LogLine| line.message().starts_with("the lease was lost");
        self.usage.leases_lost = daemon.count(is_lost);
        self.usage.peak_bytes = peak_memory_bytes(daemon.pid())?;
        Ok(std::mem::take(&mut self.usage))
    }
}

impl Usage {
    pub(super) fn passes(&self, p99_ms: f64) -> bool {
        p99_ms <= P99_MAX_MS && self.leases_lost == 0
    }
}

/// The table of what the limits add.
pub(super) fn table(cpus: f64, memory_mib: Option<u64>, rows: &[Row]) -> String {
    let memory = memory_mib.map_or(String::new(), |mib| format!(" and {mib} MiB"));
    let mut text = format!(
        "\nthe daemon has {cpus} cores{memory}; passes: p99 next to it ≤ {P99_MAX_MS} ms, no lease lost\n\n\
         {:<20} {:>8} {:>12} {:>10} {:>8} {:>10} {:>10}\n",
        "hostile topic", "max ms", "its jobs/s", "throttled", "lost", "rest MiB", "peak MiB"
    );
    for row in rows {
        let Some(usage) = &row.limited else { continue };
        let mut per_second: Vec<f64> =
            row.rounds.iter().map(|round| round.hostile_per_second).collect();
        per_second.sort_by(f64::total_cmp);
        text.push_str(&format!(
            "{:<20} {:>8.2} {:>12.1} {:>10} {:>8} {:>10} {:>10}\n",
            row.workload,
            row.contended.max_ms,
            median(&per_second),
            format!("{}/{}", usage.throttled, usage.periods),
            usage.leases_lost,
            usage.rest_bytes >> 20,
            usage.peak_bytes >> 20,
        ));
    }
    text
}
