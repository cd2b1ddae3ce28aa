//! What `./dev bench` runs: the real daemon, measured from outside.
//!
//! Every run has its own Redis and daemon. The only figure taken from the daemon is the lateness it
//! reports, and that is checked against the times of its log lines. A run that loses or repeats a
//! job fails and gives no figure.

mod backlog;
mod batches;
mod builds;
mod burst;
mod ceiling;
mod ci;
mod contender;
mod cores;
mod cost;
mod drain;
mod duebox;
mod durability;
mod fixture;
mod further_topic;
mod http_push;
mod languages;
mod lateness;
mod machine;
mod memory;
mod neighbour;
mod open_page;
mod page;
mod peer_program;
mod peers;
mod plot;
mod push;
mod receiver;
mod redis_load;
mod reload;
mod report;
mod results;
mod rows;
mod runners;
mod sandbox;
mod servers;
mod settings;
mod shutdown;
mod sustained;
mod table;
mod topics;
mod topologies;
mod work;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use rows::Family;

/// Measures the duebox binary in the same folder and compares every result with its target
#[derive(Debug, Parser)]
#[command(name = "duebox-bench", args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
    /// Families to measure, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Family>,
    /// A quick look: fewer jobs, one repeat, a backlog of 200,000
    #[arg(long)]
    quick: bool,
    /// Compare Duebox with its peers and measure nothing else; bench/peers/build.sh builds them
    #[arg(long, conflicts_with = "only")]
    peers: bool,
    /// Number of repeats; the table shows the median [default: 3, quick 1]
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
    /// Folder with noop-rust.wasm, noop-as.wasm, noop-go.wasm and webhook.wasm
    #[arg(long, default_value = "handlers/build")]
    handlers: PathBuf,
    /// Folder for the results
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
}

/// Benchmarks with a table of their own.
#[derive(Debug, Subcommand)]
enum Benchmark {
    Sandbox(sandbox::SandboxArgs),
    Languages(languages::LanguagesArgs),
    Reload(reload::ReloadArgs),
    Neighbour(neighbour::NeighbourArgs),
    Cores(cores::CoresArgs),
    Ci(ci::CiArgs),
}

fn main() -> ExitCode {
    let args = BenchArgs::parse();
    let done = match &args.benchmark {
        Some(Benchmark::Sandbox(args)) => sandbox::run(args),
        Some(Benchmark::Languages(args)) => languages::run(args),
        Some(Benchmark::Reload(args)) => reload::run(args),
        Some(Benchmark::Neighbour(args)) => neighbour::run(args),
        Some(Benchmark::Cores(args)) => cores::run(args),
        Some(Benchmark::Ci(args)) => ci::run(args),
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

/// Prints progress and failures to stderr; the report goes to stdout.
fn say(line: &str) {
    if writeln!(std::io::stderr(), "{line}").is_err() {
        // A closed stderr changes neither the exit code nor the report.
    }
}
