//! The results of test cases, as text and as JSON.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::suites::Suite;
use crate::deploy::case_run::{CaseRun, Difference};
use crate::manifest::Case;
use crate::millis::exact_millis;

/// The results of all cases.
#[derive(Default, Serialize)]
pub(super) struct TestReport {
    pub(super) cases: Vec<CaseResult>,
}

/// The result of one case.
#[derive(Serialize)]
pub(super) struct CaseResult {
    pub(super) topic: String,
    /// The file of the case; `None` for a smoke case of the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
    pub(super) name: String,
    pub(super) passed: bool,
    /// Its expectations were rewritten.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) updated: bool,
    pub(super) time_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) differences: Vec<DifferenceLine>,
    pub(super) log: Vec<String>,
    #[serde(skip)]
    pub(super) at: usize,
    #[serde(skip)]
    pub(super) run: CaseRun,
}

/// A part that is not as expected.
#[derive(Serialize)]
pub(super) struct DifferenceLine {
    pub(super) what: &'static str,
    pub(super) expected: String,
    pub(super) found: String,
}

impl CaseResult {
    pub(super) fn new(
        suite: &Suite<'_>,
        file: Option<&Path>,
        at: usize,
        case: &Case,
        run: CaseRun,
    ) -> Self {
        let line = |Difference { what, expected, found }| DifferenceLine { what, expected, found };
        let differences: Vec<_> = run.differences(case).into_iter().map(line).collect();
        let name = match (case.name.as_str(), file) {
            ("", None) => format!("smoke case {}", at + 1),
            ("", Some(_)) => format!("case {}", at + 1),
            (name, _) => name.to_owned(),
        };
        Self {
            topic: suite.name.clone(),
            file: file.map(Path::to_owned),
            name,
            passed: differences.is_empty(),
            updated: false,
            time_ms: exact_millis(run.report.wall),
            fuel: run.report.fuel_used,
            differences,
            log: run.log.clone(),
            at,
            run,
        }
    }

    fn describe(&self) -> String {
        let word = match (self.passed, self.updated) {
            (true, _) => "ok      ",
            (false, true) => "updated ",
            (false, false) => "FAILED  ",
        };
        let mut lines = vec![format!("{word}{}  {}", self.topic, self.name)];
        if self.passed {
            return lines.remove(0);
        }
        if let Some(file) = &self.file {
            lines.push(format!("        in {}", file.display()));
        }
        for DifferenceLine { what, expected, found } in &self.differences {
            lines.push(format!("        {what}"));
            lines.extend(changed_lines(expected, found).map(|line| format!("          {line}")));
        }
        if !self.updated
            && !self.log.is_empty()
            && self.differences.iter().all(|it| it.what != "log")
        {
            lines.push("        its log".to_owned());
            lines.extend(self.log.iter().map(|line| format!("            {line}")));
        }
        lines.join("\n")
    }
}

/// The lines of both texts: `-` for what was expected, `+` for what came, nothing before common lines at the
/// beginning and the end.
fn changed_lines<'t>(expected: &'t str, found: &'t str) -> impl Iterator<Item = String> + 't {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let head = old.iter().zip(&new).take_while(same).count();
    let rest = (old.len() - head).min(new.len() - head);
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(same).count();
    let mut lines: Vec<String> = old[..head].iter().map(|line| format!("  {line}")).collect();
    lines.extend(old[head..old.len() - tail].iter().map(|line| format!("- {line}")));
    lines.extend(new[head..new.len() - tail].iter().map(|line| format!("+ {line}")));
    lines.extend(old[old.len() - tail..].iter().map(|line| format!("  {line}")));
    lines.into_iter()
}

impl TestReport {
    /// Whether no case failed. A case whose expectations were rewritten has not failed.
    pub(super) fn has_passed(&self) -> bool {
        self.cases.iter().all(|case| case.passed || case.updated)
    }

    pub(super) fn describe(&self) -> String {
        let mut lines: Vec<String> = self.cases.iter().map(CaseResult::describe).collect();
        let count = |is: fn(&CaseResult) -> bool| self.cases.iter().filter(|case| is(case)).count();
        let time_ms: f64 = self.cases.iter().map(|case| case.time_ms).sum();
        let failed = count(|case| !case.passed && !case.updated);
        let updated = match count(|case| case.updated) {
            0 => String::new(),
            updated => format!("{updated} updated, "),
        };
        let passed = count(|case| case.passed);
        lines.push(format!("{passed} passed, {updated}{failed} failed in {time_ms:.0} ms"));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_lines_stand_once() {
        let lines: Vec<String> = changed_lines("a\nb\nc\nd", "a\nx\nd").collect();
        assert_eq!(lines, ["  a", "- b", "- c", "+ x", "  d"]);
        assert_eq!(changed_lines("a", "a\na").collect::<Vec<_>>(), ["  a", "+ a"]);
        assert_eq!(changed_lines("", "x").collect::<Vec<_>>(), ["+ x"]);
    }
}
