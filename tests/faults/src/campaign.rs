//! `./dev faults`: runs the rows one after the other, prints a line for each, and writes the table.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Parser;
use procfs::Current as _;
use tokio::runtime::Handle;

use crate::rows::{ROWS, Row};
use crate::scene::Context;
use crate::table::{Line, Outcome, write};

/// The options of the campaign.
#[derive(Debug, Parser)]
pub(crate) struct FaultsArgs {
    /// The short form: fewer rows with fewer faults, at most three minutes
    #[arg(long)]
    short: bool,
    /// Rows to run, by name; all without it
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seed of the faults and of the load; a random one without it
    #[arg(long)]
    seed: Option<u64>,
    /// Page whose table gets the rows that ran; those of the short form are not written
    #[arg(long, default_value = "tests/faults/README.md")]
    page: PathBuf,
    /// The handler that reports its runs
    #[arg(long, default_value = "handlers/build/witness.wasm")]
    handler: PathBuf,
}

/// Runs the rows; true if all pass.
pub(crate) fn run(args: &FaultsArgs, runtime: &Handle) -> anyhow::Result<bool> {
    let witness = args.handler.canonicalize().with_context(|| {
        format!("no handler at {}; run: ./dev handlers witness", args.handler.display())
    })?;
    let cache = tempfile::tempdir().context("cannot create a directory for the cache")?;
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let (runtime, is_short) = (runtime.clone(), args.short);
    let cache_path = cache.path().to_owned();
    let context = Context { runtime, seed, is_short, witness, cache: cache_path };
    let mut lines = Vec::new();
    say(&format!("seed {seed}"))?;
    for row in chosen(args)? {
        let line = run_row(row, &context);
        say(&line.plain())?;
        lines.push(line);
    }
    let passed = lines.iter().filter(|line| line.passes()).count();
    let skipped = lines.iter().filter(|line| matches!(line.outcome, Outcome::Skipped(_))).count();
    let took: u64 = lines.iter().map(|line| line.took.as_secs()).sum();
    let summary = format!(
        "{} of {} rows passed, {skipped} skipped, {took} s, seed {seed}",
        passed - skipped,
        lines.len()
    );
    say(&summary)?;
    if !args.short {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        write(&args.page, &run_mark(seed), &lines, &names)?;
    }
    Ok(passed == lines.len())
}

/// When and of what this run is: the date, the commit, the load of the machine and the seed.
fn run_mark(seed: u64) -> String {
    let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let mut git = Command::new("git");
    let commit = git.args(["describe", "--always", "--dirty", "--exclude", "*"]).output();
    let commit = commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let commit = commit.ok().filter(|commit| !commit.is_empty());
    let commit = commit.unwrap_or_else(|| "unknown commit".to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = procfs::LoadAverage::current().map_or(0.0, |load| load.five);
    format!("{date}, {commit}, {cores} cores at a load of {load:.0}, seed {seed}")
}

fn chosen(args: &FaultsArgs) -> anyhow::Result<Vec<&'static Row>> {
    for name in &args.only {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        ensure!(names.contains(&name.as_str()), "no row {name}; the rows are {}", names.join(", "));
    }
    let is_chosen = |row: &&Row| {
        args.only.iter().any(|name| name == row.name)
            || args.only.is_empty() && (row.is_short || !args.short)
    };
    Ok(ROWS.iter().filter(is_chosen).collect())
}

fn run_row(row: &'static Row, context: &Context) -> Line {
    let began = Instant::now();
    // The harness panics, with the end of the daemon's log.
    let outcome = match catch_unwind(AssertUnwindSafe(|| (row.run)(context))) {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Outcome::Broken(format!("{error:#}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            Outcome::Broken(text.lines().next().unwrap_or("a panic").to_owned())
        }
    };
    Line { name: row.name, what: row.what, took: began.elapsed(), outcome }
}

fn say(text: &str) -> anyhow::Result<()> {
    writeln!(std::io::stdout().lock(), "{text}").context("cannot print")
}
