//! What `./dev demo` runs: the real daemon with the quickstart's manifest, a shop for its handlers
//! to call, and a few hundred jobs. The demo kills the daemon and starts another, and rebuilds a
//! handler while jobs run.
//!
//! The demo does not rely on the daemon's counters. Its ledger records each push and how the job
//! must end. It reads the verdicts from the handlers' log lines, the end of each job from Redis,
//! and the effects from the shop. It succeeds only if every job is accounted for, and it ends
//! within [`TIME_MAX`].

mod audit;
mod daemon;
mod display;
mod ledger;
mod plan;
mod queue_redis;
mod rebuild;
mod run;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

/// Time limit of the demo after the build.
const TIME_MAX: Duration = Duration::from_secs(110);

/// Runs the quickstart and accounts for every job.
#[derive(Debug, Parser)]
#[command(name = "duebox-demo")]
pub(crate) struct Args {
    /// Manifest for the daemon
    #[arg(long, default_value = "examples/quickstart/duebox.toml")]
    manifest: PathBuf,
    /// The duebox binary
    #[arg(long, default_value = "target/release/duebox")]
    duebox: PathBuf,
    /// Script that builds a handler into the folder that the manifest names
    #[arg(long, default_value = "handlers/build.sh")]
    build: PathBuf,
    /// Number of jobs to push at the start
    #[arg(long, default_value_t = 360, value_parser = clap::value_parser!(u64).range(3..=30_000))]
    jobs: u64,
}

/// How the demo ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DemoEnd {
    /// Every job is accounted for.
    Accounted,
    /// Some job is not; the mismatches were printed.
    Unaccounted,
    /// Interrupted by Ctrl-C.
    Interrupted,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run::run(&Args::parse()).await {
        Ok(DemoEnd::Accounted) => ExitCode::SUCCESS,
        Ok(DemoEnd::Unaccounted) => ExitCode::FAILURE,
        Ok(DemoEnd::Interrupted) => ExitCode::from(130),
        Err(error) => {
            if writeln!(std::io::stderr(), "demo failed: {error:#}").is_err() {
                // A closed stderr does not change the exit code.
            }
            ExitCode::FAILURE
        }
    }
}
