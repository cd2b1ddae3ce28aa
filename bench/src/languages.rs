//! `./dev bench languages`: what source handlers compute in the sandbox, compared with Node and CPython.
//!
//! The works are in `bench/languages`, once in each language. A job does one work several times; its processor time
//! is divided by their number. A work that returns something else fails the bench.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Parser;
use duebox::language::SourceHandler;
use duebox_job::Outcome;
use duebox_sandbox::{
    Grants, Handler, HostServices, Instances, Interrupt, Limits, Sandbox, SandboxConfig,
};

use crate::machine::Machine;
use crate::results::median;
use crate::sandbox::{DiscardLog, job, processor_time};

/// Memory of a handler: the documents of the works are kept in it.
const MEMORY: usize = 128 << 20;
/// The most that one job repeats its work.
const TIMES_MAX: u32 = 1_000;

/// Measures what source handlers compute, compared with Node and CPython
#[derive(Debug, Parser)]
pub(crate) struct LanguagesArgs {
    /// Number of repeats; the table shows the median
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    repeats: u64,
    /// Processor time of each measurement in ms
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=5_000))]
    millis: u64,
    /// Folder of the works
    #[arg(long, default_value = "bench/languages")]
    works: PathBuf,
}

/// Milliseconds of a work, by its name.
type Figures = BTreeMap<String, f64>;

/// Measures and prints the table, in the form of the docs.
pub(crate) fn run(args: &LanguagesArgs) -> anyhow::Result<()> {
    let node = peer(args, "node", "time.mjs")?;
    let python = peer(args, "python3", "time.py")?;
    let names: Vec<String> = node.keys().cloned().collect();
    ensure!(python.keys().eq(&names), "the two languages have other works");
    let javascript = in_sandbox(args, "compute.mjs", &names)?;
    let rustpython = in_sandbox(args, "compute.py", &names)?;
    let machine = Machine::of_this();
    let mut text = format!(
        "ms of processor time, median of {}; {}, {} cores; Node {}, {}\n\n\
         | work | JavaScript | Node | | Python | CPython | |\n|---|---|---|---|---|---|---|\n",
        args.repeats,
        machine.processor,
        machine.cores,
        version("node")?,
        version("python3")?
    );
    for name in &names {
        let pair = |ours: &Figures, theirs: &Figures| -> anyhow::Result<String> {
            let figure = |of: &Figures| of.get(name).copied().with_context(|| format!("no {name}"));
            let (ours, theirs) = (figure(ours)?, figure(theirs)?);
            Ok(format!("{} | {} | {:.1} ×", shown(ours), shown(theirs), ours / theirs))
        };
        let (first, second) = (pair(&javascript, &node)?, pair(&rustpython, &python)?);
        text.push_str(&format!("| {name} | {first} | {second} |\n"));
    }
    let mut stdout = std::io::stdout().lock();
    write!(stdout, "{text}").context("cannot print the table")
}

fn shown(ms: f64) -> String {
    if ms < 1.0 { format!("{ms:.2}") } else { format!("{ms:.1}") }
}

fn version(program: &str) -> anyhow::Result<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.with_context(|| format!("{program} is missing; install it"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().trim_start_matches('v').to_owned())
}

/// The figures of a program that does the works itself.
fn peer(args: &LanguagesArgs, program: &str, script: &str) -> anyhow::Result<Figures> {
    let mut command = Command::new(program);
    command.arg(args.works.join(script)).arg(args.millis.to_string());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().with_context(|| format!("{program} is missing; install it"))?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {script} fails: {problem}");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let figure = |line: &str| {
        let (name, ms) = line.split_once('\t')?;
        Some((name.to_owned(), ms.parse().ok()?))
    };
    let figures: Option<Figures> = lines.lines().map(figure).collect();
    figures.with_context(|| format!("{script} prints something else: {lines}"))
}

/// The figures of a source handler, a job at a time.
fn in_sandbox(args: &LanguagesArgs, file: &str, works: &[String]) -> anyhow::Result<Figures> {
    let config = SandboxConfig { max_jobs: 4, memory_max: MEMORY, tables_max: 100_000 };
    let sandbox = Sandbox::new(&config)?;
    let instances = Instances { snapshot: true, jobs_each: 1 };
    let limits = Limits { instances, memory: MEMORY, ..Limits::default() };
    let path = Path::new(&args.works).join(file);
    let source = SourceHandler::read(&sandbox, &path, &limits)?;
    let handler = source.load(&sandbox, limits, Grants::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut figures = Figures::new();
    for work in works {
        let once = |times| runtime.block_on(cost_ms(&handler, work, times));
        // The first job only warms caches.
        once(1)?;
        let wanted = (args.millis as f64 / once(1)?).clamp(1.0, f64::from(TIMES_MAX));
        let measured = (0..args.repeats).map(|_| once(wanted as u32));
        let mut measured = measured.collect::<anyhow::Result<Vec<f64>>>()?;
        measured.sort_by(f64::total_cmp);
        figures.insert(work.clone(), median(&measured));
    }
    Ok(figures)
}

/// Processor time of a work, ms: of a job that does it `times` times.
async fn cost_ms(handler: &Handler, work: &str, times: u32) -> anyhow::Result<f64> {
    let payload = serde_json::json!({ "work": work, "times": times }).to_string();
    let services = Arc::new(HostServices::with_logs(Arc::new(DiscardLog)));
    let before: Duration = processor_time();
    let report = handler.run(job(Bytes::from(payload))?, Interrupt::new(), services).await;
    let used = processor_time() - before;
    ensure!(report.outcome == Outcome::Acked, "{work}: {:?}", report.outcome);
    Ok(used.as_secs_f64() * 1e3 / f64::from(times))
}
