//! Lives many lives and reports what did not hold; exits 1 if anything did not.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its reader is at a terminal")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use duebox_simulation::campaign::Campaign;
use duebox_simulation::life::{Options, Plan, live};

/// Simulates Duebox on a simulated Redis, with faults that a seed chooses.
#[derive(Parser)]
struct Arguments {
    /// Lives at most.
    #[arg(long, default_value_t = 100_000)]
    lives: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Seconds after which no life begins.
    #[arg(long)]
    seconds: Option<u64>,
    /// Threads; by default one a core.
    #[arg(long)]
    threads: Option<usize>,
    /// Lives one life and prints each of its commands.
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.seed {
        Some(seed) => replay(seed),
        None => campaign(&arguments),
    }
}

fn replay(seed: u64) -> ExitCode {
    println!("{:#?}", Plan::new(seed));
    let life = live(seed, &Options { is_verbose: true, ..Options::default() });
    println!("{life:#?}");
    if life.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn campaign(arguments: &Arguments) -> ExitCode {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let campaign = Campaign {
        from: arguments.from,
        lives: arguments.lives,
        time: arguments.seconds.map(Duration::from_secs),
        threads: arguments.threads.unwrap_or(cores),
        violations_max: 20,
    };
    let began = Instant::now();
    let found = campaign.run(&Options::default());
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} lives in {seconds:.1} s, {:.0} a second: {} runs of handlers, {} faults, {} times two turns, {} leases lost in failovers, {} h of their own time, {} lives failed",
        found.lives,
        found.lives as f64 / seconds,
        found.runs,
        found.faults,
        found.turns_together,
        found.lost_leases,
        found.lasted.as_secs() / 3_600,
        found.failed.len()
    );
    for life in &found.failed {
        eprintln!("seed {}: replay it with --seed {}", life.seed, life.seed);
        for violation in &life.violations {
            eprintln!("  {violation}");
        }
    }
    if found.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
