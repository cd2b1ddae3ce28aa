//! Duebox in the peer comparison: the same tasks that the peers' programs do.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::contender::Contender;
use crate::drain::{self, PYTHON, RUST, TYPESCRIPT, Variant};
use crate::fixture::{Binding, Fixture};
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;
use crate::work::{self, CONCURRENCIES};
use crate::{burst, lateness, push, shutdown};

/// How long an idle worker is left alone before it is measured.
const SETTLE: Duration = Duration::from_secs(2);

/// Runs all tasks once with a handler in Rust, and those that depend on the handler with one in TypeScript and in Python.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Vec<Contender>> {
    let late = lateness::fresh(settings, &[]).await?.reported;
    let mut results = Results::default();
    burst::measure(settings, &mut results).await?;
    let rust = of_handler(settings, "", RUST, work::RUST.module).await?;
    let rust = Contender {
        push_one: Some(push::singly(&Fixture::prepare().await?, settings, 1).await?),
        push_flight: Some(
            push::singly(&Fixture::prepare().await?, settings, push::IN_FLIGHT).await?,
        ),
        push_batch: Some(push::library(settings, &[]).await?),
        late_p50_ms: Some(late.p50_ms),
        late_p99_ms: Some(late.p99_ms),
        // A run with an early job fails.
        early: Some(0.0),
        burst_ms: results.of(Row::BurstLast).last().copied(),
        idle_commands: Some(idle(settings).await?),
        remarks: vec![
            "each job in a sandbox of its own; pushes by the library; the burst until the last \
             verdict, not the last start"
                .to_owned(),
        ],
        ..rust
    };
    Ok(vec![
        rust,
        of_handler(settings, "TypeScript", TYPESCRIPT, work::TYPESCRIPT.module).await?,
        of_handler(settings, "Python", PYTHON, work::PYTHON.module).await?,
    ])
}

/// The drain by this variant, and what a handler does that posts its jobs.
async fn of_handler(
    settings: &Settings,
    language: &str,
    variant: Variant,
    poster: &str,
) -> anyhow::Result<Contender> {
    let jobs = settings.jobs as f64;
    let drain = drain::fresh(settings, variant, &[]).await.context(variant.name)?;
    let mut contender = Contender {
        name: "duebox".to_owned(),
        settings: language.to_owned(),
        drain_per_s: Some(drain.per_s),
        commands: Some(drain.load.commands as f64 / jobs),
        worker_us: Some(drain.daemon_cpu_s * 1e6 / jobs),
        redis_us: Some(drain.load.cpu_s * 1e6 / jobs),
        memory_mb: Some(drain.daemon_memory_bytes as f64 / 1e6),
        ..Contender::default()
    };
    for (at, concurrency) in CONCURRENCIES.into_iter().enumerate() {
        let work = work::of(settings, poster, concurrency).await.context(poster.to_owned())?;
        contender.posts_per_s[at] = Some(work.per_s);
        contender.posts_p99_ms[at] = Some(work.p99_ms);
    }
    Ok(contender)
}

/// Redis commands per second of an idle daemon with one topic.
async fn idle(settings: &Settings) -> anyhow::Result<f64> {
    let fixture = Fixture::prepare().await?;
    let handler = settings.handler("noop-rust")?;
    let in_flight = settings.in_flight;
    let binding = Binding { handler: &handler, lines: "", in_flight, log: shutdown::QUIET_LOG };
    let mut daemon = fixture.start_daemon(&binding)?;
    fixture.wait_until_served(&mut daemon).await?;
    let found = idle_commands(&fixture, settings).await?;
    shutdown::stop_and_verify(std::slice::from_mut(&mut daemon), 1)?;
    Ok(found)
}

/// Redis commands per second that an idle worker on this Redis sends.
pub(crate) async fn idle_commands(fixture: &Fixture, settings: &Settings) -> anyhow::Result<f64> {
    tokio::time::sleep(SETTLE).await;
    let (before, started) = (fixture.load().await?, Instant::now());
    tokio::time::sleep(Duration::from_secs(settings.idle_s)).await;
    let load = fixture.load_since(before, 0).await?;
    Ok(load.commands as f64 / started.elapsed().as_secs_f64())
}
