//! Reads arbitrary text as a manifest. It is valid, or refused with problems that each name a place in
//! the text and a remedy. The report is bounded and has no control characters.
#![no_main]

use std::path::Path;

use duebox::manifest::{Environment, Flags, LocatedProblem, Manifest};
use duebox_fuzz as _;
use libfuzzer_sys::fuzz_target;

/// The most problems of a report, with the one that counts the others.
const PROBLEMS_MAX: usize = 101;
/// The longest message or hint of a problem beyond what it quotes of the manifest, in bytes.
const TEXT_MAX: usize = 2 << 10;

fuzz_target!(|text: &str| {
    let variables = [("NAME", "value"), ("EMPTY", ""), ("SECRET", "s3cret")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = Environment::new(Flags::default(), variables).without_handlers();
    let path = Path::new("/nowhere/duebox.toml");
    match Manifest::parse(path, text.to_owned(), &environment) {
        Ok(manifest) => {
            let again = Manifest::parse(path, text.to_owned(), &environment);
            assert_eq!(again.ok().as_ref(), Some(&manifest));
            for name in manifest.topics.keys() {
                assert!(manifest.topic_for(name).is_some(), "{name}");
            }
            for schedule in &manifest.schedules {
                assert!(manifest.topic_for(&schedule.topic).is_some(), "{}", schedule.topic);
            }
        }
        Err(error) => {
            let problems = error.problems();
            assert!((1..=PROBLEMS_MAX).contains(&problems.len()), "{} problems", problems.len());
            problems.iter().for_each(|problem| check(problem, text));
            let report = error.render(false);
            let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
            assert!(!report.contains(is_control), "{report:?}");
        }
    }
});

fn check(problem: &LocatedProblem, text: &str) {
    assert!(!problem.message.is_empty() && !problem.hint.is_empty(), "{problem:?}");
    let longest = TEXT_MAX + 4 * text.len();
    assert!(problem.message.len() + problem.hint.len() <= longest, "{problem:?}");
    match (problem.line, problem.column) {
        (Some(line), Some(column)) => {
            // The end of the text may be one line after its last.
            assert!(line >= 1 && line <= text.split('\n').count() + 1, "{problem:?}");
            let width = text.split('\n').nth(line - 1).map_or(0, |line| line.chars().count());
            assert!(column >= 1 && column <= width + 2, "{problem:?}");
        }
        // An empty manifest has no place, and so has the count of further problems.
        (None, None) => assert!(
            problem.message.contains("empty") || problem.message.contains("more problems"),
            "no place: {problem:?}"
        ),
        place => panic!("half a place: {place:?}"),
    }
}
