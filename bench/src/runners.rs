//! Two daemons on one Redis against one: jobs wait in a paused topic until all daemons are ready;
//! from its going on to the last verdict.

use anyhow::Context;
use duebox_queue::Due;

use crate::account::{self, QUIET};
use crate::drain::rates;
use crate::figures::Figures;
use crate::ground::{Binding, Ground};
use crate::rows::Row;
use crate::settings::Settings;

/// One repeat of the family.
pub(crate) async fn measure(settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    let (one, _) = drain(settings, 1).await.context("one daemon")?;
    let (two, busy_percent) = drain(settings, 2).await.context("two daemons")?;
    figures.add(Row::RunnersRatio, two / one);
    figures.add(Row::RunnersRate, two);
    figures.add(Row::RunnersRedis, busy_percent);
    Ok(())
}

/// Jobs per second, and how busy Redis was meanwhile, in percent of a core.
async fn drain(settings: &Settings, count: usize) -> anyhow::Result<(f64, f64)> {
    let ground = Ground::prepare().await?;
    ground.push("job", settings.jobs, settings.payload, |_| Due::Now).await?;
    ground.queue.pause(&ground.topic).await?;
    let handler = settings.handler("noop-rust")?;
    let in_flight = settings.in_flight;
    let binding = Binding { handler: &handler, lines: "", in_flight, log: QUIET };
    let mut daemons = Vec::with_capacity(count);
    for _ in 0..count {
        daemons.push(ground.start_daemon(&binding)?);
    }
    for daemon in &daemons {
        daemon.wait_for_line("it is ready", |line| line.message() == "ready");
    }
    let before = ground.load().await?;
    ground.queue.resume(&ground.topic).await?;
    let samples = ground.watch_all(&mut daemons).await?;
    let load = ground.load_since(before, samples.len()).await?;
    ground.ensure_clean().await?;
    account::close(&mut daemons, settings.jobs)?;
    let took_s = samples.last().context("the run was not looked at")?.at.as_secs_f64();
    Ok((rates(&samples, settings.jobs)?.0, 100.0 * load.cpu_s / took_s))
}
