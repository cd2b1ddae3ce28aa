//! Hostile programs of source handlers: each ends as its first line states, and no other handler notices.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use duebox_conformance::{Attempt, Module};

/// The end of a program that is given little time.
const TIMEOUT: &str = "timeout";

/// The files of a language with what they expect.
fn corpus() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let expected = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        let first = text.lines().next().map(|line| line.trim_start_matches(['/', '#']));
        let first = first.and_then(|line| line.strip_prefix(" expect: "));
        first.unwrap_or_else(|| panic!("{} states no end", path.display())).to_owned()
    };
    files.map(|path| (path.clone(), expected(&path))).collect()
}

#[test]
fn each_hostile_program_ends_as_its_first_line_states() {
    let neighbour = Module::built("noop-js", [].into());
    let mut wrong = Vec::new();
    let corpus = corpus();
    for language in ["js", "py"] {
        let of =
            corpus.iter().filter(|(path, _)| path.extension().is_some_and(|it| it == language));
        let count = of.count();
        assert!(count >= 30, "only {count} hostile programs were found in {language}");
    }
    for (path, expected) in &corpus {
        let module = Module::from_file(path, [].into());
        // A program that ends by itself gets enough time for a loaded machine.
        let ttr_ms = if expected == TIMEOUT { 300 } else { 60_000 };
        let run = module.run(&Attempt::new("{}").ttr_ms(ttr_ms));
        if run.verdict() != expected {
            wrong.push(format!("{}: {expected}, not {:?}", path.display(), run.outcome));
        }
        assert_eq!(neighbour.run(&Attempt::new("{}")).verdict(), "ack", "{}", path.display());
    }
    assert_eq!(wrong, Vec::<String>::new());
    let ends: BTreeSet<&str> = corpus.iter().map(|(_, expected)| expected.as_str()).collect();
    for class in ["timeout", "out_of_memory", "stack_overflow", "bad_verdict", "nack"] {
        assert!(ends.contains(class), "no program ends as {class}");
    }
}

/// A program spoils everything that it can reach. The next job of its topic starts from the evaluated program, and
/// another topic has never seen it.
#[test]
fn what_one_job_leaves_reaches_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spoils.js");
    let source = "let seen = 0;
        export const payload = 'text';
        export default () => {
          if (seen++ > 0 || globalThis.left || Object.prototype.left || setTimeout.left) return 'drop';
          globalThis.left = Object.prototype.left = setTimeout.left = true;
          Promise.resolve().then(() => { globalThis.left = true; });
          setTimeout(() => { globalThis.left = true; }, 1);
        };";
    fs::write(&path, source).unwrap();
    let module = Module::from_file(&path, [].into());
    for _ in 0..20 {
        let run = module.run(&Attempt::new("x"));
        assert_eq!(run.verdict(), "ack", "{run:?}");
    }
}
