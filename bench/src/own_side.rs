//! Duebox as a contender: what is asked of its peers, asked of it.

use std::time::{Duration, Instant};

use anyhow::ensure;
use duebox_queue::{Due, IfExists, NewJob, Pushed};

use crate::contender::Contender;
use crate::drain::{self, RUST};
use crate::figures::Figures;
use crate::ground::{Binding, Ground, new_jobs};
use crate::rows::Row;
use crate::settings::Settings;
use crate::{account, burst, lateness, push};

/// Pushes under way at once, as many as the peers have.
const IN_FLIGHT: usize = 32;
/// How long a worker with nothing to do is left alone before it is looked at.
const SETTLE: Duration = Duration::from_secs(2);

/// Measures all of it, once.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Contender> {
    let jobs = settings.jobs as f64;
    let drain = drain::fresh(settings, RUST, &[]).await?;
    let late = lateness::fresh(settings, &[]).await?.reported;
    let mut figures = Figures::default();
    burst::measure(settings, &mut figures).await?;
    Ok(Contender {
        name: "duebox".to_owned(),
        settings: String::new(),
        drain_per_s: Some(drain.per_s),
        commands: Some(drain.load.commands as f64 / jobs),
        worker_us: Some(drain.daemon_cpu_s * 1e6 / jobs),
        redis_us: Some(drain.load.cpu_s * 1e6 / jobs),
        memory_mb: Some(drain.daemon_memory_bytes as f64 / 1e6),
        push_one: Some(singly(settings, 1).await?),
        push_flight: Some(singly(settings, IN_FLIGHT).await?),
        push_batch: Some(push::library(settings, &[]).await?),
        late_p50_ms: Some(late.p50_ms),
        late_p99_ms: Some(late.p99_ms),
        // A run with an early job is a failure.
        early: Some(0.0),
        burst_ms: figures.of(Row::BurstLast).last().copied(),
        idle_commands: Some(idle(settings).await?),
        remarks: vec![
            "each job in a sandbox of its own; pushes by the library; the burst until the last \
             verdict, not the last start"
                .to_owned(),
        ],
    })
}

/// Pushes per second by the library, each job alone, with so many under way at once.
async fn singly(settings: &Settings, in_flight: usize) -> anyhow::Result<f64> {
    let ground = Ground::prepare().await?;
    let jobs = new_jobs("job", settings.pushes, settings.payload, |_| Due::Now)?;
    let mut callers = tokio::task::JoinSet::new();
    let started = Instant::now();
    for share in jobs.chunks(jobs.len().div_ceil(in_flight)) {
        let (queue, topic) = (ground.queue.clone(), ground.topic.clone());
        let share: Vec<NewJob> = share.to_vec();
        callers.spawn(async move {
            for job in &share {
                let pushed = queue.push(&topic, std::slice::from_ref(job), IfExists::Reject);
                ensure!(pushed.await? == [Pushed::Pushed], "a push was refused");
            }
            Ok(())
        });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    let took_s = started.elapsed().as_secs_f64();
    push::ensure_stored(&ground, settings.pushes).await?;
    Ok(settings.pushes as f64 / took_s)
}

/// Redis commands per second of a daemon with one topic and nothing to do.
async fn idle(settings: &Settings) -> anyhow::Result<f64> {
    let ground = Ground::prepare().await?;
    let handler = settings.handler("noop-rust")?;
    let in_flight = settings.in_flight;
    let binding = Binding { handler: &handler, lines: "", in_flight, log: account::QUIET };
    let mut daemon = ground.start_daemon(&binding)?;
    ground.wait_until_served(&mut daemon).await?;
    let found = idle_commands(&ground, settings).await?;
    account::close(std::slice::from_mut(&mut daemon), 1)?;
    Ok(found)
}

/// Commands per second that whoever works on this Redis sends now.
pub(crate) async fn idle_commands(ground: &Ground, settings: &Settings) -> anyhow::Result<f64> {
    tokio::time::sleep(SETTLE).await;
    let (before, started) = (ground.load().await?, Instant::now());
    tokio::time::sleep(Duration::from_secs(settings.idle_s)).await;
    let load = ground.load_since(before, 0).await?;
    Ok(load.commands as f64 / started.elapsed().as_secs_f64())
}
