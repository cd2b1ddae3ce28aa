//! A new module that fails far more often than the previous one is rolled back automatically. An operator can roll
//! back any module.

use std::process::{Command, Output};
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, duebox_binary, eventually};
use serde_json::Value;

use crate::support::fixture::{Fixture, topic, up};
use crate::support::handler::{Handler, digest, hostile};
use crate::support::log::{is_verdict, settled_as, verdicts};
use crate::support::producer::{push, push_many};

const TOPIC: &str = "work";
/// Jobs after which a new module is evaluated.
const MIN_JOBS: usize = 50;

fn good() -> Vec<u8> {
    Handler::logs("good").wasm()
}

fn bad() -> Vec<u8> {
    Handler::logs("bad").nacks().wasm()
}

/// A manifest without retries, in which a new module is on trial for this time.
fn manifest(fixture: &Fixture, runner: &str, window: &str) {
    let keys = format!(
        "max_attempts = 1\nbreaker = {{ failures = 0 }}\nrollback = {{ window = \"{window}\", min_jobs = {MIN_JOBS} }}"
    );
    fixture.manifest(runner, &[topic(TOPIC, "module.wasm", &keys)]);
}

/// Runs this many jobs to their end.
fn run_jobs(fixture: &Fixture, daemon: &Daemon, count: usize) {
    let before = daemon.count(is_verdict);
    push_many(fixture, TOPIC, count);
    eventually("the jobs are settled", || daemon.count(is_verdict) >= before + count);
}

/// Writes a module and waits until it serves.
fn swap(fixture: &Fixture, daemon: &Daemon, module: &[u8]) {
    let before = daemon.count(|line| serves(line, module));
    fixture.write("module.wasm", module);
    eventually("the new module serves", || daemon.count(|line| serves(line, module)) > before);
}

fn serves(line: &LogLine, module: &[u8]) -> bool {
    line.message().starts_with("a new module serves") && line.has("digest", &digest(module))
}

fn is_rollback(line: &LogLine) -> bool {
    line.message().starts_with("rolled back:")
}

/// Runs one job and returns the module that ran it.
fn ran_on(fixture: &Fixture, daemon: &Daemon, id: &str) -> String {
    push(fixture, TOPIC, id, 0);
    let is_it = |line: &LogLine| is_verdict(line) && line.has("job_id", id);
    daemon.wait_for_line(id, is_it).str("digest").to_owned()
}

#[test]
fn a_module_that_fails_far_more_often_is_rolled_back() {
    let fixture = Fixture::new();
    fixture.write("module.wasm", good());
    manifest(&fixture, "", "1m");
    let daemon = fixture.start();
    run_jobs(&fixture, &daemon, 60);
    swap(&fixture, &daemon, &bad());
    run_jobs(&fixture, &daemon, MIN_JOBS);
    let line = daemon.wait_for_line("the rollback", is_rollback);
    assert!(line.has("level", "ERROR") && line.has("topic", TOPIC), "{}", line.text());
    assert!(line.has("digest", &digest(&good())) && line.has("withdrawn", &digest(&bad())));
    let reported = format!("failed {MIN_JOBS} of {MIN_JOBS} jobs, the previous one 0 of 60");
    assert!(line.message().contains(&reported), "{}", line.text());
    assert_eq!(ran_on(&fixture, &daemon, "after"), digest(&good()));

    // Neither a rescan nor a reload with the same settings restores it.
    manifest(&fixture, "lease = \"20s\"", "1m");
    daemon.wait_for_line("reload", |line| line.message() == "the manifest is reloaded");
    assert_eq!(ran_on(&fixture, &daemon, "reloaded"), digest(&good()));
    // Rewriting its file restores it and starts a new trial.
    swap(&fixture, &daemon, &bad());
    assert_eq!(ran_on(&fixture, &daemon, "touched"), digest(&bad()));
    run_jobs(&fixture, &daemon, MIN_JOBS);
    eventually("the second rollback", || daemon.count(is_rollback) == 2);
    assert_eq!(ran_on(&fixture, &daemon, "again"), digest(&good()));
    // A good module is loaded normally.
    let better = Handler::logs("better").wasm();
    swap(&fixture, &daemon, &better);
    assert_eq!(ran_on(&fixture, &daemon, "better"), digest(&better));
}

/// A snooze beyond the last is a failure for the rollback as it is for the queue.
#[test]
fn a_module_that_snoozes_too_often_is_rolled_back() {
    let fixture = Fixture::new();
    fixture.write("module.wasm", good());
    let keys = format!(
        "max_attempts = 1\nmax_snoozes = 0\nbreaker = {{ failures = 0 }}\n\
         rollback = {{ window = \"1m\", min_jobs = {MIN_JOBS} }}"
    );
    fixture.manifest("", &[topic(TOPIC, "module.wasm", &keys)]);
    let daemon = fixture.start();
    run_jobs(&fixture, &daemon, 60);
    let snoozes = wat::parse_str(hostile("snooze_forever")).unwrap();
    swap(&fixture, &daemon, &snoozes);
    run_jobs(&fixture, &daemon, MIN_JOBS);
    let line = daemon.wait_for_line("the rollback", is_rollback);
    let reported = format!("failed {MIN_JOBS} of {MIN_JOBS} jobs, the previous one 0 of 60");
    assert!(line.message().contains(&reported), "{}", line.text());
}

#[test]
fn a_module_that_opens_the_breaker_is_rolled_back_at_once() {
    let fixture = Fixture::new();
    fixture.write("module.wasm", good());
    fixture.manifest(
        "",
        &[topic(
            TOPIC,
            "module.wasm",
            "max_attempts = 1\nconcurrency = 1\nbreaker = { on = [\"nack\"] }",
        )],
    );
    let daemon = fixture.start();
    run_jobs(&fixture, &daemon, 60);
    // Slow enough for the breaker to open before all of them have run.
    let slow = Handler::logs("slow").nacks().naps(Duration::from_millis(20)).wasm();
    swap(&fixture, &daemon, &slow);
    push_many(&fixture, TOPIC, 100);
    let line = daemon.wait_for_line("the rollback", is_rollback);
    assert!(line.has("digest", &digest(&good())), "{}", line.text());
    // Most jobs ran on the previous module, because the rollback closed the breaker.
    eventually("all jobs are settled", || {
        daemon.count(|line| settled_as(line, "done"))
            + daemon.count(|line| settled_as(line, "dead"))
            == 160
    });
    let dead = daemon.count(|line| settled_as(line, "dead"));
    assert!((20..50).contains(&dead), "{dead}");
}

#[test]
fn a_module_as_bad_as_the_previous_one_stays() {
    let fixture = Fixture::new();
    let worse = Handler::logs("worse").nacks().wasm();
    fixture.write("module.wasm", bad());
    manifest(&fixture, "", "3s");
    let daemon = fixture.start();
    run_jobs(&fixture, &daemon, 60);
    swap(&fixture, &daemon, &worse);
    run_jobs(&fixture, &daemon, 60);
    daemon.wait_for_line("the end of the trial", |line| {
        line.message().starts_with("the new module stays") && line.has("digest", &digest(&worse))
    });
    assert_eq!(daemon.count(is_rollback), 0);
    let by_worse = verdicts(&daemon).iter().filter(|v| v.digest == digest(&worse)).count();
    assert!(by_worse >= 60, "{by_worse}");
}

fn rollback(fixture: &Fixture, words: &[&str]) -> Output {
    let mut command = Command::new(duebox_binary());
    command.arg("rollback").args(words).current_dir(fixture.path(""));
    command.env_remove("DUEBOX_MANIFEST").env_remove("DUEBOX_REDIS_URL").output().unwrap()
}

/// The result in each daemon, and the modules it names.
fn results(output: &Output) -> Vec<(String, String, String)> {
    let reported: Value = serde_json::from_slice(&output.stdout).unwrap();
    let word = |answer: &Value, name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    let runners = reported["runners"].as_array().unwrap().iter();
    runners.map(|a| (word(a, "result"), word(a, "digest"), word(a, "before"))).collect()
}

#[test]
fn an_operator_rolls_back_every_daemon() {
    let fixture = Fixture::new();
    fixture.write("module.wasm", good());
    manifest(&fixture, "", "1m");
    let failed = |words: &[&str], exit: i32, part: &str| {
        let output = rollback(&fixture, words);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(exit), "{printed}");
        assert!(printed.contains(part) && printed.contains("hint: "), "{printed}");
    };
    failed(&[TOPIC], 1, "no daemon runs");
    failed(&["wark"], 2, "did you mean work?");
    let (one, other) = (fixture.start(), fixture.start());
    failed(&[TOPIC], 1, "2 of the daemons have no previous module for work");
    let better = Handler::logs("better").wasm();
    fixture.write("module.wasm", &better);
    for daemon in [&one, &other] {
        daemon.wait_for_line("the new module", |line| serves(line, &better));
    }
    let output = rollback(&fixture, &[TOPIC, "--json"]);
    assert!(output.status.success());
    let back = results(&output);
    assert_eq!(back.len(), 2);
    for (result, serves, before) in &back {
        assert_eq!(result, "rolled_back");
        assert!(serves.starts_with(&digest(&good())) && before.starts_with(&digest(&better)));
    }
    let output = rollback(&fixture, &[TOPIC]);
    assert!(output.status.success(), "a second time is not an error");
    assert_eq!(String::from_utf8_lossy(&output.stdout).matches("already serves").count(), 2);

    push_many(&fixture, TOPIC, 20);
    let done = |daemon: &Daemon| daemon.count(|line| settled_as(line, "done"));
    eventually("the jobs are done", || done(&one) + done(&other) == 20);
    for daemon in [&one, &other] {
        assert!(verdicts(daemon).iter().all(|verdict| verdict.digest == digest(&good())));
    }
}

#[test]
fn each_daemon_reports_its_own_module() {
    let fixture = Fixture::new();
    fixture.write("module.wasm", good());
    manifest(&fixture, "", "1m");
    let pulled = "[topics.work]\n".to_owned();
    let puller = up(&fixture.manifest_named("puller.toml", "", &[pulled]));
    let other = up(&fixture.manifest_named("other.toml", "", &[topic("else", "module.wasm", "")]));
    let output = rollback(&fixture, &[TOPIC, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let mut came: Vec<String> = results(&output).into_iter().map(|(result, ..)| result).collect();
    came.sort();
    assert_eq!(came, ["not_served", "pulled"]);
    let output = rollback(&fixture, &[TOPIC]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains("work has no handler in any daemon"), "{printed}");
    drop((puller, other));
}
