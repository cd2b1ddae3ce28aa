//! A handler of one topic, or one job, learns nothing of another's: not from variables, prototypes, modules, caches or
//! settings of its language.
//!
//! The programs in `isolation/` look at everything that a program can reach. A job that comes after another must see
//! what the first job of its topic saw.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::fs;
use std::path::Path;

use duebox_conformance::{Attempt, Module, repository};
use duebox_sandbox::Instances;
use serde::Deserialize;

const LANGUAGES: [&str; 2] = ["js", "py"];
const WARM: Instances = Instances { snapshot: false, jobs_each: 100 };
/// The word that the other jobs leave; the programs look for it.
const WORD: &str = "left-by-another";
/// What a job must be able to see of a word that it left itself, or the programs prove nothing.
const PLACES_MIN: usize = 15;

/// What a program has seen.
#[derive(Debug, Deserialize, PartialEq)]
struct Seen {
    /// Of all that it reached.
    digest: serde_json::Value,
    /// The number of values that it reached.
    count: usize,
    /// Where it has found the word.
    leaks: Vec<String>,
}

/// The probe as two topics: the same program but for its last line.
fn two_topics(language: &str, instances: Instances) -> [Module; 2] {
    let name = format!("tests/conformance/isolation/probe.{language}");
    let source = fs::read_to_string(repository().join(name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    ["one", "other"].map(|topic| {
        let path = folder.path().join(format!("{topic}.{language}"));
        let last = if language == "js" { "export const topic" } else { "topic" };
        fs::write(&path, format!("{source}\n{last} = '{topic}'\n")).unwrap();
        Module::from_file_with(Path::new(&path), [].into(), instances)
    })
}

fn run(module: &Module, payload: &str) -> Seen {
    let run = module.run(&Attempt::new(payload));
    assert_eq!(run.verdict(), "ack", "{payload}: {run:?}");
    serde_json::from_slice(&run.result.unwrap()).unwrap()
}

#[test]
fn no_job_learns_what_another_left() {
    for language in LANGUAGES {
        for snapshot in [false, true] {
            let [one, other] = two_topics(language, Instances { snapshot, jobs_each: 1 });
            let look = format!("look {WORD}");
            let (of_one, of_other) = (run(&one, &look), run(&other, &look));
            assert_eq!(of_one.leaks, Vec::<String>::new(), "{language}: the word is not unique");
            assert!(of_one.count > 1_000, "{language}: it reached {} values", of_one.count);
            // An instance whose memory has grown is replaced, others are reset.
            for leave in [format!("leave {WORD}"), format!("leave {WORD} grow")] {
                for round in 0..2 {
                    let left = run(&one, &leave);
                    let places = left.leaks.len();
                    assert!(places >= PLACES_MIN, "{language} saw its word in {places} places");
                    assert_ne!(left.digest, of_one.digest, "{language}: it changed nothing");
                    let shown = format!("{language}, {leave:?}, round {round}");
                    assert_eq!(run(&one, &look), of_one, "another job of the topic, {shown}");
                    assert_eq!(run(&other, &look), of_other, "a job of another topic, {shown}");
                }
            }
        }
    }
}

/// With warm instances jobs do see each other, so the programs above can tell.
#[test]
fn a_warm_instance_shows_what_was_left() {
    // In JavaScript only: in Python the program needs more than half of the topic's memory, and such an instance runs no
    // further job.
    let [warm, _] = two_topics("js", WARM);
    let before = run(&warm, &format!("look {WORD}"));
    assert_eq!(before.leaks, Vec::<String>::new());
    run(&warm, &format!("leave {WORD}"));
    let after = run(&warm, &format!("look {WORD}"));
    assert!(after.leaks.len() >= PLACES_MIN, "{:?}", after.leaks);
}

#[test]
fn a_warm_instance_keeps_its_variables_until_it_uses_half_of_its_memory() {
    let javascript = "import { result } from 'duebox';
export const payload = 'text';
let jobs = 0, grown = [];
export default (text) => {
  jobs += 1;
  if (text === 'grow') grown.push(new Uint8Array(40 << 20));
  result(String(jobs));
};
";
    let python = "from duebox import result
payload = 'text'
jobs, grown = 0, []
def handle(text):
    global jobs
    jobs += 1
    if text == 'grow':
        grown.append(bytes(16 << 20))
    result(str(jobs))
";
    for (language, source) in [("js", javascript), ("py", python)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("counts.{language}"));
        fs::write(&path, source).unwrap();
        let warm = Module::from_file_with(&path, [].into(), WARM);
        let jobs = ["stay", "stay", "grow", "stay"].map(|payload| {
            let run = warm.run(&Attempt::new(payload));
            assert_eq!(run.verdict(), "ack", "{language}: {run:?}");
            String::from_utf8(run.result.unwrap().to_vec()).unwrap()
        });
        assert_eq!(jobs, ["1", "2", "3", "1"], "{language}");
    }
}

/// Dictionaries of the program are built with its seed, so all jobs of a program have the same one, and each program
/// has its own, also after a reload of the same file.
#[test]
fn the_seed_of_hashes_is_the_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seed.py");
    let source = "from duebox import result
known = {'order': 1, 'payment': 2}
first = hash('order')
def handle(payload):
    if hash('order') != first or known['pay' + 'ment'] != 2:
        return 'drop'
    result(str(first))
";
    fs::write(&path, source).unwrap();
    let seeds = [(); 3].map(|()| {
        let module = Module::from_file(&path, [].into());
        let drawn = [(); 3].map(|()| {
            let run = module.run(&Attempt::new("{}"));
            assert_eq!(run.verdict(), "ack", "{run:?}");
            run.result.unwrap()
        });
        assert!(drawn.iter().all(|seed| *seed == drawn[0]), "{drawn:?}");
        drawn[0].clone()
    });
    assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2] && seeds[0] != seeds[2], "{seeds:?}");
}
