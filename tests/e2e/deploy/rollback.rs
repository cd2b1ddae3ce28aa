//! Rollback: a new module that fails far more often than the one before gives way to it by itself, and
//! any module does if somebody says so.

use std::process::{Command, Output};
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, duebox_binary, eventually};
use serde_json::Value;

use crate::support::fixture::{Ground, topic, up};
use crate::support::handler::{Handler, digest};
use crate::support::log::{is_verdict, settled_as, verdicts};
use crate::support::producer::{push, push_many};

const TOPIC: &str = "work";
/// Jobs after which a new module is judged.
const MIN_JOBS: usize = 50;

fn good() -> Vec<u8> {
    Handler::says("good").wasm()
}

fn bad() -> Vec<u8> {
    Handler::says("bad").nacks().wasm()
}

/// A manifest under which a failed job is dead at once, and a new module is on trial for this long.
fn manifest(ground: &Ground, runner: &str, window: &str) {
    let keys = format!(
        "max_attempts = 1\nbreaker = {{ failures = 0 }}\nrollback = {{ window = \"{window}\", min_jobs = {MIN_JOBS} }}"
    );
    ground.manifest(runner, &[topic(TOPIC, "module.wasm", &keys)]);
}

/// Runs so many jobs to their end.
fn run_jobs(ground: &Ground, daemon: &Daemon, count: usize) {
    let before = daemon.count(is_verdict);
    push_many(ground, TOPIC, count);
    eventually("the jobs are settled", || daemon.count(is_verdict) >= before + count);
}

/// Writes a module and waits until it serves.
fn swap(ground: &Ground, daemon: &Daemon, module: &[u8]) {
    let before = daemon.count(|line| serves(line, module));
    ground.write("module.wasm", module);
    eventually("the new module serves", || daemon.count(|line| serves(line, module)) > before);
}

fn serves(line: &LogLine, module: &[u8]) -> bool {
    line.message().starts_with("a new module serves") && line.has("digest", &digest(module))
}

fn is_rollback(line: &LogLine) -> bool {
    line.message().starts_with("rolled back:")
}

/// Runs one job, and answers the module that ran it.
fn ran_on(ground: &Ground, daemon: &Daemon, id: &str) -> String {
    push(ground, TOPIC, id, 0);
    let is_it = |line: &LogLine| is_verdict(line) && line.has("job_id", id);
    daemon.wait_for_line(id, is_it).str("digest").to_owned()
}

#[test]
fn a_module_that_fails_far_more_often_gives_way_to_the_one_before() {
    let ground = Ground::new();
    ground.write("module.wasm", good());
    manifest(&ground, "", "1m");
    let daemon = ground.start();
    run_jobs(&ground, &daemon, 60);
    swap(&ground, &daemon, &bad());
    run_jobs(&ground, &daemon, MIN_JOBS);
    let line = daemon.wait_for_line("the rollback", is_rollback);
    assert!(line.has("level", "ERROR") && line.has("topic", TOPIC), "{}", line.text());
    assert!(line.has("digest", &digest(&good())) && line.has("withdrawn", &digest(&bad())));
    let told = format!("failed {MIN_JOBS} of {MIN_JOBS} jobs, the one before 0 of 60");
    assert!(line.message().contains(&told), "{}", line.text());
    assert_eq!(ran_on(&ground, &daemon, "after"), digest(&good()));

    // Neither a look nor a manifest that says the same of the topic brings it back.
    manifest(&ground, "lease = \"20s\"", "1m");
    daemon.wait_for_line("reload", |line| line.message() == "the manifest is reloaded");
    assert_eq!(ran_on(&ground, &daemon, "reloaded"), digest(&good()));
    // Its file, written anew, does; and it is judged anew.
    swap(&ground, &daemon, &bad());
    assert_eq!(ran_on(&ground, &daemon, "touched"), digest(&bad()));
    run_jobs(&ground, &daemon, MIN_JOBS);
    eventually("the second rollback", || daemon.count(is_rollback) == 2);
    assert_eq!(ran_on(&ground, &daemon, "again"), digest(&good()));
    // A good one is taken like any other.
    let better = Handler::says("better").wasm();
    swap(&ground, &daemon, &better);
    assert_eq!(ran_on(&ground, &daemon, "better"), digest(&better));
}

#[test]
fn a_module_whose_failures_open_the_breaker_gives_way_at_once() {
    let ground = Ground::new();
    ground.write("module.wasm", good());
    ground.manifest("", &[topic(TOPIC, "module.wasm", "max_attempts = 1\nconcurrency = 1")]);
    let daemon = ground.start();
    run_jobs(&ground, &daemon, 60);
    // Slow enough for the breaker to open before all of them have run.
    let slow = Handler::says("slow").nacks().naps(Duration::from_millis(20)).wasm();
    swap(&ground, &daemon, &slow);
    push_many(&ground, TOPIC, 100);
    let line = daemon.wait_for_line("the rollback", is_rollback);
    assert!(line.has("digest", &digest(&good())), "{}", line.text());
    // Most of them ran on the one before: the breaker closed with it.
    eventually("all jobs are settled", || {
        daemon.count(|line| settled_as(line, "done"))
            + daemon.count(|line| settled_as(line, "dead"))
            == 160
    });
    let dead = daemon.count(|line| settled_as(line, "dead"));
    assert!((20..50).contains(&dead), "{dead}");
}

#[test]
fn a_module_that_is_as_bad_as_the_one_before_stays() {
    let ground = Ground::new();
    let worse = Handler::says("worse").nacks().wasm();
    ground.write("module.wasm", bad());
    manifest(&ground, "", "3s");
    let daemon = ground.start();
    run_jobs(&ground, &daemon, 60);
    swap(&ground, &daemon, &worse);
    run_jobs(&ground, &daemon, 60);
    daemon.wait_for_line("the end of the trial", |line| {
        line.message().starts_with("the new module stays") && line.has("digest", &digest(&worse))
    });
    assert_eq!(daemon.count(is_rollback), 0);
    let by_worse = verdicts(&daemon).iter().filter(|v| v.digest == digest(&worse)).count();
    assert!(by_worse >= 60, "{by_worse}");
}

fn rollback(ground: &Ground, words: &[&str]) -> Output {
    let mut command = Command::new(duebox_binary());
    command.arg("rollback").args(words).current_dir(ground.path(""));
    command.env_remove("DUEBOX_MANIFEST").env_remove("DUEBOX_REDIS_URL").output().unwrap()
}

/// The result in each daemon, and the modules it names.
fn results(output: &Output) -> Vec<(String, String, String)> {
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let word = |answer: &Value, name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    let runners = told["runners"].as_array().unwrap().iter();
    runners.map(|a| (word(a, "result"), word(a, "digest"), word(a, "before"))).collect()
}

#[test]
fn every_daemon_takes_a_module_back_that_people_do_not_want() {
    let ground = Ground::new();
    ground.write("module.wasm", good());
    manifest(&ground, "", "1m");
    let failed = |words: &[&str], exit: i32, part: &str| {
        let output = rollback(&ground, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{said}");
        assert!(said.contains(part) && said.contains("hint: "), "{said}");
    };
    failed(&[TOPIC], 1, "no daemon runs");
    failed(&["wark"], 2, "did you mean work?");
    let (one, other) = (ground.start(), ground.start());
    failed(&[TOPIC], 1, "nothing to go back to for work in 2 of the daemons");
    let better = Handler::says("better").wasm();
    ground.write("module.wasm", &better);
    for daemon in [&one, &other] {
        daemon.wait_for_line("the new module", |line| serves(line, &better));
    }
    let output = rollback(&ground, &[TOPIC, "--json"]);
    assert!(output.status.success());
    let back = results(&output);
    assert_eq!(back.len(), 2);
    for (result, serves, before) in &back {
        assert_eq!(result, "rolled_back");
        assert!(serves.starts_with(&digest(&good())) && before.starts_with(&digest(&better)));
    }
    let output = rollback(&ground, &[TOPIC]);
    assert!(output.status.success(), "again is no failure");
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("already serves").count(), 2);

    push_many(&ground, TOPIC, 20);
    let done = |daemon: &Daemon| daemon.count(|line| settled_as(line, "done"));
    eventually("the jobs are done", || done(&one) + done(&other) == 20);
    for daemon in [&one, &other] {
        assert!(verdicts(daemon).iter().all(|verdict| verdict.digest == digest(&good())));
    }
}

#[test]
fn daemons_say_for_themselves_what_they_serve() {
    let ground = Ground::new();
    ground.write("module.wasm", good());
    manifest(&ground, "", "1m");
    let pulled = "[topics.work]\n".to_owned();
    let puller = up(&ground.manifest_named("puller.toml", "", &[pulled]));
    let other = up(&ground.manifest_named("other.toml", "", &[topic("else", "module.wasm", "")]));
    let output = rollback(&ground, &[TOPIC, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let mut came: Vec<String> = results(&output).into_iter().map(|(result, ..)| result).collect();
    came.sort();
    assert_eq!(came, ["not_served", "pulled"]);
    let output = rollback(&ground, &[TOPIC]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("work has no handler in any daemon"), "{said}");
    drop((puller, other));
}
