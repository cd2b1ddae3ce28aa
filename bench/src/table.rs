//! What `./dev bench` runs without a word more: every family, repeat by repeat, and the report.
//!
//! Each repeat goes through all families, so that what wanders on the machine meets them alike; what
//! is drawn or built up once (the backlog, the plots) comes after.

use std::io::Write as _;

use anyhow::Context;

use crate::figures::{Figures, Line, Plot};
use crate::report::{self, Report, number};
use crate::rows::{Family, Row};
use crate::settings::Settings;
use crate::{
    Args, backlog, batches, burst, cost, drain, durability, lateness, memory, page, peers, push,
    runners, say, sustained, topics,
};

/// Families that each repeat goes through.
const REPEATED: [Family; 10] = [
    Family::Drain,
    Family::Sustained,
    Family::Push,
    Family::Lateness,
    Family::Burst,
    Family::Topics,
    Family::Idle,
    Family::Memory,
    Family::Runners,
    Family::Durability,
];
/// Families that are measured once.
const ONCE: [Family; 3] = [Family::Backlog, Family::Batches, Family::Cost];

/// Measures, prints the table and writes the results.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let settings = Settings::new(args);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the bench's runtime")?;
    let report = if args.peers {
        let mut report = Report::new(&settings, Figures::default());
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

/// Measures the families that are wanted.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Figures> {
    let mut figures = Figures::default();
    let mut lines = Vec::new();
    for number in 1..=settings.repeats {
        say(&format!("repeat {number} of {}", settings.repeats));
        for family in REPEATED.into_iter().filter(|family| settings.wants(*family)) {
            let curve = repeat(family, settings, &mut figures).await;
            lines.extend(curve.with_context(|| format!("{family:?}"))?);
            tell(family, &figures);
        }
    }
    for family in ONCE.into_iter().filter(|family| settings.wants(*family)) {
        once(family, settings, &mut figures).await.with_context(|| format!("{family:?}"))?;
        tell(family, &figures);
    }
    for (number, points) in lines.into_iter().enumerate() {
        let name = format!("run {}", number + 1);
        figures.lines.push(Line { plot: Plot::Lateness, name, points });
    }
    Ok(figures)
}

/// The curve of a plot.
type Curve = Vec<(f64, f64)>;

/// One repeat of a family, and the distribution of lateness if that is what was measured.
async fn repeat(
    family: Family,
    settings: &Settings,
    figures: &mut Figures,
) -> anyhow::Result<Option<Curve>> {
    match family {
        Family::Drain => drain::measure(settings, figures).await?,
        Family::Sustained => sustained::measure(settings, figures).await?,
        Family::Push => push::measure(settings, figures).await?,
        Family::Lateness => return Ok(Some(lateness::measure(settings, figures).await?.curve)),
        Family::Burst => burst::measure(settings, figures).await?,
        Family::Topics => topics::measure(settings, figures).await?,
        Family::Idle => topics::measure_idle(settings, figures).await?,
        Family::Memory => memory::measure(settings, figures).await?,
        Family::Runners => runners::measure(settings, figures).await?,
        Family::Durability => durability::measure(settings, figures).await?,
        Family::Backlog | Family::Batches | Family::Cost => {}
    }
    Ok(None)
}

async fn once(family: Family, settings: &Settings, figures: &mut Figures) -> anyhow::Result<()> {
    match family {
        Family::Backlog => backlog::measure(settings, figures).await,
        Family::Batches => batches::measure(settings, figures).await,
        Family::Cost => cost::measure(settings, figures).await,
        _ => Ok(()),
    }
}

/// Says the latest figures of a family, for who waits.
fn tell(family: Family, figures: &Figures) {
    for row in Row::ALL.iter().filter(|row| row.spec().family == family) {
        if let Some(latest) = figures.of(*row).last() {
            let spec = row.spec();
            say(&format!("  {:<48} {:>10} {}", spec.name.trim(), number(*latest), spec.unit));
        }
    }
}
