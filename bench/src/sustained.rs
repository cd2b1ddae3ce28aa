//! Sustained load: jobs pushed in batches while the daemon runs them, with the producer on the same
//! cores. The time is taken from the first push to the last verdict.

use std::time::{Duration, Instant};

use anyhow::Context;
use duebox_queue::Due;

use crate::fixture::{Binding, Fixture, new_jobs, push_to};
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;
use crate::shutdown::{self, QUIET_LOG};

/// Jobs per push.
const BATCH: usize = 1_000;
/// Pause between two samples, which start after the last push.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Measures the family once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    results.add(Row::Sustained, fresh(settings, &[]).await?);
    Ok(())
}

/// Jobs per second on a fresh Redis with these extra arguments.
pub(crate) async fn fresh(settings: &Settings, redis_args: &[&str]) -> anyhow::Result<f64> {
    let mut fixture = Fixture::prepare_with(redis_args).await?;
    fixture.poll_interval = POLL_INTERVAL;
    let handler = settings.handler("noop-rust")?;
    let in_flight = settings.in_flight;
    let binding = Binding { handler: &handler, lines: "", in_flight, log: QUIET_LOG };
    let mut daemon = fixture.start_daemon(&binding)?;
    fixture.wait_until_served(&mut daemon).await?;
    let jobs = new_jobs("job", settings.jobs, settings.payload, |_| Due::Now)?;
    let started = Instant::now();
    for batch in jobs.chunks(BATCH) {
        push_to(&fixture.queue, &fixture.topic, batch).await?;
    }
    fixture.watch(&mut daemon).await.context("sustained")?;
    let took_s = started.elapsed().as_secs_f64();
    fixture.ensure_clean().await?;
    // One more for the job of `wait_until_served`.
    shutdown::stop_and_verify(std::slice::from_mut(&mut daemon), settings.jobs + 1)?;
    Ok(settings.jobs as f64 / took_s)
}
