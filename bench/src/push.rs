//! Pushing alone: jobs due now, 200 bytes each, by the library with no daemon at work, and over HTTP.

use std::time::Instant;

use anyhow::{Context, ensure};
use duebox_queue::Due;

use crate::figures::Figures;
use crate::ground::{Ground, new_jobs, push_to};
use crate::http_push;
use crate::rows::Row;
use crate::settings::Settings;

/// Callers of the library at once: while one's pipeline is answered, the other's is on its way.
const CALLERS: usize = 2;

/// One repeat of the family.
pub(crate) async fn measure(settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    http_push::measure(settings, figures).await.context("over HTTP")?;
    figures.add(Row::PushLibrary, library(settings, &[]).await?);
    Ok(())
}

/// Jobs per second by the library, pipelined, on a Redis of its own with these arguments.
pub(crate) async fn library(settings: &Settings, redis_args: &[&str]) -> anyhow::Result<f64> {
    let ground = Ground::prepare_with(redis_args).await?;
    let jobs = new_jobs("job", settings.jobs, settings.payload, |_| Due::Now)?;
    let share = jobs.len().div_ceil(CALLERS);
    let shares: Vec<_> = jobs.chunks(share).map(<[_]>::to_vec).collect();
    let mut callers = tokio::task::JoinSet::new();
    let started = Instant::now();
    for share in shares {
        let (queue, topic) = (ground.queue.clone(), ground.topic.clone());
        callers.spawn(async move { push_to(&queue, &topic, &share).await });
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    let took_s = started.elapsed().as_secs_f64();
    ensure_stored(&ground, settings.jobs).await?;
    Ok(settings.jobs as f64 / took_s)
}

/// Fails unless just so many jobs are ready.
pub(crate) async fn ensure_stored(ground: &Ground, jobs: u64) -> anyhow::Result<()> {
    let depths = ground.queue.depths(std::slice::from_ref(&ground.topic)).await?;
    let ready = depths.first().context("Redis did not say how many jobs are ready")?.ready;
    ensure!(ready == jobs, "{ready} of {jobs} pushed jobs are ready");
    Ok(())
}
