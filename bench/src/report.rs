//! The results of all repeats: a table for a terminal and a JSON file.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use crate::contender::{self, Contender};
use crate::machine::Machine;
use crate::results::{Cost, Judgement, Line, Results, Spread};
use crate::rows::{Family, Row, Target};
use crate::settings::Settings;

/// Everything measured in one run of the bench.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// UTC, without colons, because it is also the file's name.
    pub(crate) at: String,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) rows: Vec<RowReport>,
    pub(crate) lines: Vec<Line>,
    pub(crate) costs: Vec<Cost>,
    pub(crate) peers: Vec<Contender>,
}

/// A row with its results.
#[derive(Debug, Serialize)]
pub(crate) struct RowReport {
    pub(crate) row: Row,
    pub(crate) family: Family,
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// The target as text; empty without a target.
    pub(crate) target: String,
    #[serde(flatten)]
    pub(crate) spread: Spread,
    pub(crate) judgement: Judgement,
    #[serde(rename = "figures")]
    pub(crate) values: Vec<f64>,
}

impl Report {
    pub(crate) fn new(settings: &Settings, results: Results) -> Self {
        let row_report = |&row: &Row| {
            let spec = row.spec();
            Some(RowReport {
                row,
                family: spec.family,
                name: spec.name,
                unit: spec.unit,
                target: spec.target.to_string(),
                spread: results.spread(row)?,
                judgement: results.judge(row)?,
                values: results.of(row).to_vec(),
            })
        };
        Self {
            at: now(),
            machine: Machine::of_this(),
            settings: settings.clone(),
            rows: Row::ALL.iter().filter_map(row_report).collect(),
            lines: results.lines,
            costs: results.costs,
            peers: Vec::new(),
        }
    }

    /// What a reader must know about the run.
    pub(crate) fn conditions(&self) -> String {
        let Machine { processor, cores, kernel, redis, commit } = &self.machine;
        let Settings { quick, repeats, jobs, payload, in_flight, .. } = &self.settings;
        let form = if *quick { "; quick run: sizes differ from those of the targets" } else { "" };
        let repeated = match self.peers.as_slice() {
            [] => format!("median of {repeats} (min–max)"),
            _ => "each measured once".to_owned(),
        };
        format!(
            "{processor}, {cores} cores, Linux {kernel}, Redis {redis}, commit {commit}\n\
             {jobs} jobs of {payload} bytes, {in_flight} in flight; Redis, daemon and bench on the \
             same cores\n\
             {repeated}{form}"
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}", self.conditions())?;
        if !self.peers.is_empty() {
            return writeln!(f, "\n{}", contender::table(&self.peers));
        }
        let mut family = None;
        for RowReport { family: its, name, unit, target, spread, judgement, .. } in &self.rows {
            if family.replace(*its) != Some(*its) {
                writeln!(f)?;
            }
            let range = format!("({}–{})", number(spread.min), number(spread.max));
            let median = number(spread.median);
            write!(f, "{name:<48} {target:>10} {median:>10} {unit:<7} {range:<20}")?;
            writeln!(f, " {}", judgement.word())?;
        }
        let count = |word| self.rows.iter().filter(|row| row.judgement == word).count();
        let (passed, missed) = (count(Judgement::Pass), count(Judgement::Miss));
        writeln!(f, "\n{passed} pass, {missed} miss")
    }
}

impl Judgement {
    /// The word in the table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Miss => "MISS",
            Self::Shown => "",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AtLeast(wanted) | Self::AtLeastUnless(wanted, ..) => {
                write!(f, "≥ {}", short(wanted))
            }
            Self::AtMost(wanted) => write!(f, "≤ {}", short(wanted)),
            Self::None => Ok(()),
        }
    }
}

/// Formats a number with its significant digits.
pub(crate) fn number(figure: f64) -> String {
    match figure.abs() {
        1_000.0.. => grouped(figure),
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        1.0.. => format!("{figure:.2}"),
        _ => format!("{figure:.4}"),
    }
}

/// Formats a target as it was written.
fn short(wanted: f64) -> String {
    if wanted >= 1_000.0 { grouped(wanted) } else { format!("{wanted}") }
}

/// Formats an integer with commas between thousands.
fn grouped(figure: f64) -> String {
    let digits = format!("{figure:.0}");
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The current time in UTC, fit for a file name.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H%M%SZ").to_string()
}

/// Writes values as JSON into `folder` and returns the path.
pub(crate) fn write(
    folder: &Path,
    name: &str,
    figures: &impl Serialize,
) -> anyhow::Result<PathBuf> {
    let mut json = serde_json::to_string_pretty(figures)?;
    json.push('\n');
    write_text(folder, &format!("{name}.json"), &json)
}

/// Writes a text file into `folder` and returns the path.
pub(crate) fn write_text(folder: &Path, name: &str, text: &str) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let file = folder.join(name);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_significant_digits() {
        let figures = [0.0123, 1.5, 12.34, 123.4, 1_234.5, 100_000.0, 1_234_567.0];
        let texts = ["0.0123", "1.50", "12.3", "123", "1,234", "100,000", "1,234,567"];
        assert_eq!(figures.map(number), texts);
        assert_eq!(Target::AtLeast(100_000.0).to_string(), "≥ 100,000");
        assert_eq!(Target::AtMost(0.02).to_string(), "≤ 0.02");
    }
}
