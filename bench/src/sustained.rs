//! Sustained: jobs pushed in batches while the daemon runs them, the pusher on the same cores. From
//! the first push to the last verdict.

use std::time::{Duration, Instant};

use anyhow::Context;
use duebox_queue::Due;

use crate::account::{self, QUIET};
use crate::figures::Figures;
use crate::ground::{Binding, Ground, new_jobs, push_to};
use crate::rows::Row;
use crate::settings::Settings;

/// Jobs that share a push.
const BATCH: usize = 1_000;
/// How often the end is looked for; the looks begin when the last job has been pushed.
const LOOK: Duration = Duration::from_millis(2);

/// One repeat of the family.
pub(crate) async fn measure(settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    figures.add(Row::Sustained, fresh(settings, &[]).await?);
    Ok(())
}

/// Jobs per second on a Redis of its own with these arguments.
pub(crate) async fn fresh(settings: &Settings, redis_args: &[&str]) -> anyhow::Result<f64> {
    let mut ground = Ground::prepare_with(redis_args).await?;
    ground.look_every = LOOK;
    let handler = settings.handler("noop-rust")?;
    let in_flight = settings.in_flight;
    let binding = Binding { handler: &handler, lines: "", in_flight, log: QUIET };
    let mut daemon = ground.start_daemon(&binding)?;
    ground.wait_until_served(&mut daemon).await?;
    let jobs = new_jobs("job", settings.jobs, settings.payload, |_| Due::Now)?;
    let started = Instant::now();
    for batch in jobs.chunks(BATCH) {
        push_to(&ground.queue, &ground.topic, batch).await?;
    }
    ground.watch(&mut daemon).await.context("sustained")?;
    let took_s = started.elapsed().as_secs_f64();
    ground.ensure_clean().await?;
    // The one more is that of wait_until_served.
    account::close(std::slice::from_mut(&mut daemon), settings.jobs + 1)?;
    Ok(settings.jobs as f64 / took_s)
}
