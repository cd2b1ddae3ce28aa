//! `./dev faults`: real daemons, a real Redis and real faults, judged by a ledger outside Redis. `./dev soak`:
//! millions of jobs through one daemon. `README.md` describes both.

mod asker;
mod campaign;
mod cgroup;
mod fleet;
mod judge;
mod ledger;
mod load;
mod plan;
mod plot;
mod process;
mod queue_state;
mod rows;
mod scene;
mod soak;
mod table;
mod witness;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

/// Faults against real daemons, and a soak
#[derive(Debug, Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the rows and writes their table
    Faults(campaign::FaultsArgs),
    /// Runs many jobs with reloads and failures, and plots the daemon's memory, threads and descriptors
    Soak(soak::SoakArgs),
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    // The HTTP client wants a provider of TLS even for plain HTTP; a second one is refused, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the Tokio runtime")?;
    let passes = match &args.command {
        Command::Faults(args) => campaign::run(args, runtime.handle())?,
        Command::Soak(args) => soak::run(args)?,
    };
    Ok(if passes { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
