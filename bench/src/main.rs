//! What `./dev bench` runs: the real daemon on a Redis of its own, measured from outside.
//!
//! Every run has a Redis and a daemon of its own. Nothing is taken from the daemon's own counters
//! except the lateness it reports, and that is checked against the times of its log lines. A run that
//! loses or repeats a job is a failure and no figure.

mod account;
mod backlog;
mod batches;
mod burst;
mod ceiling;
mod ci;
mod contender;
mod cost;
mod drain;
mod durability;
mod figures;
mod ground;
mod http_push;
mod lateness;
mod load;
mod machine;
mod memory;
mod module;
mod neighbour;
mod own_side;
mod page;
mod peer_program;
mod peers;
mod plot;
mod push;
mod reload;
mod report;
mod rows;
mod runners;
mod sandbox;
mod settings;
mod sustained;
mod table;
mod topics;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use rows::Family;

/// Measures the duebox binary beside this one, and judges every figure of it.
#[derive(Debug, Parser)]
#[command(name = "duebox-bench", args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    alone: Option<Alone>,
    /// What is measured, by commas; all without it
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Family>,
    /// A quick look: fewer jobs, one repeat, a backlog of 200,000
    #[arg(long)]
    quick: bool,
    /// Duebox beside its peers, and nothing else; bench/peers/build.sh builds them
    #[arg(long, conflicts_with = "only")]
    peers: bool,
    /// Times everything is measured; the table gives the median [default: 3, quick 1]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100))]
    repeats: Option<u64>,
    /// Ready jobs to drain and to push [default: 100000, quick 20000]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    jobs: Option<u64>,
    /// Bytes of each job's payload
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    payload: u64,
    /// Jobs in flight: the daemon's max_jobs and the topic's concurrency
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    in_flight: u64,
    /// The folder of noop-rust.wasm, noop-as.wasm and noop-go.wasm
    #[arg(long, default_value = "handlers/build")]
    handlers: PathBuf,
    /// The folder for the results
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
}

/// What is measured alone, with a table of its own.
#[derive(Debug, Subcommand)]
enum Alone {
    Sandbox(sandbox::Args),
    Reload(reload::Args),
    Neighbour(neighbour::Args),
    Ci(ci::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.alone {
        Some(Alone::Sandbox(args)) => sandbox::run(args),
        Some(Alone::Reload(args)) => reload::run(args),
        Some(Alone::Neighbour(args)) => neighbour::run(args),
        Some(Alone::Ci(args)) => ci::run(args),
        None => table::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("bench failed: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Progress and failures go to stderr, the report to stdout.
fn say(line: &str) {
    if writeln!(std::io::stderr(), "{line}").is_err() {
        // Nobody reads stderr; the exit code and the report still tell.
    }
}
