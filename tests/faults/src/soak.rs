//! `./dev soak`: millions of jobs through one daemon, with failures of every kind and new modules all the time.
//! Memory, threads and descriptors are sampled each second; in the last third of the run they must be flat.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Parser;
use duebox_harness::{Daemon, RedisServer};
use fastrand::Rng;
use redis::{Connection, cmd};

use crate::plot::{Curve, draw};
use crate::process::Figures;

/// Jobs that are pushed at once.
const BATCH: usize = 1_000;
/// Jobs that wait at most.
const WAITING_MAX: usize = 20_000;
/// Time between two samples.
const SAMPLE: Duration = Duration::from_secs(1);
/// Time between two new modules.
const RELOAD: Duration = Duration::from_secs(5);
/// How far the mean memory of the last sixth may exceed that of the sixth before, in MiB and as a share.
const GROWTH_MIB: f64 = 8.0;
const GROWTH_SHARE: f64 = 0.03;
/// How far the mean number of descriptors or threads may.
const GROWTH_COUNT: f64 = 3.0;
/// Samples without which nothing can be said.
const SAMPLES_MIN: usize = 18;

/// Does what the first byte of its payload says: `n` nacks, `d` drops, `t` traps, `m` needs too much memory,
/// `l` loops until its time is over; everything else acks.
const HANDLER: &str = include_str!("soak.wat");

/// The options of the soak.
#[derive(Debug, Parser)]
pub(crate) struct SoakArgs {
    /// Number of jobs
    #[arg(long, default_value_t = 5_000_000)]
    jobs: usize,
    /// Seed of the jobs; a random one without it
    #[arg(long)]
    seed: Option<u64>,
    /// Folder for the samples and the plot
    #[arg(long, default_value = "bench/results")]
    out: PathBuf,
}

/// One sample.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at_s: f64,
    ended: usize,
    figures: Figures,
}

/// A running soak.
struct Soak {
    redis: RedisServer,
    connection: Connection,
    daemon: Daemon,
    module: PathBuf,
    rng: Rng,
    pushed: usize,
    reloads: u64,
    samples: Vec<Sample>,
    began: Instant,
}

/// Runs the soak; true if the daemon stayed flat and every job ended.
pub(crate) fn run(args: &SoakArgs) -> anyhow::Result<bool> {
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..1_000_000));
    let dir = tempfile::Builder::new().prefix("duebox-soak-").tempdir()?;
    let mut soak = Soak::start(dir.path(), seed)?;
    soak.drain(args.jobs)?;
    let status = soak.daemon.terminate();
    ensure!(status.success(), "the daemon ended with {status} after SIGTERM");
    let stem = args.out.join(format!("soak-{}", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ")));
    fs::create_dir_all(&args.out)?;
    fs::write(stem.with_extension("csv"), csv(&soak.samples)?)?;
    fs::write(stem.with_extension("svg"), plot(&soak.samples)?)?;
    let (problems, seconds) = (growth(&soak.samples), soak.began.elapsed().as_secs());
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} jobs ended in {seconds} s with {} new modules, seed {seed}; samples and plot: {}.csv, .svg",
        soak.pushed,
        soak.reloads,
        stem.display()
    )?;
    for (name, (before, after)) in thirds(&soak.samples) {
        writeln!(out, "last third: {name} {before:.1} → {after:.1}")?;
    }
    problems.iter().try_for_each(|problem| writeln!(out, "FAIL: {problem}"))?;
    Ok(problems.is_empty())
}

impl Soak {
    fn start(dir: &Path, seed: u64) -> anyhow::Result<Self> {
        let redis = RedisServer::start();
        let (module, manifest) = (dir.join("soak.wat"), dir.join("duebox.toml"));
        fs::write(&module, HANDLER)?;
        fs::write(
            &manifest,
            format!(
                "[redis]\nurl = \"{}\"\n[runner]\ncache = \"\"\nlog = \"error\"\n[topics.soak]\n\
                 handler = \"soak.wat\"\nttr = \"50ms\"\nmax_attempts = 2\nbackoff = \"100ms\"\n\
                 max_dead = 1000\nbreaker = {{ failures = 0 }}\nrollback = {{ min_jobs = 0 }}\n\
                 [topics.soak.sandbox]\nmemory = \"4MiB\"\n",
                redis.url()
            ),
        )?;
        let connection = redis::Client::open(redis.url())?.get_connection()?;
        let daemon = Daemon::start_with(&manifest, |command| {
            // It is not in the log at this level.
            command.env("DUEBOX_LISTEN", "");
        });
        let (rng, began) = (Rng::with_seed(seed), Instant::now());
        let (pushed, reloads, samples) = (0, 0, Vec::new());
        Ok(Self { redis, connection, daemon, module, rng, pushed, reloads, samples, began })
    }

    /// Pushes all jobs and waits until they have ended.
    fn drain(&mut self, jobs: usize) -> anyhow::Result<()> {
        let mut reload_at = Instant::now() + RELOAD;
        let mut sample_at = Instant::now() + SAMPLE;
        loop {
            let live: usize = cmd("HLEN").arg("duebox:{soak}:jobs").query(&mut self.connection)?;
            if self.pushed >= jobs && live == 0 {
                return Ok(());
            }
            if Instant::now() >= sample_at {
                sample_at += SAMPLE;
                self.sample(live)?;
            }
            if Instant::now() >= reload_at {
                reload_at += RELOAD;
                self.reload()?;
            }
            if self.pushed < jobs && live + BATCH <= WAITING_MAX {
                self.push(BATCH.min(jobs - self.pushed))?;
            } else {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    fn push(&mut self, count: usize) -> anyhow::Result<()> {
        let mut commands = redis::pipe();
        commands.atomic();
        let (mut jobs, mut dues) = (cmd("HSET"), cmd("ZADD"));
        jobs.arg("duebox:{soak}:jobs");
        dues.arg("duebox:{soak}:pending");
        for id in self.pushed..self.pushed + count {
            jobs.arg(id).arg(self.payload());
            dues.arg(0).arg(id);
        }
        commands.add_command(jobs).ignore().add_command(dues).ignore();
        commands.query::<()>(&mut self.connection)?;
        self.pushed += count;
        Ok(())
    }

    /// Two jobs of a hundred fail in some way.
    fn payload(&mut self) -> &'static str {
        match self.rng.u32(..10_000) {
            0..100 => "n",
            100..160 => "d",
            160..190 => "t",
            190..198 => "m",
            198..200 => "l",
            _ => "a",
        }
    }

    fn sample(&mut self, live: usize) -> anyhow::Result<()> {
        let status = self.daemon.exited();
        ensure!(status.is_none(), "the daemon exited with {status:?}");
        let (at_s, ended) = (self.began.elapsed().as_secs_f64(), self.pushed - live);
        let figures = Figures::of(self.daemon.pid());
        self.samples.push(Sample { at_s, ended, figures });
        if self.samples.len().is_multiple_of(30) {
            let memory_mib = figures.memory_kib >> 10;
            let redis = self.redis.cli(&["INFO", "memory"]);
            let used = redis.lines().find(|line| line.starts_with("used_memory_human"));
            let used = used.unwrap_or_default().trim();
            writeln!(
                std::io::stdout().lock(),
                "{at_s:>7.0} s: {ended} ended, {memory_mib} MiB, {} threads, {} descriptors; Redis {used}",
                figures.threads,
                figures.descriptors
            )?;
        }
        Ok(())
    }

    /// Renames a new build of the module into place.
    fn reload(&mut self) -> anyhow::Result<()> {
        self.reloads += 1;
        let aside = self.module.with_extension("new");
        fs::write(&aside, HANDLER.replace("edition 0", &format!("edition {}", self.reloads)))?;
        fs::rename(aside, &self.module).context("cannot replace the module")
    }
}

fn csv(samples: &[Sample]) -> anyhow::Result<String> {
    let mut text = "seconds,ended,memory_kib,threads,descriptors\n".to_owned();
    for Sample { at_s, ended, figures: f } in samples {
        writeln!(text, "{at_s:.1},{ended},{},{},{}", f.memory_kib, f.threads, f.descriptors)?;
    }
    Ok(text)
}

type Figure = (&'static str, fn(&Sample) -> f64);

const FIGURES: [Figure; 3] = [
    ("memory, MiB", |sample| sample.figures.memory_kib as f64 / 1024.0),
    ("threads", |sample| sample.figures.threads as f64),
    ("descriptors", |sample| sample.figures.descriptors as f64),
];

fn plot(samples: &[Sample]) -> anyhow::Result<String> {
    let curves = FIGURES.map(|(name, figure)| {
        let points = samples.iter().map(|sample| (sample.at_s, figure(sample))).collect();
        Curve { name, points }
    });
    draw(&curves)
}

/// The means of the two halves of the last third, for each figure.
fn thirds(samples: &[Sample]) -> Vec<(&'static str, (f64, f64))> {
    let last = &samples[samples.len() * 2 / 3..];
    let (first, second) = last.split_at(last.len() / 2);
    let mean = |some: &[Sample], figure: fn(&Sample) -> f64| {
        some.iter().map(figure).sum::<f64>() / some.len().max(1) as f64
    };
    FIGURES.map(|(name, figure)| (name, (mean(first, figure), mean(second, figure)))).to_vec()
}

/// What grew in the last third.
fn growth(samples: &[Sample]) -> Vec<String> {
    if samples.len() < SAMPLES_MIN {
        return vec![format!("{} samples are too few; run more jobs", samples.len())];
    }
    let grows = |&(name, (before, after)): &(&str, (f64, f64))| {
        let allowed = match name {
            "memory, MiB" => before * GROWTH_SHARE + GROWTH_MIB,
            _ => GROWTH_COUNT,
        };
        after - before > allowed
    };
    let growing = thirds(samples).into_iter().filter(grows);
    growing
        .map(|(name, (a, b))| format!("{name} grew in the last third: {a:.1} → {b:.1}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(memory_kib: impl Fn(u64) -> u64) -> Vec<Sample> {
        let figures = |n| Figures { memory_kib: memory_kib(n), threads: 9, descriptors: 40 };
        (0..90).map(|n| Sample { at_s: n as f64, ended: 0, figures: figures(n) }).collect()
    }

    #[test]
    fn growth_in_the_last_third_is_noticed() {
        assert_eq!(growth(&samples(|n| 50_000 + n.min(40) * 1_000)), Vec::<String>::new());
        assert_eq!(growth(&samples(|n| 50_000 + n * 1_000)).len(), 1);
        assert_eq!(growth(&samples(|_| 1)[..5]).len(), 1);
    }
}
