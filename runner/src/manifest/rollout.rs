//! `rollback` and `canary`: how a new module is watched, and how another is tried beside it.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use duebox_sandbox::Digest;

use super::keys::{CANARY, ROLLBACK};
use super::section::Section;
use super::topic::read_pin;

/// How many parts the jobs of a topic are dealt into; a canary gets some of them.
pub const PARTS: u32 = 10_000;

const WINDOW: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);
const RATIO: RangeInclusive<f64> = 1.0..=1_000.0;

/// When a new module gives way to the one before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rollback {
    /// How long after the swap it is watched; 100 ms to a day.
    pub window: Duration,
    /// Attempts it must have ended before it is judged; 0 (never) to 1,000,000.
    pub min_jobs: u32,
    /// How many times the failure rate of the one before is too much; 1 to 1,000.
    pub ratio: f64,
}

impl Default for Rollback {
    fn default() -> Self {
        Self { window: Duration::from_secs(60), min_jobs: 50, ratio: 3.0 }
    }
}

/// Another module that runs a part of a topic's jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Canary {
    /// Its file.
    pub handler: PathBuf,
    /// What the file must be; none for any.
    pub sha256: Option<Digest>,
    /// Its part of the jobs, in [`PARTS`]; 1 or more.
    pub share: u32,
}

impl Canary {
    /// Its part of the jobs in percent.
    pub fn percent(&self) -> f64 {
        percent(self.share)
    }
}

/// A part of the jobs, of [`PARTS`], in percent.
pub fn percent(share: u32) -> f64 {
    f64::from(share) * 100.0 / f64::from(PARTS)
}

/// The keys of `rollback`, as far as they are written.
#[derive(Default, Clone, Copy)]
pub(super) struct RollbackSettings {
    window: Option<Duration>,
    min_jobs: Option<u32>,
    ratio: Option<f64>,
}

impl RollbackSettings {
    /// Reads the `rollback` of a topic or of the defaults.
    pub(super) fn read(topic: &Section<'_>) -> Self {
        let section = topic.section("rollback", &ROLLBACK);
        Self {
            window: section.duration("window", WINDOW),
            min_jobs: section.integer("min_jobs", 0..=1_000_000),
            ratio: read_number(&section, "ratio", RATIO),
        }
    }

    /// Lays these keys over the defaults.
    pub(super) fn over(self, defaults: Self) -> Rollback {
        let base = Rollback::default();
        Rollback {
            window: self.window.or(defaults.window).unwrap_or(base.window),
            min_jobs: self.min_jobs.or(defaults.min_jobs).unwrap_or(base.min_jobs),
            ratio: self.ratio.or(defaults.ratio).unwrap_or(base.ratio),
        }
    }
}

/// Reads the `canary` of a topic. One without a part of the jobs, or without a file, is none.
pub(super) fn read_canary(topic: &Section<'_>) -> Option<Canary> {
    topic.value("canary")?;
    let section = topic.section("canary", &CANARY);
    let sha256 = read_pin(&section);
    let percent = match section.value("percent") {
        None => Some(0.0),
        Some(_) => read_number(&section, "percent", 0.0..=100.0),
    };
    let is_named =
        section.value("handler").is_some_and(|value| value.get_ref().as_str() != Some(""));
    let handler = if is_named { section.path("handler") } else { None };
    // From 0 to 10,000: the cast cuts nothing off.
    let share = (percent? * f64::from(PARTS) / 100.0).round() as u32;
    if share > 0 && !is_named {
        let hint = "add handler = \"path/to/module.wasm\" to it, or remove `canary`";
        let title = "`canary` has a part of the jobs, but no handler to run them".to_owned();
        topic.reader().refuse(topic.key_at("canary"), title, hint);
    }
    Some(Canary { handler: handler?, sha256, share }).filter(|canary| canary.share > 0)
}

/// A number, with or without a fraction, within a range.
fn read_number(section: &Section<'_>, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
    let number = section.number(key)?;
    if range.contains(&number) {
        return Some(number);
    }
    let (least, most) = range.into_inner();
    let title = format!("`{key}` is {number}; it must be from {least} to {most}");
    let hint = if number < least {
        format!("give at least {least}")
    } else {
        format!("give at most {most}")
    };
    section.reader().refuse(section.value_at(key), title, hint);
    None
}
