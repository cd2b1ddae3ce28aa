//! What `./dev demo` runs: the real daemon on the quickstart's manifest, a shop for its handlers to talk
//! to, a few hundred jobs, a daemon that is killed among them, and a handler that is rebuilt.
//!
//! The demo believes nobody: it keeps its own ledger of what it pushed and how each job must end,
//! hears the verdicts from the handlers' own log lines, reads from Redis where each job went, and from
//! the shop what was done. The daemon's counters are not asked. It succeeds only if every job is accounted for, and it ends
//! by itself within [`TIME_MAX`].

mod audit;
mod board;
mod daemon;
mod ledger;
mod plan;
mod rebuild;
mod stage;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

/// The whole demo, after the build, takes no longer.
const TIME_MAX: Duration = Duration::from_secs(110);

/// Runs the quickstart and accounts for every job.
#[derive(Debug, Parser)]
#[command(name = "duebox-demo")]
pub(crate) struct Args {
    /// The manifest to run the daemon on
    #[arg(long, default_value = "examples/quickstart/duebox.toml")]
    manifest: PathBuf,
    /// The daemon
    #[arg(long, default_value = "target/release/duebox")]
    duebox: PathBuf,
    /// Builds a handler into the folder that the manifest names
    #[arg(long, default_value = "handlers/build.sh")]
    build: PathBuf,
    /// Jobs to push at the start
    #[arg(long, default_value_t = 360, value_parser = clap::value_parser!(u64).range(3..=30_000))]
    jobs: u64,
}

/// How a demo ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Every job is accounted for.
    Accounted,
    /// Something is not as the ledger says; it was shown.
    Unaccounted,
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

#[tokio::main]
async fn main() -> ExitCode {
    match stage::play(&Args::parse()).await {
        Ok(Ended::Accounted) => ExitCode::SUCCESS,
        Ok(Ended::Unaccounted) => ExitCode::FAILURE,
        Ok(Ended::Interrupted) => ExitCode::from(130),
        Err(error) => {
            if writeln!(std::io::stderr(), "demo failed: {error:#}").is_err() {
                // Nobody reads stderr; the exit code still tells.
            }
            ExitCode::FAILURE
        }
    }
}
