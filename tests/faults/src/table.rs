//! The table of a campaign, on the terminal and in `tests/faults/README.md`.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use crate::judge::Verdict;

const BEGIN: &str = "<!-- table -->";
const END: &str = "<!-- end of table -->";

/// The end of a row.
pub(crate) enum Outcome {
    Judged(Box<Verdict>),
    /// Why the row could not run here.
    Skipped(String),
    /// The row itself failed.
    Broken(String),
}

/// A row that ran.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) took: Duration,
    pub(crate) outcome: Outcome,
}

impl Line {
    pub(crate) fn passes(&self) -> bool {
        match &self.outcome {
            Outcome::Judged(verdict) => verdict.problems.is_empty(),
            Outcome::Skipped(_) => true,
            Outcome::Broken(_) => false,
        }
    }

    /// One line for the terminal.
    pub(crate) fn plain(&self) -> String {
        let (name, took) = (self.name, self.took.as_secs());
        match &self.outcome {
            Outcome::Skipped(why) => format!("{name:<22} skipped: {why}"),
            Outcome::Broken(why) => format!("{name:<22} BROKEN ({took} s): {why}"),
            Outcome::Judged(verdict) => {
                let word = if self.passes() { "pass" } else { "FAIL" };
                let cells = cells(verdict);
                let mut text = format!("{name:<22} {word} ({took} s): {}", cells.join(" · "));
                for problem in verdict.notes.iter().chain(&verdict.problems) {
                    text += &format!("\n    {problem}");
                }
                text
            }
        }
    }

    /// A row of the table; `run` says when and of what it ran.
    fn markdown(&self, run: &str) -> String {
        let (name, what) = (self.name, self.what);
        match &self.outcome {
            Outcome::Skipped(why) => {
                format!("| `{name}` | {what} | skipped: {why} | | | | | | | {run} |")
            }
            Outcome::Broken(why) => {
                format!("| `{name}` | {what} | **broken**: {why} | | | | | | | {run} |")
            }
            Outcome::Judged(verdict) => {
                let mut word = match verdict.problems.join("; ") {
                    none if none.is_empty() => "pass".to_owned(),
                    some => format!("**fail**: {some}"),
                };
                for note in &verdict.notes {
                    word += &format!("; {note}");
                }
                let values = values(verdict).join(" | ");
                format!("| `{name}` | {what} | {word} | {values} | {run} |")
            }
        }
    }
}

/// The values of the table's columns after the first three.
fn values(verdict: &Verdict) -> [String; 6] {
    let lost = match verdict.lost_with_data {
        0 => verdict.lost.to_string(),
        more => format!("{} (+{more} with Redis' data)", verdict.lost),
    };
    let dead = verdict.dead.iter().map(|(class, count)| format!("{count} {class}"));
    let resumed = verdict.resumed.map(|time| format!("{} ms", time.as_millis()));
    let (before, after) = verdict.memory_kib;
    [
        format!("{} ({} found later)", verdict.confirmed, verdict.found),
        lost,
        format!("{} (+{} after a broken lease)", verdict.duplicates, verdict.repeats),
        dead.collect::<Vec<_>>().join(", "),
        resumed.unwrap_or_default(),
        format!("{} → {} MiB", before >> 10, after >> 10),
    ]
}

fn cells(verdict: &Verdict) -> Vec<String> {
    let names = ["confirmed", "lost", "duplicates", "dead", "resumed after", "memory"];
    let pairs = names.iter().zip(values(verdict)).filter(|(_, value)| !value.is_empty());
    let mut cells: Vec<String> = pairs.map(|(name, value)| format!("{name} {value}")).collect();
    cells.insert(1, format!("ended {}", verdict.ended));
    cells
}

/// Writes the rows that ran between the marks of the page. The other rows stay as their last run wrote them, also where
/// this run skipped them. `names` are all rows in their order.
pub(crate) fn write(page: &Path, run: &str, lines: &[Line], names: &[&str]) -> anyhow::Result<()> {
    let old =
        std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let (Some(begin), Some(end)) = (old.find(BEGIN), old.find(END)) else {
        anyhow::bail!("{} has no marks for the table: {BEGIN} and {END}", page.display());
    };
    let written: Vec<&str> = old[begin..end].lines().collect();
    let mut text = format!("{}{BEGIN}\n", &old[..begin]);
    text += "| row | faults | verdict | confirmed pushes | lost | duplicates | dead | work went on after | memory | run |\n";
    text += "|---|---|---|---|---|---|---|---|---|---|\n";
    for name in names {
        let start = format!("| `{name}` |");
        let kept = written.iter().find(|row| row.starts_with(&start));
        match (lines.iter().find(|line| line.name == *name), kept) {
            (Some(Line { outcome: Outcome::Skipped(_), .. }), Some(row)) => {
                writeln!(text, "{row}")?
            }
            (Some(line), _) => writeln!(text, "{}", line.markdown(run))?,
            (None, Some(row)) => writeln!(text, "{row}")?,
            (None, None) => {}
        }
    }
    text += &old[end..];
    std::fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &'static str, outcome: Outcome) -> Line {
        Line { name, what: "full", took: Duration::ZERO, outcome }
    }

    #[test]
    fn rows_that_ran_replace_the_old_ones_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("README.md");
        let rows = "| `disk` | full | pass | then |\n| `gone` | full | pass | then |\n| `kept` | all | pass | then |\n| `root` | full | pass | then |";
        std::fs::write(&page, format!("before\n{BEGIN}\n{rows}\n{END}\nafter\n")).unwrap();
        let skipped = |why: &str| Outcome::Skipped(why.to_owned());
        let lines = [
            line("disk", Outcome::Broken("no space".to_owned())),
            line("new", skipped("needs cc")),
            line("root", skipped("needs root")),
        ];
        write(&page, "today", &lines, &["new", "disk", "kept", "root", "never"]).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.starts_with("before\n") && text.ends_with("after\n"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), 4, "{text}");
        assert!(rows[0].contains("needs cc") && rows[0].ends_with("| today |"), "{text}");
        assert!(rows[1].contains("no space") && rows[1].ends_with("| today |"), "{text}");
        assert_eq!(rows[2], "| `kept` | all | pass | then |");
        assert_eq!(rows[3], "| `root` | full | pass | then |");
    }
}
