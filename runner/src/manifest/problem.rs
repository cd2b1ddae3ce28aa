//! The report of a manifest's problems: file, line, a caret under the text, and the remedy.
//!
//! Problems are sorted by their place in the file, and a problem that occurs twice is reported once.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// The most problems that are reported; further ones are only counted.
const REPORTED_MAX: usize = 100;

/// One problem. `at` is its byte range in the manifest; a problem of a flag or a variable has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceProblem {
    pub(super) at: Option<Range<usize>>,
    pub(super) title: String,
    pub(super) hint: String,
}

/// A refused manifest, with all its problems.
#[derive(Debug)]
pub struct ManifestError {
    report: Report,
    awaited: Vec<PathBuf>,
}

/// Risky settings of a valid manifest.
#[derive(Debug)]
pub struct Warnings(Report);

/// The problems of a file, and its text.
#[derive(Debug)]
struct Report {
    path: PathBuf,
    text: String,
    problems: Vec<SourceProblem>,
}

/// A problem with its line and column.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LocatedProblem {
    /// The line, from 1; absent for a problem of a flag or a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The column in characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// The remedy.
    pub hint: String,
}

impl Report {
    fn new(path: &Path, text: String, mut problems: Vec<SourceProblem>) -> Self {
        problems.sort_by_key(|problem| problem.at.as_ref().map(|at| (at.start, at.end)));
        problems.dedup();
        let unreported = problems.len().saturating_sub(REPORTED_MAX);
        problems.truncate(REPORTED_MAX);
        if unreported > 0 {
            problems.push(SourceProblem {
                at: None,
                title: format!("there are {unreported} more problems"),
                hint: "check that the file is a manifest; the first problem may have caused the others"
                    .to_owned(),
            });
        }
        Self { path: path.to_owned(), text, problems }
    }

    fn located(&self) -> Vec<LocatedProblem> {
        let locate = |problem: &SourceProblem| {
            let position = problem.at.as_ref().map(|at| line_and_column(&self.text, at.start));
            LocatedProblem {
                line: position.map(|(line, _)| line),
                column: position.map(|(_, column)| column),
                message: problem.title.clone(),
                hint: problem.hint.clone(),
            }
        };
        self.problems.iter().map(locate).collect()
    }

    fn render(&self, level: &Level<'_>, styled: bool) -> String {
        let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
        let path = self.path.display().to_string();
        let mut reports = Vec::with_capacity(self.problems.len());
        for SourceProblem { at, title, hint } in &self.problems {
            let group = Group::with_title(level.clone().primary_title(title));
            reports.push(match at {
                Some(at) => {
                    let caret = AnnotationKind::Primary.span(at.clone());
                    let snippet = Snippet::source(&self.text).path(&path).annotation(caret);
                    let hint = Level::HELP.with_name("hint").message(hint);
                    renderer.render(&[group.element(snippet).element(hint)])
                }
                None => format!("{}\nhint: {hint}", renderer.render(&[group])),
            });
        }
        reports.join("\n\n")
    }
}

impl ManifestError {
    pub(super) fn new(path: &Path, text: String, problems: Vec<SourceProblem>) -> Self {
        Self { report: Report::new(path, text, problems), awaited: Vec::new() }
    }

    /// Adds the files and directories that a later change may make valid.
    pub(super) fn awaiting(self, awaited: Vec<PathBuf>) -> Self {
        Self { awaited, ..self }
    }

    /// Missing secrets and directories. When one of them changes, the manifest may become valid.
    pub fn awaited(&self) -> &[PathBuf] {
        &self.awaited
    }

    /// The error for a file that cannot be read.
    pub(super) fn of_file(path: &Path, title: String, hint: &str) -> Self {
        let title = format!("{}: {title}", path.display());
        let problem = SourceProblem { at: None, title, hint: hint.to_owned() };
        Self::new(path, String::new(), vec![problem])
    }

    /// The path of the manifest.
    pub fn path(&self) -> &Path {
        &self.report.path
    }

    /// Every problem, in the order of the file.
    pub fn problems(&self) -> Vec<LocatedProblem> {
        self.report.located()
    }

    /// The problems as text, with colours if `styled`.
    pub fn render(&self, styled: bool) -> String {
        self.report.render(&Level::ERROR, styled)
    }
}

impl Warnings {
    pub(super) fn new(path: &Path, text: String, warnings: Vec<SourceProblem>) -> Self {
        Self(Report::new(path, text, warnings))
    }

    /// Every warning, in the order of the file.
    pub fn located(&self) -> Vec<LocatedProblem> {
        self.0.located()
    }

    /// The warnings as text, with colours if `styled`. Empty without warnings.
    pub fn render(&self, styled: bool) -> String {
        self.0.render(&Level::WARNING, styled)
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for ManifestError {}

/// Adds the errors of the TOML parser. After an error it continues with guessed values, so the problems
/// of the same line are dropped.
pub(super) fn add_syntax_errors(
    problems: &mut Vec<SourceProblem>,
    errors: &[toml::de::Error],
    text: &str,
) {
    let line_starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let line_of = |at: &Range<usize>| line_starts.partition_point(|start| *start <= at.start);
    let broken: Vec<SourceProblem> = errors
        .iter()
        .map(|error| SourceProblem {
            at: error.span().map(|at| clamp(text, at)),
            title: format!("invalid TOML: {}", error.message()),
            hint: syntax_hint(error.message()).to_owned(),
        })
        .collect();
    let broken_lines: HashSet<usize> =
        broken.iter().filter_map(|problem| problem.at.as_ref().map(line_of)).collect();
    problems.retain(|problem| {
        problem.at.as_ref().is_none_or(|at| !broken_lines.contains(&line_of(at)))
    });
    problems.extend(broken);
}

/// Replaces byte ranges of a text with stars. Line breaks and byte offsets stay the same.
pub(super) fn redact(text: String, secrets: &[Range<usize>]) -> String {
    if secrets.is_empty() {
        return text;
    }
    let hidden = |at: usize| secrets.iter().any(|secret| secret.contains(&at));
    let star = |(at, char): (usize, char)| match char {
        '\n' | '\r' => char.to_string(),
        _ if hidden(at) => "*".repeat(char.len_utf8()),
        _ => char.to_string(),
    };
    text.char_indices().map(star).collect()
}

fn syntax_hint(message: &str) -> &'static str {
    if message.contains("duplicate key") {
        "remove one of the two"
    } else {
        "see https://toml.io for the format; write strings, sizes and durations in quotes"
    }
}

/// Clamps a range to the text and to character boundaries.
fn clamp(text: &str, at: Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(at.start);
    start..text.ceil_char_boundary(at.end.max(start))
}

/// The line and the column of a byte offset, both from 1. The column counts characters.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(byte)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_in_characters() {
        let text = "a = 1\nä = 2\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 6), (2, 1));
        assert_eq!(line_and_column(text, 8), (2, 2));
        assert_eq!(line_and_column(text, 99), (3, 1));
    }

    #[test]
    fn at_most_100_problems_are_reported() {
        let text = "]\n".repeat(500_000);
        let problem =
            |at: usize| SourceProblem { at: Some(at..at + 1), title: "x".into(), hint: "y".into() };
        let problems = (0..text.len()).map(problem).collect();
        let error = ManifestError::new(Path::new("m"), text, problems);
        assert_eq!(error.problems().len(), REPORTED_MAX + 1);
        assert!(error.to_string().contains("there are 999900 more problems"));
    }

    #[test]
    fn redacted_text_keeps_its_offsets() {
        let text = "a = \"hünter\n2\" # b".to_owned();
        let hidden = redact(text.clone(), std::slice::from_ref(&(4..15)));
        assert_eq!(hidden, "a = ********\n** # b");
        assert_eq!((hidden.len(), redact(text.clone(), &[])), (text.len(), text));
    }

    #[test]
    fn a_repeated_problem_is_reported_once() {
        let problem = SourceProblem { at: Some(0..1), title: "x".into(), hint: "y".into() };
        let error = ManifestError::new(Path::new("m"), "a".into(), vec![problem.clone(), problem]);
        assert_eq!(error.problems().len(), 1);
    }
}
