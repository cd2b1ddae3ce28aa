//! Pushing alone: jobs of 200 bytes that are due now, by the library without a daemon, and over
//! HTTP.

use std::time::Instant;

use anyhow::{Context, ensure};
use duebox_queue::{Due, IfExists, NewJob, Pushed};

use crate::fixture::{Fixture, new_jobs, push_to};
use crate::http_push;
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;

/// Concurrent callers of the library, so that Redis has work while a reply is on its way.
const CALLERS: usize = 2;
/// Pushes of one job that are under way at once, as many as the peers have.
pub(crate) const IN_FLIGHT: usize = 32;

/// Measures the family once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    http_push::measure(settings, results).await.context("over HTTP")?;
    results.add(Row::PushLibrary, library(settings, &[]).await?);
    for (row, in_flight) in [(Row::PushLibraryOne, 1), (Row::PushLibraryMany, IN_FLIGHT)] {
        results.add(row, singly(&Fixture::prepare().await?, settings, in_flight).await?);
    }
    Ok(())
}

/// Jobs per second by the library, pipelined, on a fresh Redis with these extra arguments.
pub(crate) async fn library(settings: &Settings, redis_args: &[&str]) -> anyhow::Result<f64> {
    by_library(&Fixture::prepare_with(redis_args).await?, settings).await
}

/// The same on this fixture.
pub(crate) async fn by_library(fixture: &Fixture, settings: &Settings) -> anyhow::Result<f64> {
    let jobs = new_jobs("job", settings.jobs, settings.payload, |_| Due::Now)?;
    let share = jobs.len().div_ceil(CALLERS);
    let shares: Vec<_> = jobs.chunks(share).map(<[_]>::to_vec).collect();
    let mut callers = tokio::task::JoinSet::new();
    let started = Instant::now();
    for share in shares {
        let (queue, topic) = (fixture.queue.clone(), fixture.topic.clone());
        callers.spawn(async move { push_to(&queue, &topic, &share).await });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    let took_s = started.elapsed().as_secs_f64();
    ensure_stored(fixture, settings.jobs).await?;
    Ok(settings.jobs as f64 / took_s)
}

/// Pushes per second by the library, one job per call, with `in_flight` calls at once.
pub(crate) async fn singly(
    fixture: &Fixture,
    settings: &Settings,
    in_flight: usize,
) -> anyhow::Result<f64> {
    let jobs = new_jobs("job", settings.pushes, settings.payload, |_| Due::Now)?;
    let mut callers = tokio::task::JoinSet::new();
    let started = Instant::now();
    for share in jobs.chunks(jobs.len().div_ceil(in_flight)) {
        let (queue, topic) = (fixture.queue.clone(), fixture.topic.clone());
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
    ensure_stored(fixture, settings.pushes).await?;
    Ok(settings.pushes as f64 / took_s)
}

/// Fails unless exactly `jobs` jobs are ready.
pub(crate) async fn ensure_stored(fixture: &Fixture, jobs: u64) -> anyhow::Result<()> {
    let depths = fixture.queue.depths(std::slice::from_ref(&fixture.topic)).await?;
    let ready = depths.first().context("Redis returned no depths")?.ready;
    ensure!(ready == jobs, "{ready} of {jobs} pushed jobs are ready");
    Ok(())
}
