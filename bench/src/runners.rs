//! Two daemons on one Redis compared with one. Jobs wait in a paused topic until all daemons are
//! ready; the time is taken from resuming the topic to the last verdict.

use anyhow::Context;
use duebox_queue::Due;

use crate::drain::rates;
use crate::fixture::{Binding, Fixture};
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;
use crate::shutdown::{self, QUIET_LOG};

/// Measures the family once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let (one, _) = drain(settings, 1).await.context("one daemon")?;
    let (two, busy_percent) = drain(settings, 2).await.context("two daemons")?;
    results.add(Row::RunnersRatio, two / one);
    results.add(Row::RunnersRate, two);
    results.add(Row::RunnersRedis, busy_percent);
    Ok(())
}

/// Jobs per second, and Redis' CPU time in percent of a core.
async fn drain(settings: &Settings, count: usize) -> anyhow::Result<(f64, f64)> {
    let fixture = Fixture::prepare().await?;
    fixture.push("job", settings.jobs, settings.payload, |_| Due::Now).await?;
    fixture.queue.pause(&fixture.topic).await?;
    let handler = settings.handler("noop-rust")?;
    let in_flight = settings.in_flight;
    let binding = Binding { handler: &handler, lines: "", in_flight, log: QUIET_LOG };
    let mut daemons = Vec::with_capacity(count);
    for _ in 0..count {
        daemons.push(fixture.start_daemon(&binding)?);
    }
    for daemon in &daemons {
        daemon.wait_for_line("it is ready", |line| line.message() == "ready");
    }
    let before = fixture.load().await?;
    fixture.queue.resume(&fixture.topic).await?;
    let samples = fixture.watch_all(&mut daemons).await?;
    let load = fixture.load_since(before, samples.len()).await?;
    fixture.ensure_clean().await?;
    shutdown::stop_and_verify(&mut daemons, settings.jobs)?;
    let took_s = samples.last().context("the run has no samples")?.at.as_secs_f64();
    Ok((rates(&samples, settings.jobs)?.0, 100.0 * load.cpu_s / took_s))
}
