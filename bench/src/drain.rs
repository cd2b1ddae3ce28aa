//! The drain: a handler runs ready jobs until no job is left, for eight variants. Also counts what
//! the drain asks of Redis, and measures the ceiling in the same run.

use std::time::Duration;

use anyhow::Context;
use duebox_queue::Due;

use crate::ceiling;
use crate::fixture::{Binding, Fixture, Sample};
use crate::machine::{ThreadsLoad, cpu_s, guests, peak_memory_bytes, reset_peak_memory};
use crate::redis_load::RedisLoad;
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;
use crate::shutdown::{self, QUIET_LOG};

/// A language and an instance mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    pub(crate) module: &'static str,
    /// The mode's name in `./dev bench sandbox`.
    pub(crate) mode: &'static str,
    lines: &'static str,
    row: Row,
}

pub(crate) const RUST: Variant = Variant {
    name: "Rust, fresh",
    module: "noop-rust",
    mode: "fresh",
    lines: "",
    row: Row::DrainRust,
};
pub(crate) const TYPESCRIPT: Variant = Variant {
    name: "TypeScript, snapshot",
    module: "noop-js",
    mode: "snapshot",
    row: Row::DrainJavaScript,
    ..RUST
};
pub(crate) const PYTHON: Variant = Variant {
    name: "Python, snapshot",
    module: "noop-py",
    mode: "snapshot",
    row: Row::DrainPython,
    ..RUST
};
pub(crate) const RUST_WARM: Variant = Variant {
    name: "Rust, warm",
    mode: "warm",
    lines: "isolation = \"warm\"\n",
    row: Row::DrainWarm,
    ..RUST
};
/// All measured variants.
pub(crate) const VARIANTS: [Variant; 8] = [
    RUST,
    Variant {
        name: "AssemblyScript, fresh",
        module: "noop-as",
        row: Row::DrainAssemblyScript,
        ..RUST
    },
    Variant {
        name: "Go, snapshot",
        module: "noop-go",
        mode: "snapshot",
        lines: "snapshot = true\n",
        row: Row::DrainGo,
    },
    TYPESCRIPT,
    PYTHON,
    Variant {
        name: "TypeScript, warm",
        module: "noop-js",
        row: Row::DrainJavaScriptWarm,
        ..RUST_WARM
    },
    Variant { name: "Python, warm", module: "noop-py", row: Row::DrainPythonWarm, ..RUST_WARM },
    RUST_WARM,
];

/// Result of one drain.
#[derive(Debug, Clone)]
pub(crate) struct Drain {
    /// Jobs per second from the first lease to the last ack.
    pub(crate) per_s: f64,
    /// The same between 5 % and 95 % of the jobs, without start and end.
    pub(crate) middle_per_s: f64,
    /// CPU time of the daemon, s.
    pub(crate) daemon_cpu_s: f64,
    /// What the daemon's threads for guests used.
    pub(crate) guests: ThreadsLoad,
    /// What Redis was asked.
    pub(crate) load: RedisLoad,
    /// CPU time of each server, s.
    pub(crate) servers_cpu_s: Vec<f64>,
    /// Peak memory of the daemon, bytes.
    pub(crate) daemon_memory_bytes: u64,
}

/// Measures the family once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let jobs = settings.jobs as f64;
    for variant in VARIANTS {
        let drain = fresh(settings, variant, &[]).await.context(variant.name)?;
        results.add(variant.row, drain.per_s);
        if variant == RUST {
            results.add(Row::DrainMiddle, drain.middle_per_s);
            results.add(Row::Trips, drain.load.reads as f64 / jobs);
            results.add(Row::Commands, drain.load.commands as f64 / jobs);
            results.add(Row::DaemonCpu, drain.daemon_cpu_s * 1e6 / jobs);
            results.add(Row::RedisCpu, drain.load.cpu_s * 1e6 / jobs);
            results.add(Row::DrainMemory, drain.daemon_memory_bytes as f64 / 1e6);
            let ceiling = ceiling::best(settings).await?;
            results.add(Row::Ceiling, ceiling.per_s);
            results.add(Row::CeilingRedis, ceiling.redis_busy_percent);
            results.add(Row::CeilingShare, 100.0 * drain.per_s / ceiling.per_s);
        }
    }
    let fixture = Fixture::prepare().await?;
    let long = on(&fixture, settings, RUST_WARM, settings.long_jobs, settings.in_flight).await;
    results.add(Row::DrainLong, long.context("the long drain")?.per_s);
    if let Some(per_s) = ceiling::redis_benchmark()? {
        results.add(Row::RedisBenchmark, per_s);
    }
    Ok(())
}

/// Drains on a fresh Redis with these extra arguments.
pub(crate) async fn fresh(
    settings: &Settings,
    variant: Variant,
    redis_args: &[&str],
) -> anyhow::Result<Drain> {
    let fixture = Fixture::prepare_with(redis_args).await?;
    on(&fixture, settings, variant, settings.jobs, settings.in_flight).await
}

/// Drains `jobs` jobs on this fixture. They wait in a paused topic until the daemon is ready.
pub(crate) async fn on(
    fixture: &Fixture,
    settings: &Settings,
    variant: Variant,
    jobs: u64,
    in_flight: u64,
) -> anyhow::Result<Drain> {
    let handler = settings.handler(variant.module)?;
    fixture.push("job", jobs, settings.payload, |_| Due::Now).await?;
    let binding = Binding { handler: &handler, lines: variant.lines, in_flight, log: QUIET_LOG };
    fixture.queue.pause(&fixture.topic).await?;
    let mut daemon = fixture.start_daemon(&binding)?;
    daemon.wait_for_line("it is ready", |line| line.message() == "ready");
    reset_peak_memory(daemon.pid())?;
    let servers_before = fixture.redis.cpu_s().await?;
    let guests_before = guests(daemon.pid())?;
    let (before, cpu_before_s) = (fixture.load().await?, cpu_s(daemon.pid())?);
    fixture.queue.resume(&fixture.topic).await?;
    let samples = fixture.watch(&mut daemon).await.context("drain")?;
    let load = fixture.load_since(before, samples.len()).await?;
    let daemon_cpu_s = cpu_s(daemon.pid())? - cpu_before_s;
    let guests = guests(daemon.pid())?.since(guests_before);
    let servers_cpu_s = fixture.redis.cpu_s().await?;
    let servers_cpu_s =
        servers_cpu_s.iter().zip(servers_before).map(|(after, before)| after - before).collect();
    let daemon_memory_bytes = peak_memory_bytes(daemon.pid())?;
    fixture.ensure_clean().await?;
    shutdown::stop_and_verify(std::slice::from_mut(&mut daemon), jobs)?;
    let (per_s, middle_per_s) = rates(&samples, jobs)?;
    Ok(Drain {
        per_s,
        middle_per_s,
        daemon_cpu_s,
        guests,
        load,
        servers_cpu_s,
        daemon_memory_bytes,
    })
}

/// Jobs per second of the whole run and of its middle part.
pub(crate) fn rates(samples: &[Sample], jobs: u64) -> anyhow::Result<(f64, f64)> {
    // The run starts after the last sample in which nothing had moved.
    let first = samples.iter().rfind(|sample| sample.left == jobs && sample.leased == 0);
    let begin = first.map_or(Duration::ZERO, |sample| sample.at);
    let end = samples.last().context("the run has no samples")?.at;
    let from = reached(samples, jobs - jobs / 20)?;
    let to = reached(samples, jobs / 20)?;
    let per_s = |jobs: u64, span: Duration| jobs as f64 / span.as_secs_f64().max(1e-6);
    Ok((per_s(jobs, end - begin), per_s(from.left - to.left, to.at - from.at)))
}

/// Returns the first sample with at most `left` jobs left.
fn reached(samples: &[Sample], left: u64) -> anyhow::Result<Sample> {
    samples.iter().find(|sample| sample.left <= left).copied().context("the run did not complete")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_exclude_the_time_before_the_first_lease() {
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
