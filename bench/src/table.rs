//! `./dev bench` without a subcommand: every family, repeat by repeat, and the report.
//!
//! Each repeat runs all families, so that slow changes of the machine affect them alike. Families
//! that are measured once (the backlog, the plots) come last.

use std::io::Write as _;

use anyhow::Context;

use crate::report::{self, Report, number};
use crate::results::{Line, Plot, Results};
use crate::rows::{Family, Row};
use crate::settings::Settings;
use crate::{
    BenchArgs, backlog, batches, burst, cost, drain, durability, lateness, memory, open_page, page,
    peers, push, runners, say, sustained, topics, topologies, work,
};

/// Families measured in each repeat.
const REPEATED: [Family; 15] = [
    Family::Drain,
    Family::Work,
    Family::Sustained,
    Family::Push,
    Family::Lateness,
    Family::Burst,
    Family::Topics,
    Family::Idle,
    Family::Page,
    Family::Memory,
    Family::Runners,
    Family::Durability,
    Family::Copies,
    Family::Tls,
    Family::Cluster,
];
/// Families measured once.
const ONCE: [Family; 3] = [Family::Backlog, Family::Batches, Family::Cost];

/// Measures, prints the table and writes the results.
pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let settings = Settings::new(args);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the Tokio runtime")?;
    let report = if args.peers {
        let mut report = Report::new(&settings, Results::default());
        report.peers = runtime.block_on(peers::measure(&settings))?;
        report
    } else {
        Report::new(&settings, runtime.block_on(measure(&settings))?)
    };
    let file = report::write(&args.results, &report.at, &report)?;
    let name = format!("{}.html", report.at);
    let page = report::write_text(&args.results, &name, &page::html(&report)?)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{report}\nresults: {}, {}", file.display(), page.display())
        .context("cannot print the report")
}

/// Measures the selected families.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Results> {
    let mut results = Results::default();
    let mut lines = Vec::new();
    for number in 1..=settings.repeats {
        say(&format!("repeat {number} of {}", settings.repeats));
        for family in REPEATED.into_iter().filter(|family| settings.wants(*family)) {
            let curve = repeat(family, settings, &mut results).await;
            lines.extend(curve.with_context(|| format!("{family:?}"))?);
            print_progress(family, &results);
        }
    }
    for family in ONCE.into_iter().filter(|family| settings.wants(*family)) {
        once(family, settings, &mut results).await.with_context(|| format!("{family:?}"))?;
        print_progress(family, &results);
    }
    for (number, points) in lines.into_iter().enumerate() {
        let name = format!("run {}", number + 1);
        results.lines.push(Line { plot: Plot::Lateness, name, points });
    }
    Ok(results)
}

/// Points of a plotted curve.
type Curve = Vec<(f64, f64)>;

/// Measures one repeat of a family; returns the distribution if the family is lateness.
async fn repeat(
    family: Family,
    settings: &Settings,
    results: &mut Results,
) -> anyhow::Result<Option<Curve>> {
    match family {
        Family::Drain => drain::measure(settings, results).await?,
        Family::Work => work::measure(settings, results).await?,
        Family::Sustained => sustained::measure(settings, results).await?,
        Family::Push => push::measure(settings, results).await?,
        Family::Lateness => return Ok(Some(lateness::measure(settings, results).await?.curve)),
        Family::Burst => burst::measure(settings, results).await?,
        Family::Topics => topics::measure(settings, results).await?,
        Family::Idle => topics::measure_idle(settings, results).await?,
        Family::Page => open_page::measure(settings, results).await?,
        Family::Memory => memory::measure(settings, results).await?,
        Family::Runners => runners::measure(settings, results).await?,
        Family::Durability => durability::measure(settings, results).await?,
        Family::Copies => topologies::measure_copies(settings, results).await?,
        Family::Tls => topologies::measure_tls(settings, results).await?,
        Family::Cluster => topologies::measure_cluster(settings, results).await?,
        Family::Backlog | Family::Batches | Family::Cost => {}
    }
    Ok(None)
}

async fn once(family: Family, settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    match family {
        Family::Backlog => backlog::measure(settings, results).await,
        Family::Batches => batches::measure(settings, results).await,
        Family::Cost => cost::measure(settings, results).await,
        _ => Ok(()),
    }
}

/// Prints the latest values of a family.
fn print_progress(family: Family, results: &Results) {
    for row in Row::ALL.iter().filter(|row| row.spec().family == family) {
        if let Some(latest) = results.of(*row).last() {
            let spec = row.spec();
            say(&format!("  {:<48} {:>10} {}", spec.name.trim(), number(*latest), spec.unit));
        }
    }
}
