//! The burst: many jobs due at one instant, on a daemon that already serves the topic. Measures the
//! time from that instant to the last settled verdict, by Redis' clock.

use std::time::Duration;

use anyhow::{Context, ensure};
use duebox_queue::Due;

use crate::fixture::{Binding, Fixture};
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;
use crate::shutdown::{self, QUIET_LOG};

/// From the push to the due time, in ms.
const LEAD_MS: u64 = 1_500;

/// Measures the family once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let mut fixture = Fixture::prepare().await?;
    fixture.poll_interval = Duration::from_millis(1);
    let handler = settings.handler("noop-rust")?;
    let in_flight = settings.in_flight;
    let binding = Binding { handler: &handler, lines: "", in_flight, log: QUIET_LOG };
    let mut daemon = fixture.start_daemon(&binding)?;
    fixture.wait_until_served(&mut daemon).await?;
    let jobs = settings.burst_jobs;
    let due_ms = fixture.now_ms().await? + LEAD_MS;
    fixture.push("burst", jobs, settings.payload, |_| Due::At(due_ms)).await?;
    let samples = fixture.watch(&mut daemon).await.context("burst")?;
    for sample in &samples {
        let untouched = sample.left == jobs && sample.leased == 0;
        ensure!(untouched || sample.redis_us >= due_ms * 1_000, "a job of the burst started early");
    }
    let last = samples.last().context("the run has no samples")?;
    ensure!(
        samples.len() > 1 && samples[0].left == jobs,
        "the burst started before the first sample"
    );
    fixture.ensure_clean().await?;
    shutdown::stop_and_verify(std::slice::from_mut(&mut daemon), jobs + 1)?;
    results.add(Row::BurstLast, last.redis_us.saturating_sub(due_ms * 1_000) as f64 / 1_000.0);
    Ok(())
}
