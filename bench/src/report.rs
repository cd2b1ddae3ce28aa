//! The figures of all repeats: a table for people, a file for later.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use crate::Args;
use crate::ceiling::Ceiling;
use crate::drain::Drain;
use crate::lateness::Lateness;
use crate::machine::Machine;

/// One repeat: each measurement once.
#[derive(Debug, Serialize)]
pub(crate) struct Repeat {
    pub(crate) drain: Drain,
    pub(crate) ceiling: Ceiling,
    pub(crate) lateness: Lateness,
}

/// Everything measured in one go of the bench.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// UTC, without colons: it names the file too.
    at: String,
    machine: Machine,
    jobs: u64,
    due_jobs: u64,
    payload_bytes: u64,
    in_flight: u64,
    handler: PathBuf,
    pub(crate) repeats: Vec<Repeat>,
}

impl Report {
    pub(crate) fn new(args: &Args) -> Self {
        Self {
            at: now(),
            machine: Machine::of_this(),
            jobs: args.jobs,
            due_jobs: args.due_jobs,
            payload_bytes: args.payload,
            in_flight: args.in_flight,
            handler: args.handler.clone(),
            repeats: Vec::new(),
        }
    }

    /// Writes the figures as JSON into `folder` and names the file.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        write(folder, &self.at, self)
    }

    fn row(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        unit: &str,
        figure: impl Fn(&Repeat) -> f64,
    ) -> fmt::Result {
        let mut figures: Vec<f64> = self.repeats.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (figures.first(), figures.last()) else { return Ok(()) };
        let digits = if *max < 1_000.0 { 1 } else { 0 };
        writeln!(
            f,
            "{name:<34} {:>10.digits$} {unit:<8} ({min:.digits$}–{max:.digits$})",
            median(&figures)
        )
    }
}

/// The time in UTC, as it can stand in the name of a file.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ").to_string()
}

/// Writes figures as JSON into `folder` and names the file.
pub(crate) fn write(
    folder: &Path,
    name: &str,
    figures: &impl Serialize,
) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join(format!("{name}.json"));
    let mut json = serde_json::to_string_pretty(figures)?;
    json.push('\n');
    fs::write(&file, json).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

pub(crate) fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted {
        [] => f64::NAN,
        _ if sorted.len() % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processor, cores, kernel, redis, commit } = &self.machine;
        writeln!(
            f,
            "\n{processor}, {cores} cores, Linux {kernel}, Redis {redis}, commit {commit}"
        )?;
        writeln!(
            f,
            "{} ready jobs of {} bytes, {} in flight, {}; Redis and bench on the same cores",
            self.jobs,
            self.payload_bytes,
            self.in_flight,
            self.handler.display()
        )?;
        writeln!(f, "median of {} (min–max)\n", self.repeats.len())?;
        self.row(f, "drain, first lease to last ack", "jobs/s", |r| r.drain.per_s)?;
        self.row(f, "drain, 5 % to 95 %", "jobs/s", |r| r.drain.middle_per_s)?;
        self.row(f, "ceiling: same scripts, no handler", "jobs/s", |r| r.ceiling.per_s)?;
        self.row(f, "drain, part of the ceiling", "%", |r| {
            100.0 * r.drain.per_s / r.ceiling.per_s
        })?;
        self.row(f, "processor, daemon", "µs/job", |r| r.drain.daemon_cpu_us)?;
        self.row(f, "processor, Redis", "µs/job", |r| r.drain.redis_cpu_us)?;
        self.row(f, "memory, daemon, peak", "MiB", |r| {
            r.drain.daemon_memory_bytes as f64 / f64::from(1 << 20)
        })?;
        self.row(f, "lateness reported, p50", "ms", |r| r.lateness.reported.p50_ms)?;
        self.row(f, "lateness reported, p99", "ms", |r| r.lateness.reported.p99_ms)?;
        self.row(f, "lateness reported, max", "ms", |r| r.lateness.reported.max_ms)?;
        self.row(f, "due to verdict in the log, p50", "ms", |r| r.lateness.logged.p50_ms)?;
        self.row(f, "due to verdict in the log, p99", "ms", |r| r.lateness.logged.p99_ms)?;
        self.row(f, "due to verdict in the log, max", "ms", |r| r.lateness.logged.max_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(median(&[7.0]), 7.0);
    }
}
