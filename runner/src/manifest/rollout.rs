//! `rollback` and `canary`: when a new module is rolled back, and which share of the jobs a second one gets.

use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use duebox_sandbox::Digest;

use super::keys::{CANARY, ROLLBACK};
use super::section::{Section, read_pin};

/// The resolution of a canary's share: one part is 0.01 percent of the jobs.
pub const PARTS: u32 = 10_000;

const WINDOW: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);
const RATIO: RangeInclusive<f64> = 1.0..=1_000.0;

/// When a new module is replaced by the previous one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rollback {
    /// How long it is watched after the swap; 100 ms to one day.
    pub window: Duration,
    /// Finished attempts before its failure rate is compared, at most 1,000,000; `None` if it never is.
    pub min_jobs: Option<NonZero<u32>>,
    /// The highest accepted multiple of the previous module's failure rate; 1 to 1,000.
    pub ratio: f64,
}

impl Default for Rollback {
    fn default() -> Self {
        Self { window: Duration::from_secs(60), min_jobs: NonZero::new(50), ratio: 3.0 }
    }
}

/// A second module that runs a share of a topic's jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Canary {
    /// Its module file.
    pub handler: PathBuf,
    /// The expected SHA-256 of the file; `None` accepts any.
    pub sha256: Option<Digest>,
    /// Its share of the jobs, in [`PARTS`]; at least 1.
    pub share: u32,
}

impl Canary {
    /// Its share of the jobs, in percent.
    pub fn percent(&self) -> f64 {
        percent(self.share)
    }
}

/// Converts a share in [`PARTS`] to percent.
pub fn percent(share: u32) -> f64 {
    f64::from(share) * 100.0 / f64::from(PARTS)
}

/// The keys of `rollback` that the table sets.
#[derive(Default, Clone, Copy)]
pub(super) struct RollbackTable {
    window: Option<Duration>,
    min_jobs: Option<u32>,
    ratio: Option<f64>,
}

impl RollbackTable {
    /// Reads the `rollback` of a topic or of the defaults.
    pub(super) fn read(topic: &Section<'_>) -> Self {
        let section = topic.section("rollback", &ROLLBACK);
        Self {
            window: section.duration("window", WINDOW),
            min_jobs: section.integer("min_jobs", 0..=1_000_000),
            ratio: read_number(&section, "ratio", RATIO),
        }
    }

    /// These keys, else those of `[defaults]`, else the built-in ones.
    pub(super) fn over(self, defaults: Self) -> Rollback {
        let base = Rollback::default();
        Rollback {
            window: self.window.or(defaults.window).unwrap_or(base.window),
            min_jobs: self.min_jobs.or(defaults.min_jobs).map_or(base.min_jobs, NonZero::new),
            ratio: self.ratio.or(defaults.ratio).unwrap_or(base.ratio),
        }
    }
}

/// Reads the `canary` of a topic; `None` if it has no file or its share is zero.
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
    // The value lies in 0..=10,000, so the cast is lossless.
    let share = (percent? * f64::from(PARTS) / 100.0).round() as u32;
    if share > 0 && !is_named {
        let hint = "add handler = \"path/to/module.wasm\" to it, or remove `canary`";
        let title = "`canary` has a share of the jobs, but no handler".to_owned();
        topic.reader().refuse(topic.key_at("canary"), title, hint);
    }
    Some(Canary { handler: handler?, sha256, share }).filter(|canary| canary.share > 0)
}

/// A number within a range.
fn read_number(section: &Section<'_>, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
    let number = section.number(key)?;
    if range.contains(&number) {
        return Some(number);
    }
    let (least, most) = range.into_inner();
    let title = format!("`{key}` is {number}; it must be from {least} to {most}");
    let hint = if number < least {
        format!("write at least {least}")
    } else {
        format!("write at most {most}")
    };
    section.reader().refuse(section.value_at(key), title, hint);
    None
}
