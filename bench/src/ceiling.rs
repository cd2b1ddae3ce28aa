//! The ceiling: the same jobs leased and acked with the same scripts by a client that runs nothing,
//! so that a drain can be told from what Redis and the machine allow.

use std::time::{Duration, Instant};

use anyhow::ensure;
use duebox_queue::{Due, LeaseCall, Leased, LeasedJobs, Queue, Settled, Settlement, Turn, Verdict};
use serde::Serialize;

use crate::Args;
use crate::ground::Ground;

/// Turns under way at once: while one is answered, the next is on its way, and Redis never waits.
const TURNS: usize = 2;

/// What a client without handlers reaches.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Ceiling {
    /// Jobs leased and acked per second.
    pub(crate) per_s: f64,
}

pub(crate) async fn measure(args: &Args) -> anyhow::Result<Ceiling> {
    let ground = Ground::prepare().await?;
    ground.push("job", args.jobs, args.payload, |_| Due::Now).await?;
    let batch = (usize::try_from(args.in_flight)? / TURNS).max(1);
    let started = Instant::now();
    let mut runners = tokio::task::JoinSet::new();
    for number in 0..TURNS {
        runners.spawn(run(ground.queue.clone(), ground.topic.clone(), number, batch));
    }
    let mut acked = 0;
    while let Some(runner) = runners.join_next().await {
        acked += runner??;
    }
    let took = started.elapsed();
    ensure!(acked == args.jobs, "{acked} of {} jobs were acked", args.jobs);
    ground.ensure_clean().await?;
    Ok(Ceiling { per_s: acked as f64 / took.as_secs_f64() })
}

/// Settles the last batch and leases the next in one trip, until nothing is ready.
async fn run(
    queue: Queue,
    topic: duebox_job::TopicName,
    runner: usize,
    batch: usize,
) -> anyhow::Result<u64> {
    let mut settle: Vec<Settlement> = Vec::new();
    let mut acked = 0;
    for number in 0_u64.. {
        let call_id = format!("bench-{runner}-{number}");
        let lease = LeaseCall::new(batch, Duration::from_secs(15), call_id);
        let turn = Turn { settle: &settle, lease: Some(&lease), ..Turn::default() };
        let reply = queue.turn(&topic, &turn).await?;
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
