//! Lateness: jobs that each fall due at a millisecond of their own, on an otherwise idle daemon.
//! Measures how late each starts, as the daemon reports it, and when its verdict is logged.

use std::collections::HashMap;

use anyhow::{Context, ensure};
use duebox_harness::LogLine;
use duebox_queue::Due;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::fixture::{Binding, Fixture};
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;

/// From the push to the first due time, in ms.
const LEAD_MS: u64 = 1_000;

/// Result of one run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Lateness {
    /// From due time to start, as the daemon reports it.
    pub(crate) reported: Quantiles,
    /// From due time to the verdict's log line, by the clock of the log; never less than
    /// `reported`.
    pub(crate) logged: Quantiles,
    /// Cumulative distribution of `reported`: lateness in ms and percent of the jobs.
    #[serde(skip)]
    pub(crate) curve: Vec<(f64, f64)>,
}

/// Quantiles of a duration, ms.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

/// Measures the family once.
pub(crate) async fn measure(
    settings: &Settings,
    results: &mut Results,
) -> anyhow::Result<Lateness> {
    let lateness = fresh(settings, &[]).await?;
    for (row, figure) in [
        (Row::LateP50, lateness.reported.p50_ms),
        (Row::LateP99, lateness.reported.p99_ms),
        (Row::LateMax, lateness.reported.max_ms),
        (Row::LoggedP50, lateness.logged.p50_ms),
        (Row::LoggedP99, lateness.logged.p99_ms),
    ] {
        results.add(row, figure);
    }
    Ok(lateness)
}

/// Runs on a fresh Redis with these extra arguments.
pub(crate) async fn fresh(settings: &Settings, redis_args: &[&str]) -> anyhow::Result<Lateness> {
    let fixture = Fixture::prepare_with(redis_args).await?;
    on(&fixture, settings).await
}

/// Runs on this fixture.
pub(crate) async fn on(fixture: &Fixture, settings: &Settings) -> anyhow::Result<Lateness> {
    let Settings { due_jobs, spread_ms, payload, in_flight, .. } = *settings;
    let handler = settings.handler("noop-rust")?;
    let binding = Binding { handler: &handler, lines: "", in_flight, log: "info" };
    let mut daemon = fixture.start_daemon(&binding)?;
    fixture.wait_until_served(&mut daemon).await?;
    let now_ms = fixture.now_ms().await?;
    let due_ms = |number| now_ms + LEAD_MS + number * spread_ms / due_jobs;
    fixture.push("due", due_jobs, payload, |number| Due::At(due_ms(number))).await?;
    fixture.watch(&mut daemon).await.context("lateness")?;
    fixture.ensure_clean().await?;
    let status = daemon.terminate();
    ensure!(status.success(), "the daemon did not stop cleanly: {status}");
    let due_of: HashMap<String, u64> =
        (0..due_jobs).map(|number| (format!("due-{number:08}"), due_ms(number))).collect();
    read(&daemon.lines(), &due_of)
}

/// Reads the verdict lines; fails unless each job has exactly one, an ack that is not early.
pub(crate) fn read(lines: &[LogLine], due_of: &HashMap<String, u64>) -> anyhow::Result<Lateness> {
    let mut reported = histogram()?;
    let mut logged = histogram()?;
    let mut seen = HashMap::with_capacity(due_of.len());
    for line in lines {
        let id = line.str("job_id");
        let (Some(due_ms), verdict) = (due_of.get(id), line.str("verdict")) else { continue };
        if verdict.is_empty() {
            continue;
        }
        ensure!(verdict == "ack", "job {id} ended with {verdict}: {}", line.text());
        ensure!(seen.insert(id, ()).is_none(), "job {id} ran twice");
        let late_ms = line.field("late_ms").as_f64().context("a verdict line has no late_ms")?;
        ensure!(late_ms >= 0.0, "job {id} started {} ms early", -late_ms);
        let at: jiff::Timestamp =
            line.str("timestamp").parse().context("a verdict line has no timestamp")?;
        let after_us = at.as_microsecond() - i64::try_from(*due_ms)? * 1_000;
        ensure!(after_us >= 0, "the verdict of job {id} was logged before it was due");
        reported.record((late_ms * 1_000.0) as u64)?;
        logged.record(u64::try_from(after_us)?)?;
    }
    ensure!(seen.len() == due_of.len(), "{} of {} jobs have a verdict", seen.len(), due_of.len());
    Ok(Lateness {
        reported: Quantiles::of(&reported),
        logged: Quantiles::of(&logged),
        curve: curve(&reported),
    })
}

/// Cumulative distribution: lateness in ms and percent of the jobs at most that late.
pub(crate) fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let percents = (1..=99).map(f64::from).chain([99.5, 99.9, 100.0]);
    let late_ms = |percent: f64| histogram.value_at_quantile(percent / 100.0) as f64 / 1_000.0;
    percents.map(|percent| (late_ms(percent), percent)).collect()
}

pub(crate) fn histogram() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_max(3_600_000_000, 3)?)
}

impl Quantiles {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let ms = |us: u64| us as f64 / 1_000.0;
        Self {
            p50_ms: ms(histogram.value_at_quantile(0.5)),
            p99_ms: ms(histogram.value_at_quantile(0.99)),
            max_ms: ms(histogram.max()),
        }
    }
}
