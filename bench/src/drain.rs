//! The drain: ready jobs through a handler until none is left, in four ways; what it asks of Redis,
//! and the ceiling beside it.

use std::time::Duration;

use anyhow::Context;
use duebox_queue::Due;

use crate::account::{self, QUIET};
use crate::ceiling;
use crate::figures::Figures;
use crate::ground::{Binding, Ground, Sample};
use crate::load::Load;
use crate::machine::{cpu_s, forget_peak_memory, peak_memory_bytes};
use crate::rows::Row;
use crate::settings::Settings;

/// A language, and how an instance is made for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) module: &'static str,
    /// As the bench of the sandbox calls it.
    pub(crate) mode: &'static str,
    lines: &'static str,
    row: Row,
}

pub(crate) const RUST: Way =
    Way { name: "Rust, fresh", module: "noop-rust", mode: "fresh", lines: "", row: Row::DrainRust };
/// All ways that are measured.
pub(crate) const WAYS: [Way; 4] = [
    RUST,
    Way { name: "AssemblyScript, fresh", module: "noop-as", row: Row::DrainAssemblyScript, ..RUST },
    Way {
        name: "Go, snapshot",
        module: "noop-go",
        mode: "snapshot",
        lines: "snapshot = true\n",
        row: Row::DrainGo,
    },
    Way {
        name: "Rust, warm",
        mode: "warm",
        lines: "isolation = \"warm\"\n",
        row: Row::DrainWarm,
        ..RUST
    },
];

/// One drain.
#[derive(Debug, Clone)]
pub(crate) struct Drain {
    /// Jobs per second from the first lease to the last ack.
    pub(crate) per_s: f64,
    /// The same between 5 % and 95 % of the jobs: without start and end.
    pub(crate) middle_per_s: f64,
    /// Processor time in the daemon, s.
    pub(crate) daemon_cpu_s: f64,
    /// What Redis was asked.
    pub(crate) load: Load,
    /// The most memory the daemon held, bytes.
    pub(crate) daemon_memory_bytes: u64,
}

/// One repeat of the family.
pub(crate) async fn measure(settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    let jobs = settings.jobs as f64;
    for way in WAYS {
        let drain = fresh(settings, way, &[]).await.context(way.name)?;
        figures.add(way.row, drain.per_s);
        if way == RUST {
            figures.add(Row::DrainMiddle, drain.middle_per_s);
            figures.add(Row::Trips, drain.load.reads as f64 / jobs);
            figures.add(Row::Commands, drain.load.commands as f64 / jobs);
            figures.add(Row::DaemonCpu, drain.daemon_cpu_s * 1e6 / jobs);
            figures.add(Row::RedisCpu, drain.load.cpu_s * 1e6 / jobs);
            figures.add(Row::DrainMemory, drain.daemon_memory_bytes as f64 / 1e6);
            let ceiling = ceiling::best(settings).await?;
            figures.add(Row::Ceiling, ceiling.per_s);
            figures.add(Row::CeilingRedis, ceiling.redis_busy_percent);
            figures.add(Row::CeilingShare, 100.0 * drain.per_s / ceiling.per_s);
        }
    }
    if let Some(per_s) = ceiling::redis_benchmark()? {
        figures.add(Row::RedisBenchmark, per_s);
    }
    Ok(())
}

/// A drain on a Redis of its own with these arguments.
pub(crate) async fn fresh(
    settings: &Settings,
    way: Way,
    redis_args: &[&str],
) -> anyhow::Result<Drain> {
    let ground = Ground::prepare_with(redis_args).await?;
    on(&ground, settings, way, settings.jobs, settings.in_flight).await
}

/// A drain of `jobs` jobs on this ground: they wait in a paused topic until the daemon is ready.
pub(crate) async fn on(
    ground: &Ground,
    settings: &Settings,
    way: Way,
    jobs: u64,
    in_flight: u64,
) -> anyhow::Result<Drain> {
    let handler = settings.handler(way.module)?;
    ground.push("job", jobs, settings.payload, |_| Due::Now).await?;
    let binding = Binding { handler: &handler, lines: way.lines, in_flight, log: QUIET };
    ground.queue.pause(&ground.topic).await?;
    let mut daemon = ground.start_daemon(&binding)?;
    daemon.wait_for_line("it is ready", |line| line.message() == "ready");
    forget_peak_memory(daemon.pid())?;
    let (before, cpu_before_s) = (ground.load().await?, cpu_s(daemon.pid())?);
    ground.queue.resume(&ground.topic).await?;
    let samples = ground.watch(&mut daemon).await.context("drain")?;
    let load = ground.load_since(before, samples.len()).await?;
    let daemon_cpu_s = cpu_s(daemon.pid())? - cpu_before_s;
    let daemon_memory_bytes = peak_memory_bytes(daemon.pid())?;
    ground.ensure_clean().await?;
    account::close(std::slice::from_mut(&mut daemon), jobs)?;
    let (per_s, middle_per_s) = rates(&samples, jobs)?;
    Ok(Drain { per_s, middle_per_s, daemon_cpu_s, load, daemon_memory_bytes })
}

/// Jobs per second of the whole run, and of its middle.
pub(crate) fn rates(samples: &[Sample], jobs: u64) -> anyhow::Result<(f64, f64)> {
    // The last look before anything moved: the run began after it.
    let first = samples.iter().rfind(|sample| sample.left == jobs && sample.leased == 0);
    let begin = first.map_or(Duration::ZERO, |sample| sample.at);
    let end = samples.last().context("the run was not looked at")?.at;
    let from = reached(samples, jobs - jobs / 20)?;
    let to = reached(samples, jobs / 20)?;
    let per_s = |jobs: u64, span: Duration| jobs as f64 / span.as_secs_f64().max(1e-6);
    Ok((per_s(jobs, end - begin), per_s(from.left - to.left, to.at - from.at)))
}

/// The first look at which at most `left` jobs were left.
fn reached(samples: &[Sample], left: u64) -> anyhow::Result<Sample> {
    samples.iter().find(|sample| sample.left <= left).copied().context("the run is not complete")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_leave_out_what_was_before_the_first_lease() {
        let at = |ms, left, leased| Sample {
            at: Duration::from_millis(ms),
            redis_us: ms * 1_000,
            left,
            leased,
        };
        let samples = [
            at(0, 1000, 0),
            at(500, 1000, 0),
            at(600, 1000, 50),
            at(700, 950, 50),
            at(1600, 50, 50),
            at(1700, 0, 0),
        ];
        let (whole, middle) = rates(&samples, 1000).unwrap();
        assert!((whole - 1000.0 / 1.2).abs() < 1e-6, "{whole}");
        assert!((middle - 1000.0).abs() < 1e-6, "{middle}");
    }
}
