//! The ceiling: a client without handlers leases and acks the same jobs with the same scripts. It
//! shows what Redis and the machine allow, so that a drain can be compared with it. redis-benchmark
//! on the same machine adds a figure that most readers know.

use std::io::ErrorKind;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use duebox_harness::RedisServer;
use duebox_job::TopicName;
use duebox_queue::{Due, LeaseCall, Leased, LeasedJobs, Queue, Settled, Settlement, Turn, Verdict};

use crate::fixture::Fixture;
use crate::settings::Settings;

/// Turns in flight, so that Redis always has the next one while a reply is on its way.
const TURNS: usize = 2;
/// Batch sizes; the faster one counts.
const BATCHES: [usize; 2] = [128, 500];
/// Number of commands that redis-benchmark sends.
const BENCHMARK_COMMANDS: &str = "1000000";

/// Result of the client without handlers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ceiling {
    /// Jobs leased and acked per second.
    pub(crate) per_s: f64,
    /// Share of the elapsed time in which Redis used the CPU, in percent of one core.
    pub(crate) redis_busy_percent: f64,
}

/// Runs all batch sizes and returns the fastest.
pub(crate) async fn best(settings: &Settings) -> anyhow::Result<Ceiling> {
    let mut best = of(settings, settings.jobs, BATCHES[0]).await?;
    for batch in &BATCHES[1..] {
        let found = of(settings, settings.jobs, *batch).await?;
        if found.per_s > best.per_s {
            best = found;
        }
    }
    Ok(best)
}

/// Runs one batch size.
pub(crate) async fn of(settings: &Settings, jobs: u64, batch: usize) -> anyhow::Result<Ceiling> {
    let fixture = Fixture::prepare().await?;
    fixture.push("job", jobs, settings.payload, |_| Due::Now).await?;
    let before = fixture.load().await?;
    let started = Instant::now();
    let mut runners = tokio::task::JoinSet::new();
    for number in 0..TURNS {
        runners.spawn(run(fixture.queue.clone(), fixture.topic.clone(), number, batch));
    }
    let mut acked = 0;
    while let Some(runner) = runners.join_next().await {
        acked += runner??;
    }
    let took_s = started.elapsed().as_secs_f64();
    let load = fixture.load_since(before, 0).await?;
    ensure!(acked == jobs, "{acked} of {jobs} jobs were acked");
    fixture.ensure_clean().await?;
    Ok(Ceiling { per_s: acked as f64 / took_s, redis_busy_percent: 100.0 * load.cpu_s / took_s })
}

/// Settles the last batch and leases the next in one round trip, until nothing is ready.
async fn run(queue: Queue, topic: TopicName, runner: usize, batch: usize) -> anyhow::Result<u64> {
    let mut settle: Vec<Settlement> = Vec::new();
    let mut acked = 0;
    for number in 0_u64.. {
        let call_id = format!("bench-{runner}-{number}");
        let lease = LeaseCall::new(batch, Duration::from_secs(15), call_id);
        let turn = Turn { settle: settle.iter().collect(), lease: Some(&lease), ..Turn::default() };
        let reply = queue.turn(&topic.first_shard(), &turn).await?;
        if let Some(error) = reply.error {
            return Err(error.into());
        }
        let words = reply.settled.unwrap_or_default();
        ensure!(words.iter().all(|word| *word == Settled::Done), "an ack was refused");
        acked += words.len() as u64;
        let Some(Leased::Jobs(LeasedJobs { leases, .. })) = reply.leased else { break };
        settle = leases.into_iter().map(|lease| lease.settle(Verdict::Ack)).collect();
    }
    Ok(acked)
}

/// Measures SETs per second with redis-benchmark, 16 per pipeline; `None` if it is not installed.
pub(crate) fn redis_benchmark() -> anyhow::Result<Option<f64>> {
    let server = RedisServer::start();
    let output = Command::new("redis-benchmark")
        .args(["-p", &server.port().to_string(), "-t", "set", "-n", BENCHMARK_COMMANDS])
        .args(["-P", "16", "-d", "200", "-r", "100000", "--csv"])
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => bail!("cannot run redis-benchmark: {error}"),
    };
    // The line is "SET","1234567.00" followed by latencies.
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("\"SET\",\""));
    let figure = line.and_then(|rest| rest.split('"').next()?.parse().ok());
    figure.map(Some).with_context(|| format!("redis-benchmark printed no SET figure: {text}"))
}
