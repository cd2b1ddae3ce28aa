//! `./dev bench reload`: the time from a module or a source renamed into place to its first job, on the real
//! daemon with jobs arriving all the time, and how much of that is compilation.
//!
//! Each repeat writes a new build: the handler with another custom section, or a source with another comment. Its
//! first job is the first verdict line with a new digest. Compilation is measured here, alone, on another new
//! build. A job that is not acked fails the bench.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use duebox_harness::{Daemon, LogLine};
use duebox_queue::Due;
use duebox_sandbox::{Grants, Limits, Sandbox, SandboxConfig};

use crate::builds::distinct_build;
use crate::fixture::{Binding, Fixture};
use crate::results::median;

/// Upper bound for the time without compilation, ms.
const WITHOUT_COMPILING_MAX_MS: f64 = 150.0;
/// The sources: a name, the ending of the file, what begins a comment, the source, and the upper bound in ms.
const SOURCES: [(&str, &str, &str, &str, f64); 2] = [
    (
        "TypeScript",
        "ts",
        "//",
        "export default (): void => {};\nexport const payload = 'text';\n",
        150.0,
    ),
    ("Python", "py", "#", "payload = 'text'\ndef handle(order): pass\n", 400.0),
];
/// Pause between two jobs.
const BETWEEN_JOBS: Duration = Duration::from_millis(1);
/// The bench fails if the new module runs no job for this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures the time from writing a module to its first job
#[derive(Debug, Parser)]
pub(crate) struct ReloadArgs {
    /// Number of repeats; the table shows the median
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    repeats: u64,
    /// Handler module
    #[arg(long, default_value = "handlers/build/noop-rust.wasm")]
    handler: PathBuf,
}

/// One reload, times in ms.
struct Reload {
    whole_ms: f64,
    compile_ms: f64,
}

/// Measures and prints the table.
pub(crate) fn run(args: &ReloadArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the Tokio runtime")?;
    let reloads = runtime.block_on(measure(args))?;
    let mut text = table(&reloads);
    for (name, ending, comment, source, most) in SOURCES {
        let build = |number| format!("{comment} build {number}\n{source}").into_bytes();
        let took = runtime.block_on(sources_ms(args, ending, build))?;
        let row = format!("{name}, from file saved to first job");
        text += &line(&row, &took, &|middle| judged(middle, most));
    }
    let mut stdout = std::io::stdout().lock();
    write!(stdout, "{text}").context("cannot print the table")
}

/// Times in ms from a saved source to its first job.
async fn sources_ms(
    args: &ReloadArgs,
    ending: &str,
    build: impl Fn(u64) -> Vec<u8>,
) -> anyhow::Result<Vec<f64>> {
    let fixture = Fixture::prepare().await?;
    let folder = tempfile::tempdir().context("cannot create a directory for the source")?;
    let file = folder.path().join("handler").with_extension(ending);
    std::fs::write(&file, build(0))?;
    let mut daemon = fixture.start_daemon(&Binding {
        handler: &file,
        lines: "",
        in_flight: 256,
        log: "info",
    })?;
    fixture.wait_until_served(&mut daemon).await?;
    let mut took = Vec::new();
    for number in 1..=args.repeats + 1 {
        took.push(first_job_ms(&fixture, &daemon, &file, &build(number), number).await?);
    }
    fixture.watch(&mut daemon).await.context("reload")?;
    ensure!(daemon.terminate().success(), "the daemon did not stop cleanly");
    Ok(took.split_off(1))
}

async fn measure(args: &ReloadArgs) -> anyhow::Result<Vec<Reload>> {
    let handler = std::fs::read(&args.handler).with_context(|| {
        format!("no handler at {}; run: ./dev handlers noop-rust", args.handler.display())
    })?;
    let fixture = Fixture::prepare().await?;
    let folder = tempfile::tempdir().context("cannot create a directory for the module")?;
    let file = folder.path().join("handler.wasm");
    std::fs::write(&file, &handler)?;
    let mut daemon = fixture.start_daemon(&Binding {
        handler: &file,
        lines: "",
        in_flight: 256,
        log: "info",
    })?;
    fixture.wait_until_served(&mut daemon).await?;
    let mut reloads = Vec::new();
    for number in 0..=args.repeats {
        let compile_ms = compile_ms(&distinct_build(&handler, 2 * number))?;
        let whole_ms = first_job_ms(
            &fixture,
            &daemon,
            &file,
            &distinct_build(&handler, 2 * number + 1),
            number,
        )
        .await?;
        reloads.push(Reload { whole_ms, compile_ms });
    }
    fixture.watch(&mut daemon).await.context("reload")?;
    ensure!(daemon.terminate().success(), "the daemon did not stop cleanly");
    // The first repeat only warms caches and pools.
    Ok(reloads.split_off(1))
}

fn compile_ms(module: &[u8]) -> anyhow::Result<f64> {
    let limits = Limits::default();
    let sandbox = Sandbox::new(&SandboxConfig {
        max_jobs: 256,
        memory_max: limits.memory,
        tables_max: limits.tables,
    })?;
    let began = Instant::now();
    let handler = sandbox.load(module, limits, Grants::default())?;
    let took = began.elapsed();
    drop(handler);
    Ok(took.as_secs_f64() * 1e3)
}

/// Renames a module into place while jobs arrive, and waits for its first verdict.
async fn first_job_ms(
    fixture: &Fixture,
    daemon: &Daemon,
    file: &Path,
    module: &[u8],
    number: u64,
) -> anyhow::Result<f64> {
    let verdicts = |line: &LogLine| !line.str("verdict").is_empty();
    let known: BTreeSet<String> = daemon
        .lines()
        .iter()
        .filter(|line| verdicts(line))
        .map(|line| line.str("digest").to_owned())
        .collect();
    let aside = file.with_extension("new");
    std::fs::write(&aside, module)?;
    let written = jiff::Timestamp::now();
    std::fs::rename(&aside, file)?;
    let began = Instant::now();
    let is_its = |line: &LogLine| verdicts(line) && !known.contains(line.str("digest"));
    for job in 0.. {
        fixture.push(&format!("r{number}-{job}"), 1, 200, |_| Due::Now).await?;
        tokio::time::sleep(BETWEEN_JOBS).await;
        if daemon.count(is_its) > 0 {
            break;
        }
        ensure!(began.elapsed() < PATIENCE, "the new module ran no job within {PATIENCE:?}");
    }
    let first = daemon.wait_for_line("the first job", is_its);
    ensure!(first.has("verdict", "ack"), "a job was not acked: {}", first.text());
    let at: jiff::Timestamp =
        first.str("timestamp").parse().context("a verdict line has no timestamp")?;
    Ok((at.as_microsecond() - written.as_microsecond()) as f64 / 1e3)
}

fn table(reloads: &[Reload]) -> String {
    let row = |name: &str, figure: &dyn Fn(&Reload) -> f64, judged: &dyn Fn(f64) -> String| {
        let figures: Vec<f64> = reloads.iter().map(figure).collect();
        line(name, &figures, judged)
    };
    let unjudged = |_| String::new();
    let without = |middle| judged(middle, WITHOUT_COMPILING_MAX_MS);
    format!(
        "a module or source renamed into place while jobs arrive, median of {} (min–max)\n\n{}{}{}",
        reloads.len(),
        row("from file written to first job", &|reload| reload.whole_ms, &unjudged),
        row("compilation, alone", &|reload| reload.compile_ms, &unjudged),
        row(
            "the time without compilation",
            &|reload| reload.whole_ms - reload.compile_ms,
            &without
        ),
    )
}

fn judged(middle: f64, most: f64) -> String {
    format!("≤ {most} {}", if middle <= most { "pass" } else { "MISS" })
}

/// A row: the median of figures in ms, and their range.
fn line(name: &str, figures: &[f64], judged: &dyn Fn(f64) -> String) -> String {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (figures.first(), figures.last()) else {
        return String::new();
    };
    let middle = median(&figures);
    format!("{name:<40} {middle:>8.1} ms  ({least:.1}–{most:.1})  {}\n", judged(middle))
}
