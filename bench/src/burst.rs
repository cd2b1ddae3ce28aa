//! The burst: many jobs due at one instant, on a daemon that serves already. How long after that
//! instant is the last verdict settled, by Redis' clock?

use std::time::Duration;

use anyhow::{Context, ensure};
use duebox_queue::Due;

use crate::account::{self, QUIET};
use crate::figures::Figures;
use crate::ground::{Binding, Ground};
use crate::rows::Row;
use crate::settings::Settings;

/// How long after the push they fall due, ms.
const LEAD_MS: u64 = 1_500;

/// One repeat of the family.
pub(crate) async fn measure(settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    let mut ground = Ground::prepare().await?;
    ground.look_every = Duration::from_millis(1);
    let handler = settings.handler("noop-rust")?;
    let in_flight = settings.in_flight;
    let binding = Binding { handler: &handler, lines: "", in_flight, log: QUIET };
    let mut daemon = ground.start_daemon(&binding)?;
    ground.wait_until_served(&mut daemon).await?;
    let jobs = settings.burst_jobs;
    let due_ms = ground.now_ms().await? + LEAD_MS;
    ground.push("burst", jobs, settings.payload, |_| Due::At(due_ms)).await?;
    let samples = ground.watch(&mut daemon).await.context("burst")?;
    for sample in &samples {
        let untouched = sample.left == jobs && sample.leased == 0;
        ensure!(untouched || sample.redis_us >= due_ms * 1_000, "a job of the burst ran early");
    }
    let last = samples.last().context("the run was not looked at")?;
    ensure!(
        samples.len() > 1 && samples[0].left == jobs,
        "the burst began before it was looked at"
    );
    ground.ensure_clean().await?;
    account::close(std::slice::from_mut(&mut daemon), jobs + 1)?;
    figures.add(Row::BurstLast, last.redis_us.saturating_sub(due_ms * 1_000) as f64 / 1_000.0);
    Ok(())
}
