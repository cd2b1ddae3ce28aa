//! A canary runs a share of the jobs, the same jobs at each attempt. Its failures do not affect the main handler.

use std::collections::{BTreeMap, BTreeSet};

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, digest};
use crate::support::log::{is_verdict, verdicts};
use crate::support::producer::push_many;

const TOPIC: &str = "work";
const JOBS: usize = 200;

/// A module that nacks.
fn nacks(word: &str) -> Vec<u8> {
    Handler::logs(word).nacks().wasm()
}

/// A manifest with three attempts and a canary for this percentage of the jobs.
fn manifest(fixture: &Fixture, percent: &str) {
    let keys = format!(
        "max_attempts = 3\nbackoff = \"10ms\"\nbreaker = {{ failures = 0 }}\nrollback = {{ min_jobs = 0 }}\n\
         canary = {{ handler = \"canary.wasm\", percent = {percent} }}"
    );
    fixture.manifest("", &[topic(TOPIC, "module.wasm", &keys)]);
}

/// Runs jobs through three attempts and returns the modules that ran each.
fn modules_of_jobs(fixture: &Fixture, daemon: &Daemon) -> BTreeMap<String, BTreeSet<String>> {
    let before = daemon.count(is_verdict);
    push_many(fixture, TOPIC, JOBS);
    eventually("all attempts", || daemon.count(is_verdict) >= before + 3 * JOBS);
    let mut modules: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for verdict in verdicts(daemon).drain(before..) {
        modules.entry(verdict.id).or_default().insert(verdict.digest);
    }
    assert_eq!(modules.len(), JOBS);
    assert!(modules.values().all(|modules| modules.len() == 1), "a job met both modules");
    modules
}

fn count_on(modules: &BTreeMap<String, BTreeSet<String>>, module: &[u8]) -> usize {
    modules.values().filter(|modules| modules.contains(&digest(module))).count()
}

fn reports_canary(line: &LogLine, module: &[u8]) -> bool {
    line.message().starts_with("the canary runs") && line.has("digest", &digest(module))
}

#[test]
fn a_canary_runs_its_share_and_the_same_jobs_at_each_attempt() {
    let fixture = Fixture::new();
    let (main, canary) = (nacks("main"), nacks("canary"));
    fixture.write("module.wasm", &main);
    fixture.write("canary.wasm", &canary);
    manifest(&fixture, "50");
    let daemon = fixture.start();
    let first = modules_of_jobs(&fixture, &daemon);
    let on_canary = count_on(&first, &canary);
    // The share of 200 jobs follows a hash of their ids; five standard deviations are 35.
    assert!((65..=135).contains(&on_canary), "{on_canary} of {JOBS} jobs met the canary");
    assert_eq!(on_canary + count_on(&first, &main), JOBS);
    assert_eq!(modules_of_jobs(&fixture, &daemon), first, "the ids alone decide");

    // Its file is watched like the handler's; a broken one leaves the current module.
    fixture.write("canary.wasm", "no module");
    let refused = daemon.wait_for_line("the refusal", |line| line.has("role", "canary"));
    assert!(refused.message().contains("the module in service stays"), "{}", refused.text());
    let other = nacks("other");
    fixture.write("canary.wasm", &other);
    daemon.wait_for_line("the new canary", |line| reports_canary(line, &other));
    let second = modules_of_jobs(&fixture, &daemon);
    assert_eq!(count_on(&second, &other), on_canary);

    // A smaller share is a subset of the same jobs; zero runs none.
    manifest(&fixture, "12.5");
    daemon.wait_for_line("the smaller part", |line| {
        reports_canary(line, &other) && line.decimal("percent") == Some(12.5)
    });
    let third = modules_of_jobs(&fixture, &daemon);
    let still = third.iter().filter(|(_, modules)| modules.contains(&digest(&other)));
    let still: Vec<&String> = still.map(|(id, _)| id).collect();
    assert!(!still.is_empty() && still.len() < on_canary, "{}", still.len());
    assert!(still.iter().all(|id| second[*id].contains(&digest(&other))));
    manifest(&fixture, "0");
    daemon.wait_for_line("the end", |line| line.message().starts_with("the canary is removed"));
    assert_eq!(count_on(&modules_of_jobs(&fixture, &daemon), &main), JOBS);
}

#[test]
fn a_broken_canary_leaves_all_jobs_to_the_handler() {
    let fixture = Fixture::new();
    let main = nacks("main");
    fixture.write("module.wasm", &main);
    fixture.write("canary.wasm", "no module");
    manifest(&fixture, "100");
    let daemon = fixture.start();
    let refused = daemon.wait_for_line("the refusal", |line| line.has("role", "canary"));
    assert!(refused.has("level", "WARN"), "{}", refused.text());
    assert!(refused.message().contains("the handler runs all jobs"), "{}", refused.text());
    assert_eq!(count_on(&modules_of_jobs(&fixture, &daemon), &main), JOBS);
    let canary = nacks("canary");
    fixture.write("canary.wasm", &canary);
    daemon.wait_for_line("the canary", |line| reports_canary(line, &canary));
    assert_eq!(count_on(&modules_of_jobs(&fixture, &daemon), &canary), JOBS);
}
