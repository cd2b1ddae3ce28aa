//! Record and replay: what the last attempt of a dead job read is kept, and gives the same end again.

mod every_handler;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use duebox_harness::{duebox_binary, eventually};
use redis::cmd;
use serde_json::Value;

use crate::support::fixture::{Fixture, built, topic};
use crate::support::producer::push;
use crate::support::redis_state::key;

/// Recorded, with one attempt, and with fuel that is counted.
const RECORDED: &str = "record = \"failures\"\nmax_attempts = 1\nbreaker = { failures = 0 }\n\
    sandbox.fuel = 100_000_000_000\nsandbox.kv = true\nsandbox.push = [\"*\"]\n";

fn duebox(fixture: &Fixture, words: &[&str]) -> Output {
    let mut command = Command::new(duebox_binary());
    command.args(words).current_dir(fixture.path(""));
    command.env_remove("DUEBOX_MANIFEST").env_remove("DUEBOX_REDIS_URL").output().unwrap()
}

/// The lines of a command with `--json`.
fn json(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}{failed}")))
        .collect()
}

/// Compiles the handlers into the cache, which may take longer than a test waits for a start. One test at a time: most
/// tests need the engines of JavaScript and Python with fuel, and each would compile them.
fn compile(fixture: &Fixture) {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    fixture.duebox(&["check"]);
}

fn is_recorded(fixture: &Fixture, topic: &str, count: usize) {
    let store = fixture.store();
    eventually(topic, || {
        let recorded: usize = store.ask(cmd("HLEN").arg(key(topic, "recordings")));
        recorded == count
    });
}

/// Programs that keep in their snapshot what they drew while it was taken, and read it in each job.
const DREW_PY: &str = r#"import random
import uuid
from duebox import log, nack, random as draw

NAMES = {f"name {number}" for number in range(40)}
ID, TOKEN, LUCK = uuid.uuid4(), draw(8), random.random()


def handle(job):
    log.info(f"{ID} {TOKEN.hex()} {LUCK} {random.random()}")
    return nack(f"{ID} {len(NAMES)}")
"#;
const DREW_JS: &str = r#"import { log, nack } from "duebox";
const id = crypto.randomUUID(), luck = Math.random();
export default function handle() {
  log.info(`${id} ${luck} ${Math.random()}`);
  return nack(id);
}
"#;
const DREW_WAT: &str = r#"(module
  (import "duebox_v1" "random" (func $random (param i32 i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)
  (global $letter (mut i32) (i32.const 0))
  ;; A reason of 1 to 256 letters, and as many rounds of a loop.
  (func (export "_initialize")
    (call $random (i32.const 0) (i32.const 4))
    (global.set $letter (i32.load8_u (i32.const 0)))
    (memory.fill (i32.const 0) (i32.add (i32.const 97) (i32.rem_u (i32.load8_u (i32.const 1)) (i32.const 26)))
      (i32.const 256)))
  (func (export "handle") (param i32) (result i32)
    (local $round i32)
    (loop $again
      (local.set $round (i32.add (local.get $round) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $round) (global.get $letter))))
    (call $reason (i32.const 0) (i32.add (global.get $letter) (i32.const 1)))
    (i32.const 1)))"#;

/// Records three failures of each topic in each of two daemons, and replays them with each cache. The first cache has the
/// snapshot of the second daemon. `reasons` is the number of different reasons, `logs` that of different logs.
fn replay_what_was_drawn(
    fixture: &Fixture,
    topics: &[String],
    names: &[(&str, usize, usize)],
    caches: &[&str],
) {
    fixture.manifest(caches[0], topics);
    for life in 1..=2 {
        let cache = fixture.path("cache");
        if cache.is_dir() {
            fs::remove_dir_all(cache).unwrap();
        }
        compile(fixture);
        let mut daemon = fixture.start();
        for (name, ..) in names {
            for job in 0..3 {
                let (id, header) = (format!("{life}-{job}"), "script=random; nack no");
                fixture.duebox(&["push", name, "{}", "--id", &id, "--header", header]);
            }
            is_recorded(fixture, name, life * 3);
        }
        assert!(daemon.terminate().success());
    }
    for cache in caches {
        fixture.manifest(cache, topics);
        for (name, reasons, logs) in names {
            let output = duebox(fixture, &["replay", name, "--last", "10", "--json"]);
            let lines = json(&output);
            let (summary, reports) = lines.split_last().unwrap();
            assert_eq!(summary["same"], 6, "{name}: {lines:#?}");
            let different = |text: fn(&Value) -> String| {
                reports.iter().map(text).collect::<BTreeSet<String>>().len()
            };
            assert_eq!(
                different(|it| it["recorded"]["reason"].to_string()),
                *reasons,
                "{name}: {lines:#?}"
            );
            assert_eq!(different(|it| it["log"].to_string()), *logs, "{name}: {lines:#?}");
        }
    }
}

const DRAWING: &str = "sandbox.fuel = 100_000_000_000\nrecord = \"failures\"\nmax_attempts = 1\n\
    breaker = { failures = 0 }\n";

/// Each life draws for itself, all jobs of a life start from what it drew, and each job also draws for itself.
#[test]
fn what_a_program_drew_is_replayed_in_another_process() {
    let fixture = Fixture::new();
    fixture.write("drew.py", DREW_PY);
    fixture.write("drew.js", DREW_JS);
    let topics = [topic("py", "drew.py", DRAWING), topic("js", "drew.js", DRAWING)];
    replay_what_was_drawn(&fixture, &topics, &[("py", 2, 6), ("js", 2, 6)], &[""]);
    // A version that kept no seed has recorded this.
    let (store, recordings) = (fixture.store(), key("js", "recordings"));
    let text: String = store.ask(cmd("HGET").arg(&recordings).arg("2-0"));
    let mut old: Value = serde_json::from_str(&text).unwrap();
    assert!(old.as_object_mut().unwrap().remove("snapshot_seed").is_some(), "{text}");
    let _: usize = store.ask(cmd("HSET").arg(&recordings).arg("2-0").arg(old.to_string()));
    let report = json(&duebox(&fixture, &["replay", "js", "2-0", "--json"])).remove(0);
    assert_eq!((&report["lacks_seed"], &report["same"]), (&true.into(), &false.into()));
    let shown = String::from_utf8(duebox(&fixture, &["replay", "js", "2-0"]).stdout).unwrap();
    assert!(shown.contains("an older duebox recorded it"), "{shown}");
}

const OWN_CACHE: &str = "cache = \"cache\"";

fn drawing_snapshot() -> String {
    format!("{DRAWING}snapshot = true\n")
}

#[test]
fn what_a_snapshot_drew_is_replayed_with_another_cache() {
    let fixture = Fixture::new();
    fixture.write("drew.wat", DREW_WAT);
    let topics = [topic("wat", "drew.wat", &drawing_snapshot())];
    let caches = [OWN_CACHE, "cache = \"another\""];
    replay_what_was_drawn(&fixture, &topics, &[("wat", 2, 1)], &caches);
}

/// The runtime of Go draws the seeds of its hashes and of its scheduler. One cache, because Go takes long to compile.
#[test]
fn what_the_runtime_of_go_drew_is_replayed() {
    let fixture = Fixture::new();
    let topics = [topic("go", &built("echo-go"), &drawing_snapshot())];
    replay_what_was_drawn(&fixture, &topics, &[("go", 1, 1)], &[OWN_CACHE]);
}

/// Reads a value of its store, the clock and a secret; nacks unless the value is `open`.
const CHECKS: &str = r#"(module
  (import "duebox_v1" "kv_get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "meta_int" (func $meta (param i32) (result i64)))
  (import "duebox_v1" "config_read" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_set" (func $set (param i32 i32 i32 i32 i64 i32) (result i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "NAMED")
  (data (i32.const 16) "token")
  (func (export "handle") (param i32) (result i32)
    (local $token i32)
    (drop (call $meta (i32.const 8)))
    (local.set $token (call $config (i32.const 16) (i32.const 5) (i32.const 64) (i32.const 64)))
    ;; The secret leaves the handler in a value and in the reason.
    (drop (call $set (i32.const 16) (i32.const 5) (i32.const 64) (local.get $token) (i64.const 0) (i32.const 0)))
    (call $reason (i32.const 64) (local.get $token))
    (drop (call $get (i32.const 0) (i32.const 5) (i32.const 256) (i32.const 8)))
    (i32.const VERDICT)))"#;

fn checks(name: &str, verdict: &str) -> String {
    CHECKS.replace("NAMED", name).replace("VERDICT", verdict)
}

#[test]
fn another_module_departs_or_passes_and_the_job_is_requeued() {
    let fixture = Fixture::new();
    let keys = format!("{RECORDED}sandbox.secrets = {{ token = {{ file = \"token\" }} }}\n");
    fixture.write("token", "hidden-word-7");
    fixture.write("checks.wat", checks("state", "1"));
    fixture.manifest("", &[topic("work", "checks.wat", &keys)]);
    let daemon = fixture.start();
    push(&fixture, "work", "a", 0);
    let store = fixture.store();
    let recording =
        || -> Option<String> { store.ask(cmd("HGET").arg(key("work", "recordings")).arg("a")) };
    eventually("the recording", || recording().is_some());
    let text = recording().unwrap();
    assert!(!text.contains("hidden-word") && text.contains("__secret_token__"), "{text}");

    let same = duebox(&fixture, &["replay", "work", "a"]);
    let shown = String::from_utf8_lossy(&same.stdout);
    assert!(same.status.success(), "{shown}");
    assert!(shown.contains("the recorded end, with the same figures\n"), "{shown}");

    fixture.write("other.wat", checks("owner", "1"));
    let output = duebox(&fixture, &["replay", "work", "a", "--wasm", "other.wat", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report = &json(&output)[0];
    assert_eq!(report["departures"][0]["request"], 2, "{report:#}");
    assert_eq!(report["departures"][0]["recorded"], "kv_get state");
    assert_eq!(report["departures"][0]["now"], "kv_get owner");

    fixture.write("good.wat", checks("state", "0"));
    let words = ["replay", "work", "--last", "10", "--wasm", "good.wat", "--requeue", "--json"];
    let output = duebox(&fixture, &words);
    let lines = json(&output);
    assert!(output.status.success(), "{lines:#?}");
    assert_eq!((&lines[1]["acked"], &lines[1]["requeued"]), (&1.into(), &1.into()));
    // It runs again, on the module that still fails, and has a recording of this death.
    let is_verdict =
        |line: &duebox_harness::LogLine| line.has("job_id", "a") && line.has("settled", "dead");
    eventually("it is dead again", || daemon.count(is_verdict) == 2);
    eventually("its recording", || duebox(&fixture, &["replay", "work", "a"]).status.success());
}

#[test]
fn attempts_that_ran_out_of_time_replay_in_no_time() {
    let fixture = Fixture::new();
    fixture.write("spins.py", "def handle(job):\n    while True:\n        pass\n");
    fixture.write("spins.js", "export default function handle() { for (;;) {} }\n");
    let spins = r#"(module (memory (export "memory") 1)
      (func (export "handle") (param i32) (result i32) (loop $again (br $again)) (i32.const 0)))"#;
    fixture.write("spins.wat", spins);
    let keys = format!("{RECORDED}ttr = \"300ms\"\n");
    let names = ["wat", "js", "py"];
    let topics = names.map(|name| topic(name, &format!("spins.{name}"), &keys));
    fixture.manifest("", &topics);
    compile(&fixture);
    let _daemon = fixture.start();
    for name in names {
        push(&fixture, name, "a", 0);
        is_recorded(&fixture, name, 1);
        let output = duebox(&fixture, &["replay", name, "a", "--json"]);
        let report = &json(&output)[0];
        assert_eq!(report["same"], true, "{report:#}");
        assert_eq!(report["now"]["verdict"], "timeout");
    }
}

#[test]
fn without_record_nothing_is_kept() {
    let fixture = Fixture::new();
    fixture.write("checks.wat", checks("state", "2"));
    let keys = "max_attempts = 1\nsandbox.kv = true\nsandbox.config.token = \"x\"\n";
    fixture.manifest("", &[topic("work", "checks.wat", keys)]);
    let _daemon = fixture.start();
    push(&fixture, "work", "a", 0);
    let store = fixture.store();
    eventually("it is dead", || store.stage("work", "dead").contains("a"));
    let output = duebox(&fixture, &["replay", "work", "a"]);
    assert_eq!(output.status.code(), Some(1));
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(
        failed.contains("has no recording") && failed.contains("record = \"failures\""),
        "{failed}"
    );
    assert!(!store.keys("work").iter().any(|name| name.starts_with("recordings")));
}
