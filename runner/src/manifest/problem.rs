//! What is wrong with a manifest, for people: the file, the line, the text under a caret, the remedy.
//!
//! Problems are kept in the order of the file and each is told once, however often it was met.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// Problems that are told; a file with more is no manifest, and the rest are counted.
const REPORTED_MAX: usize = 100;

/// One problem. `at` is its place in the manifest's text, in bytes; a problem that stems from a flag
/// or a variable has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceProblem {
    pub(super) at: Option<Range<usize>>,
    pub(super) title: String,
    pub(super) hint: String,
}

/// A manifest that was refused, with everything that is wrong with it.
#[derive(Debug)]
pub struct ManifestError {
    report: Report,
    awaited: Vec<PathBuf>,
}

/// What is to be read twice in a manifest that is good.
#[derive(Debug)]
pub struct Warnings(Report);

/// Problems of a file, and the text they stand in.
#[derive(Debug)]
struct Report {
    path: PathBuf,
    text: String,
    problems: Vec<SourceProblem>,
}

/// A problem with its place counted as people and editors count.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LocatedProblem {
    /// The line, from 1; absent if the problem stems from a flag or a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The character in that line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
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
                hint: "check that the file is a manifest; the first problem may cause the others"
                    .to_owned(),
            });
        }
        Self { path: path.to_owned(), text, problems }
    }

    fn located(&self) -> Vec<LocatedProblem> {
        let locate = |problem: &SourceProblem| {
            let place = problem.at.as_ref().map(|at| line_and_column(&self.text, at.start));
            LocatedProblem {
                line: place.map(|(line, _)| line),
                column: place.map(|(_, column)| column),
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

    /// With the files and directories that were not as they must be.
    pub(super) fn awaiting(self, awaited: Vec<PathBuf>) -> Self {
        Self { awaited, ..self }
    }

    /// Secrets and directories that were not to be had: when one changes, the manifest may be good.
    pub fn awaited(&self) -> &[PathBuf] {
        &self.awaited
    }

    /// A file that cannot be read at all.
    pub(super) fn of_file(path: &Path, title: String, hint: &str) -> Self {
        let title = format!("{}: {title}", path.display());
        let problem = SourceProblem { at: None, title, hint: hint.to_owned() };
        Self::new(path, String::new(), vec![problem])
    }

    /// The manifest's file.
    pub fn path(&self) -> &Path {
        &self.report.path
    }

    /// Every problem, in the order of the file.
    pub fn problems(&self) -> Vec<LocatedProblem> {
        self.report.located()
    }

    /// The problems as text, in colours if `styled`.
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

    /// The warnings as text, in colours if `styled`; empty if there are none.
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

/// Adds what the TOML parser found. On a line it could not read, the values it went on with are
/// guesses: what was said about them is dropped.
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
            title: format!("this is not TOML: {}", error.message()),
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

/// Puts stars over places of a text; lines and bytes stay where they are.
pub(super) fn redact(text: String, places: &[Range<usize>]) -> String {
    if places.is_empty() {
        return text;
    }
    let hidden = |at: usize| places.iter().any(|place| place.contains(&at));
    let star = |(at, char): (usize, char)| match char {
        '\n' | '\r' => char.to_string(),
        _ if hidden(at) => "*".repeat(char.len_utf8()),
        _ => char.to_string(),
    };
    text.char_indices().map(star).collect()
}

fn syntax_hint(message: &str) -> &'static str {
    if message.contains("duplicate key") {
        "it stands there twice; keep one of the two"
    } else {
        "see https://toml.io for the format; texts, sizes and durations stand in quotes"
    }
}

/// Moves a range into the text and onto whole characters.
fn clamp(text: &str, at: Range<usize>) -> Range<usize> {
    let start = text.floor_char_boundary(at.start);
    start..text.ceil_char_boundary(at.end.max(start))
}

/// Line and column of a byte, both from 1, the column in characters.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(byte)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_in_characters() {
        let text = "a = 1\nä = 2\n";
        assert_eq!(line_and_column(text, 0), (1, 1));
        assert_eq!(line_and_column(text, 6), (2, 1));
        assert_eq!(line_and_column(text, 8), (2, 2));
        assert_eq!(line_and_column(text, 99), (3, 1));
    }

    #[test]
    fn a_file_that_is_no_manifest_is_told_about_within_bounds() {
        let text = "]\n".repeat(500_000);
        let problem =
            |at: usize| SourceProblem { at: Some(at..at + 1), title: "x".into(), hint: "y".into() };
        let problems = (0..text.len()).map(problem).collect();
        let error = ManifestError::new(Path::new("m"), text, problems);
        assert_eq!(error.problems().len(), REPORTED_MAX + 1);
        assert!(error.to_string().contains("there are 999900 more problems"));
    }

    #[test]
    fn what_is_concealed_keeps_its_place_and_shows_nothing() {
        let text = "a = \"hünter\n2\" # b".to_owned();
        let hidden = redact(text.clone(), std::slice::from_ref(&(4..15)));
        assert_eq!(hidden, "a = ********\n** # b");
        assert_eq!((hidden.len(), redact(text.clone(), &[])), (text.len(), text));
    }

    #[test]
    fn a_problem_met_twice_is_told_once() {
        let problem = SourceProblem { at: Some(0..1), title: "x".into(), hint: "y".into() };
        let error = ManifestError::new(Path::new("m"), "a".into(), vec![problem.clone(), problem]);
        assert_eq!(error.problems().len(), 1);
    }
}
