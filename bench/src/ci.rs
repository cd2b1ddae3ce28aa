//! `./dev bench ci`: the short form that every change must pass. It asserts what holds on any
//! machine, however busy: exact delivery, nothing early, few round trips and commands per job, and
//! ratios between results of the same run. It shows times without judging them.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use clap::Parser;

use crate::drain::{self, RUST, VARIANTS};
use crate::report::number;
use crate::results::{Results, median};
use crate::rows::Row;
use crate::settings::Settings;
use crate::{backlog, burst, ceiling, lateness, sustained};

/// Checks delivery, round trips and ratios in under 90 seconds, as CI does
#[derive(Debug, Parser)]
pub(crate) struct CiArgs {
    /// Folder with noop-rust.wasm, noop-as.wasm and noop-go.wasm
    #[arg(long, default_value = "handlers/build")]
    handlers: PathBuf,
}

/// One condition and the value found.
struct Check {
    name: &'static str,
    found: f64,
    unit: &'static str,
    /// The minimum, or the maximum if `at_most`.
    bound: f64,
    at_most: bool,
}

/// Runs the checks and prints them; fails if one does not hold.
pub(crate) fn run(args: &CiArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the Tokio runtime")?;
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
    for variant in VARIANTS.into_iter().filter(|variant| *variant != RUST) {
        drain::fresh(settings, variant, &[]).await.context(variant.name)?;
    }
    let mut results = Results::default();
    // These fail by themselves if a job is lost, repeated or early.
    sustained::measure(settings, &mut results).await.context("sustained")?;
    lateness::measure(settings, &mut results).await.context("lateness")?;
    burst::measure(settings, &mut results).await.context("burst")?;
    backlog::measure(settings, &mut results).await.context("backlog")?;
    let with_backlog = results.spread(Row::BacklogDrain).context("no drain with a backlog")?;
    let at_least = |name, found, bound| Check { name, found, unit: "%", bound, at_most: false };
    let at_most = |name, found, bound| Check { name, found, unit: "", bound, at_most: true };
    Ok(vec![
        at_least("drain, share of the ceiling", median_of(shares), 25.0),
        // The best of the repeats: other load on the machine makes a run slower, never faster.
        at_least("drain with 100,000 pending jobs", with_backlog.max, 60.0),
        at_most("Redis round trips per job", median_of(trips), 0.02),
        at_most("Redis commands per job, scripts included", median_of(commands), 0.2),
    ])
}

fn median_of(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    median(&values)
}
