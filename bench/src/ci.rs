//! `./dev bench ci`: the short form for every change. It asserts what holds on any machine, however
//! busy: exact delivery, nothing early, few trips and commands a job, and ratios of figures of the same
//! run. Times are shown and not judged.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Parser;

use crate::drain::{self, RUST, WAYS};
use crate::figures::{Figures, median};
use crate::report::number;
use crate::rows::Row;
use crate::settings::Settings;
use crate::{backlog, burst, ceiling, lateness, sustained};

/// Checks delivery, trips and ratios in some seconds, as CI does
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The folder of noop-rust.wasm, noop-as.wasm and noop-go.wasm
    #[arg(long, default_value = "handlers/build")]
    handlers: PathBuf,
}

/// One thing that was checked.
struct Check {
    name: &'static str,
    found: f64,
    unit: &'static str,
    /// The least it may be; or the most, if `at_most`.
    bound: f64,
    at_most: bool,
}

/// Checks, and prints what was found; fails if a check does.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the bench's runtime")?;
    let checks = runtime.block_on(measure(&Settings::for_ci(&args.handlers)))?;
    let mut stdout = std::io::stdout().lock();
    for check in &checks {
        let word = if check.holds() { "pass" } else { "MISS" };
        let sign = if check.at_most { "≤" } else { "≥" };
        let Check { name, found, unit, bound, .. } = check;
        let found = number(*found);
        writeln!(stdout, "{name:<44} {found:>8} {unit:<2} {sign} {bound:<6} {word}")
            .context("cannot print the checks")?;
    }
    let missed = checks.iter().filter(|check| !check.holds()).count();
    ensure!(missed == 0, "{missed} checks do not hold");
    Ok(())
}

impl Check {
    fn holds(&self) -> bool {
        if self.at_most { self.found <= self.bound } else { self.found >= self.bound }
    }
}

async fn measure(settings: &Settings) -> anyhow::Result<Vec<Check>> {
    let jobs = settings.jobs as f64;
    let (mut shares, mut trips, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..settings.repeats {
        let drain = drain::fresh(settings, RUST, &[]).await.context("drain")?;
        let ceiling = ceiling::of(settings, settings.jobs, 128).await.context("ceiling")?;
        shares.push(100.0 * drain.per_s / ceiling.per_s);
        trips.push(drain.load.reads as f64 / jobs);
        commands.push(drain.load.commands as f64 / jobs);
    }
    for way in WAYS.into_iter().filter(|way| *way != RUST) {
        drain::fresh(settings, way, &[]).await.context(way.name)?;
    }
    let mut figures = Figures::default();
    // These fail by themselves if a job is lost, repeated or early.
    sustained::measure(settings, &mut figures).await.context("sustained")?;
    lateness::measure(settings, &mut figures).await.context("lateness")?;
    burst::measure(settings, &mut figures).await.context("burst")?;
    backlog::measure(settings, &mut figures).await.context("backlog")?;
    let beside = figures.spread(Row::BacklogDrain).context("no drain beside the backlog")?;
    let at_least = |name, found, bound| Check { name, found, unit: "%", bound, at_most: false };
    let at_most = |name, found, bound| Check { name, found, unit: "", bound, at_most: true };
    Ok(vec![
        at_least("drain, part of the ceiling", middle(shares), 25.0),
        // The best of them: what else the machine does makes a run slower, never faster.
        at_least("drain beside 100,000 waiting jobs", beside.max, 60.0),
        at_most("Redis round trips a job", middle(trips), 0.02),
        at_most("Redis commands a job, inside scripts too", middle(commands), 0.2),
    ])
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    median(&figures)
}
