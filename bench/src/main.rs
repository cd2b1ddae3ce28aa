//! What `./dev bench` runs: the real daemon on a Redis of its own, measured from outside.
//!
//! Each repeat is three fresh runs: a drain of ready jobs, jobs that fall due one by one, and the
//! same drain by a client without handlers, which shows what Redis itself allows. Nothing is taken
//! from the daemon's own counters except the lateness it reports, and that is checked against the
//! times of its log lines. A run that loses or repeats a job is a failure and no figure.

mod ceiling;
mod drain;
mod ground;
mod lateness;
mod machine;
mod neighbour;
mod reload;
mod report;
mod sandbox;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};

use report::{Repeat, Report};

/// Measures throughput and lateness of the duebox binary beside this one.
#[derive(Debug, Parser)]
#[command(name = "duebox-bench", args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    only: Option<Only>,
    /// Ready jobs to drain
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    jobs: u64,
    /// Jobs that fall due one by one over ten seconds
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(10..=10_000))]
    due_jobs: u64,
    /// Bytes of each job's payload
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    payload: u64,
    /// Times everything is measured; the report gives the median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    repeats: u64,
    /// Jobs in flight: the daemon's max_jobs and the topic's concurrency
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    in_flight: u64,
    /// The handler module
    #[arg(long, default_value = "handlers/build/noop-rust.wasm")]
    handler: PathBuf,
    /// The folder for the results
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
}

/// What is measured alone.
#[derive(Debug, Subcommand)]
enum Only {
    Sandbox(sandbox::Args),
    Reload(reload::Args),
    Neighbour(neighbour::Args),
}

impl Args {
    /// What they are where nothing is said.
    pub(crate) fn defaults() -> Self {
        Self::parse_from(["duebox-bench"])
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.only {
        Some(Only::Sandbox(args)) => sandbox::run(args),
        Some(Only::Reload(args)) => reload::run(args),
        Some(Only::Neighbour(args)) => neighbour::run(args),
        None => run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("bench failed: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let handler = args.handler.canonicalize().with_context(|| {
        format!("no handler at {}; run: ./dev handlers noop-rust", args.handler.display())
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the bench's runtime")?;
    let mut report = Report::new(args);
    for number in 1..=args.repeats {
        say(&format!("repeat {number} of {}", args.repeats));
        let drain = runtime.block_on(drain::measure(args, &handler))?;
        say(&format!("  drain     {:>8.0} jobs/s", drain.per_s));
        let ceiling = runtime.block_on(ceiling::measure(args))?;
        say(&format!("  ceiling   {:>8.0} jobs/s", ceiling.per_s));
        let lateness = runtime.block_on(lateness::measure(args, &handler))?;
        say(&format!("  lateness  {:>8.1} ms at p99", lateness.reported.p99_ms));
        report.repeats.push(Repeat { drain, ceiling, lateness });
    }
    let file = report.write(&args.results)?;
    let mut stdout = std::io::stdout().lock();
    write!(stdout, "{report}").context("cannot print the report")?;
    writeln!(stdout, "\nresults: {}", file.display()).context("cannot print the report")?;
    Ok(())
}

/// Progress and failures go to stderr, the report to stdout.
fn say(line: &str) {
    if writeln!(std::io::stderr(), "{line}").is_err() {
        // Nobody reads stderr; the exit code and the report still tell.
    }
}
