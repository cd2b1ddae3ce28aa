//! The drain: ready jobs through a handler, a fresh instance each, until none is left.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use duebox_harness::Daemon;
use duebox_queue::Due;
use serde::Serialize;

use crate::Args;
use crate::ground::{Ground, Sample};
use crate::machine::{cpu_s, peak_memory_bytes};

/// No line a job, but the daemon's closing words.
const LOG: &str = "warn,duebox::daemon=info";

/// One drain.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Drain {
    /// Jobs per second from the first lease to the last ack.
    pub(crate) per_s: f64,
    /// The same between 5 % and 95 % of the jobs: without start and end.
    pub(crate) middle_per_s: f64,
    /// Processor time a job costs in the daemon, µs.
    pub(crate) daemon_cpu_us: f64,
    /// Processor time a job costs in Redis, µs.
    pub(crate) redis_cpu_us: f64,
    /// The most memory the daemon held, bytes.
    pub(crate) daemon_memory_bytes: u64,
}

pub(crate) async fn measure(args: &Args, handler: &Path) -> anyhow::Result<Drain> {
    let ground = Ground::prepare().await?;
    ground.push("job", args.jobs, args.payload, |_| Due::Now).await?;
    let redis_before_s = ground.redis_cpu_s().await?;
    let mut daemon = ground.start_daemon(args, handler, LOG)?;
    let samples = ground.watch(&mut daemon).await.context("drain")?;
    let redis_cpu_s = ground.redis_cpu_s().await? - redis_before_s;
    let daemon_cpu_s = cpu_s(daemon.pid())?;
    let daemon_memory_bytes = peak_memory_bytes(daemon.pid())?;
    ground.ensure_clean().await?;
    let status = daemon.terminate();
    ensure!(status.success(), "the daemon did not stop cleanly: {status}");
    check_summary(&daemon, args.jobs)?;
    let (per_s, middle_per_s) = rates(&samples, args.jobs)?;
    let per_job_us = |seconds: f64| seconds * 1e6 / args.jobs as f64;
    Ok(Drain {
        per_s,
        middle_per_s,
        daemon_cpu_us: per_job_us(daemon_cpu_s),
        redis_cpu_us: per_job_us(redis_cpu_s),
        daemon_memory_bytes,
    })
}

/// The daemon's own account must be exact too: each job acked, and nothing else.
fn check_summary(daemon: &Daemon, jobs: u64) -> anyhow::Result<()> {
    let lines = daemon.lines();
    let summary = lines.iter().find(|line| line.field("leased").is_number());
    let summary = summary.context("the daemon ended without its closing account")?;
    for (field, wanted) in [("acked", jobs), ("retried", 0), ("dead", 0), ("lost", 0)] {
        let found = summary.field(field).as_u64();
        ensure!(found == Some(wanted), "{field} is not {wanted}: {}", summary.text());
    }
    Ok(())
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
        let at = |ms, left, leased| Sample { at: Duration::from_millis(ms), left, leased };
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
