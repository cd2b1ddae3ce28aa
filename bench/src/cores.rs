//! `./dev bench cores`: what threads for guests cost each other, and what a machine with more cores would give.
//!
//! All threads share the instance cache, the memory budget and the count of running guests. How much time they lose
//! there shows in two figures: how often a thread waits, and what a job costs with two threads compared with one. More
//! threads than cores show what it costs when a thread loses its core while it holds a lock. A model fed with the
//! measured costs tells which part would be full first on more cores.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Parser;
use duebox_sandbox::{Handler, Instances, Sandbox, SandboxConfig};
use tokio::runtime::{Builder, Runtime};

use crate::drain::{self, Drain, RUST_WARM};
use crate::fixture::Fixture;
use crate::machine::{ThreadsLoad, guests};
use crate::results::median;
use crate::sandbox::{self, FRESH, SNAPSHOT, WARM};
use crate::settings::Settings;

/// Threads for guests that are tried.
const THREADS: [usize; 6] = [1, 2, 4, 8, 16, 64];
/// With more threads than cores, the least share of the rate with a thread for each core.
const SHARE_MIN: f64 = 0.9;
/// The handlers and modes that run without a daemon.
const CASES: [(&str, &str, Instances); 3] =
    [("noop-rust", "warm", WARM), ("noop-go", "snapshot", SNAPSHOT), ("noop-rust", "fresh", FRESH)];
/// Cores of the machines that the model is asked about.
const MODEL_CORES: [u32; 4] = [4, 8, 16, 64];
const PAYLOAD_BYTES: usize = 200;

/// Measures what threads for guests cost each other
#[derive(Debug, Parser)]
pub(crate) struct CoresArgs {
    /// Number of repeats; the table shows the median
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    repeats: u64,
    /// Duration of each measurement without a daemon, in ms
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    millis: u64,
    /// Folder with noop-rust.wasm and noop-go.wasm
    #[arg(long, default_value = "handlers/build")]
    handlers: PathBuf,
}

/// What one number of threads gave.
#[derive(Clone, Copy)]
struct Line {
    threads: usize,
    per_s: f64,
    /// CPU time of a job on the threads for guests, µs.
    guest_us: f64,
    waits_per_1000: f64,
}

/// Measured costs of a job that the model needs, µs.
struct Costs {
    redis_us: f64,
    guest_us: f64,
    /// On all other threads of the daemon: one worker for each shard.
    worker_us: f64,
    /// What one thread for guests makes the others wait.
    serial_us: f64,
}

/// Runs all measurements and prints them.
pub(crate) fn run(args: &CoresArgs) -> anyhow::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut stdout = std::io::stdout().lock();
    let (mut slower, mut serial_us) = (Vec::new(), 0.0);
    for (module, mode, instances) in CASES {
        let lines = in_sandbox(args, module, instances).context(module)?;
        write!(stdout, "{}", table(&format!("{module}, {mode}, without a daemon"), &lines))?;
        slower.extend(slower_than(&lines, cores).map(|line| format!("{module}, {mode}: {line}")));
        if instances == WARM {
            serial_us = serial_of(&lines)?;
        }
    }
    let (lines, costs) = daemon(args, cores, serial_us)?;
    write!(stdout, "{}", table("drain of warm Rust jobs by a daemon", &lines))?;
    slower.extend(slower_than(&lines, cores).map(|line| format!("drain: {line}")));
    write!(stdout, "{}", model(&costs))?;
    let word = if slower.is_empty() { "pass" } else { "MISS" };
    writeln!(
        stdout,
        "with more threads than cores at least {SHARE_MIN} of the rate: {word}  {}",
        slower.join("; ")
    )?;
    Ok(())
}

/// The lines with more threads than cores that fall short of the one with a thread for each core.
fn slower_than(lines: &[Line], cores: usize) -> impl Iterator<Item = String> {
    let full = lines.iter().filter(|line| line.threads <= cores).map(|line| line.per_s);
    let wanted = SHARE_MIN * full.fold(0.0, f64::max);
    let short = lines.iter().filter(move |line| line.threads > cores && line.per_s < wanted);
    short.map(|line| format!("{} threads {:.0}/s", line.threads, line.per_s))
}

/// What a job costs with two threads beyond half of what it costs with one: the part that does not run side by side
/// (Amdahl's law).
fn serial_of(lines: &[Line]) -> anyhow::Result<f64> {
    let us = |threads| {
        let line = lines.iter().find(|line| line.threads == threads);
        line.map(|line| 1e6 / line.per_s).with_context(|| format!("no line of {threads} threads"))
    };
    let (one, two) = (us(1)?, us(2)?);
    Ok((2.0 * two - one).max(0.0))
}

/// The handler in this mode, without Redis and without a daemon.
fn in_sandbox(args: &CoresArgs, module: &str, instances: Instances) -> anyhow::Result<Vec<Line>> {
    let config = SandboxConfig { max_jobs: 256, memory_max: 256 << 20, tables_max: 100_000 };
    let handler = sandbox::load(&Sandbox::new(&config)?, &args.handlers, module, instances)?;
    // In turn, so that noise of the machine affects all numbers of threads.
    let mut found: Vec<Vec<Line>> = vec![Vec::new(); THREADS.len()];
    for _ in 0..args.repeats {
        for (lines, threads) in found.iter_mut().zip(THREADS) {
            lines.push(once(&handler, threads, Duration::from_millis(args.millis))?);
        }
    }
    Ok(found.iter().map(|lines| middle(lines)).collect())
}

/// Runs jobs on this many threads for a span.
fn once(handler: &Handler, count: usize, span: Duration) -> anyhow::Result<Line> {
    let runtime = runtime(count)?;
    let before = guests(std::process::id())?;
    let began = Instant::now();
    let start = |_| {
        // Not shared with other threads.
        let (handler, payload) = (handler.clone(), Bytes::from("x".repeat(PAYLOAD_BYTES)));
        runtime.spawn(
            async move { sandbox::drain(&handler, sandbox::job(payload)?, began, span).await },
        )
    };
    let tasks: Vec<_> = (0..count).map(start).collect();
    let mut jobs = 0;
    for task in tasks {
        jobs += runtime.block_on(task)??;
    }
    let took = began.elapsed();
    let load = guests(std::process::id())?.since(before);
    ensure!(jobs > 0, "no job was run");
    Ok(line(count, f64::from(jobs) / took.as_secs_f64(), f64::from(jobs), load))
}

fn runtime(threads: usize) -> anyhow::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(threads).thread_name("guest").enable_all().build();
    runtime.context("cannot start the threads")
}

fn line(threads: usize, per_s: f64, jobs: f64, load: ThreadsLoad) -> Line {
    let (guest_us, waits_per_1000) = (load.cpu_s * 1e6 / jobs, load.waits as f64 * 1e3 / jobs);
    Line { threads, per_s, guest_us, waits_per_1000 }
}

/// The median of each column.
fn middle(lines: &[Line]) -> Line {
    let of = |column: fn(&Line) -> f64| {
        let mut figures: Vec<f64> = lines.iter().map(column).collect();
        figures.sort_by(f64::total_cmp);
        median(&figures)
    };
    Line {
        threads: lines.first().map_or(0, |line| line.threads),
        per_s: of(|line| line.per_s),
        guest_us: of(|line| line.guest_us),
        waits_per_1000: of(|line| line.waits_per_1000),
    }
}

/// Drains of a daemon with these numbers of threads, and the costs of the one with a thread for each core, or the next lower
/// number.
fn daemon(args: &CoresArgs, cores: usize, serial_us: f64) -> anyhow::Result<(Vec<Line>, Costs)> {
    let settings = Settings { jobs: 100_000, ..Settings::for_ci(&args.handlers) };
    let (runtime, jobs) = (runtime(2)?, settings.jobs as f64);
    let once = |threads| -> anyhow::Result<Drain> {
        let drained = async {
            let mut fixture = Fixture::prepare().await?;
            fixture.guest_threads = threads;
            drain::on(&fixture, &settings, RUST_WARM, settings.jobs, settings.in_flight).await
        };
        runtime.block_on(drained).with_context(|| format!("{threads} threads"))
    };
    let mut found: Vec<Vec<Line>> = vec![Vec::new(); THREADS.len()];
    let usual = THREADS.into_iter().filter(|threads| *threads <= cores).max();
    let mut costs = Vec::new();
    for _ in 0..args.repeats {
        for (lines, threads) in found.iter_mut().zip(THREADS) {
            let drain = once(threads)?;
            lines.push(line(threads, drain.per_s, jobs, drain.guests));
            // No more threads than cores: with more they would wait for each other.
            if Some(threads) == usual {
                costs.push(Costs::of(&drain, jobs, serial_us));
            }
        }
    }
    costs.sort_by(|one, other| one.worker_us.total_cmp(&other.worker_us));
    let costs = costs.swap_remove(costs.len() / 2);
    Ok((found.iter().map(|lines| middle(lines)).collect(), costs))
}

impl Costs {
    fn of(drain: &Drain, jobs: f64, serial_us: f64) -> Self {
        let us = |seconds: f64| seconds * 1e6 / jobs;
        Self {
            redis_us: us(drain.load.cpu_s),
            guest_us: us(drain.guests.cpu_s),
            worker_us: us(drain.daemon_cpu_s - drain.guests.cpu_s),
            serial_us,
        }
    }

    /// The rate on this many cores, the primaries among them that give most, and what is full then.
    fn best(&self, cores: u32) -> (f64, u32, &'static str) {
        let all = (1..cores).map(|primaries| {
            let own = f64::from(cores - primaries);
            // As many threads for workers as the daemon starts: one for four cores, at least 2 and at most 8.
            let workers = f64::from((cores / 4).clamp(2, 8)).min(own);
            let parts = [
                (f64::from(primaries) / self.redis_us, "Redis"),
                (own / (self.guest_us + self.worker_us), "the daemon's cores"),
                (workers / self.worker_us, "the threads of workers"),
                (1.0 / self.serial_us, "what guests share"),
            ];
            let (least, part) = parts.into_iter().fold((f64::INFINITY, ""), |least, part| {
                if part.0 < least.0 { part } else { least }
            });
            (least * 1e6, primaries, part)
        });
        all.fold((0.0, 0, ""), |best, found| if found.0 > best.0 { found } else { best })
    }
}

fn table(name: &str, lines: &[Line]) -> String {
    let mut text = format!("{name}\n  threads     jobs/s   guests µs/job   waits per 1,000 jobs\n");
    for Line { threads, per_s, guest_us, waits_per_1000 } in lines {
        text += &format!("  {threads:>7} {per_s:>10.0} {guest_us:>15.2} {waits_per_1000:>22.2}\n");
    }
    text + "\n"
}

fn model(costs: &Costs) -> String {
    let Costs { redis_us, guest_us, worker_us, serial_us } = costs;
    let mut text = format!(
        "model: a job takes {redis_us:.2} µs of Redis, {guest_us:.2} µs of threads for guests, {worker_us:.2} µs of others, \
         and {serial_us:.2} µs in which guests run one after the other\n  one shard: at most {:.0} jobs/s\n",
        1e6 / worker_us.max(*redis_us)
    );
    for cores in MODEL_CORES {
        let (per_s, primaries, full) = costs.best(cores);
        text += &format!(
            "  {cores:>2} cores: {per_s:>9.0} jobs/s with {primaries} of them for primaries; full: {full}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(threads: usize, per_s: f64) -> Line {
        Line { threads, per_s, guest_us: 1.0, waits_per_1000: 0.0 }
    }

    #[test]
    fn what_does_not_run_side_by_side_is_serial() {
        let of = |two| serial_of(&[line_of(1, 1e6), line_of(2, two)]).unwrap();
        assert!(of(2e6).abs() < 1e-9);
        assert!((of(1e6) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn more_threads_than_cores_must_keep_the_rate() {
        let lines = [line_of(1, 50.0), line_of(2, 100.0), line_of(4, 91.0), line_of(8, 89.0)];
        assert_eq!(slower_than(&lines, 2).collect::<Vec<_>>(), ["8 threads 89/s"]);
    }

    #[test]
    fn the_model_names_what_is_full() {
        let costs = Costs { redis_us: 5.0, guest_us: 2.0, worker_us: 3.0, serial_us: 0.1 };
        assert_eq!(costs.best(4), (4e5, 2, "Redis"));
        let (per_s, _, full) = Costs { serial_us: 10.0, ..costs }.best(64);
        assert_eq!((per_s, full), (1e5, "what guests share"));
    }
}
