//! Operator commands on single jobs while a daemon runs: show, run now, requeue and purge. Also the automatic
//! pruning of old jobs.

use std::time::Duration;

use duebox_harness::eventually;
use serde_json::Value;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, hostile};
use crate::support::log::{is_handler_line, settled_as};
use crate::support::puppet::{PUPPET, count_settled, puppet_job, push_jobs};

const TOPIC: &str = "work";

/// Traps on a payload that begins with t, nacks one that begins with n.
const PICKY: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param $len i32) (result i32)
    (drop (call $read (i32.const 64) (i32.const 0) (local.get $len)))
    (if (i32.eq (i32.load8_u (i32.const 64)) (i32.const 0x74)) (then (unreachable)))
    (i32.eq (i32.load8_u (i32.const 64)) (i32.const 0x6e))))"#;

fn fixture(module: &str, keys: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("work.wat", module);
    fixture.manifest("", &[topic(TOPIC, "work.wat", keys)]);
    fixture
}

fn ask(fixture: &Fixture, words: &[&str]) -> Value {
    serde_json::from_str(&fixture.duebox(&[words, &["--json"]].concat())).unwrap()
}

#[test]
fn a_job_is_shown_in_every_state() {
    let module = Handler::logs("working").naps(Duration::from_secs(3)).nacks().wat();
    let fixture = fixture(&module, "max_attempts = 2\nbackoff = \"1h\"");
    let daemon = fixture.start();
    let get = || ask(&fixture, &["get", TOPIC, "42"]);
    fixture.duebox(&["push", TOPIC, "{}", "--id", "42", "--in", "1h", "--header", "a=b"]);
    let job = get();
    assert_eq!((&job["state"], &job["options"]["headers"]["a"]), (&"pending".into(), &"b".into()));

    fixture.duebox(&["run-now", TOPIC, "42"]);
    daemon.wait_for_line("it runs", is_handler_line);
    let job = get();
    let (lease, now) = (&job["lease"], job["now_ms"].as_u64().unwrap());
    assert_eq!(job["state"], "unack", "{job}");
    assert!(!lease["holder"].as_str().unwrap().is_empty(), "{job}");
    let expires = lease["expires_at_ms"].as_u64().unwrap();
    assert!((now..=now + 15_000).contains(&expires), "{job}");

    daemon.wait_for_line("it fails", |line| settled_as(line, "retry"));
    let job = get();
    assert_eq!((&job["state"], &job["failures"]), (&"retry".into(), &1.into()));
    assert_eq!(
        (&job["last_error"]["class"], &job["last_error"]["attempt"]),
        (&"nack".into(), &1.into())
    );
    assert!(job["due_at_ms"].as_u64().unwrap() > now + 3_000_000, "in an hour: {job}");

    fixture.duebox(&["run-now", TOPIC, "42"]);
    daemon.wait_for_line("it dies", |line| settled_as(line, "dead"));
    let shown = ask(&fixture, &["dead", "show", TOPIC, "42"]);
    let info = &shown["dead"]["info"];
    assert_eq!((&info["class"], &info["attempt"]), (&"nack".into(), &2.into()));
    assert!(info["log"][0].as_str().unwrap().contains("working"), "{info}");
    assert_eq!(info["digest"].as_str().unwrap().len(), 64, "{info}");
    assert_eq!(shown["payload"], "{}");
    let text = fixture.duebox(&["dead", "show", TOPIC, "42"]);
    assert!(text.contains("working") && text.contains("state     dead"), "{text}");
}

#[test]
fn the_dead_of_one_class_run_again_and_the_others_are_purged() {
    let fixture = fixture(PICKY, "on = { trap = \"dead\", nack = \"dead\" }");
    let store = fixture.store();
    let daemon = fixture.start();
    let jobs = ["n-0", "t-1", "n-2", "t-3", "n-4"].map(|id| puppet_job(id, id, "{}"));
    push_jobs(&fixture, TOPIC, &jobs);
    eventually("all are dead", || store.stage(TOPIC, "dead").len() == 5);
    let list = ask(&fixture, &["dead", "list", TOPIC, "--class", "trap"]);
    let trapped = list["jobs"].as_array().unwrap();
    assert_eq!(trapped.len(), 2, "{list}");
    let requeued = ask(&fixture, &["dead", "requeue", TOPIC, "--class", "trap"]);
    assert_eq!((&requeued["requeued"], &requeued["not_requeued"]), (&2.into(), &0.into()));
    eventually("they die again", || count_settled(&[&daemon], "dead") == 7);
    eventually("all are dead", || store.stage(TOPIC, "dead").len() == 5);
    let purged = ask(&fixture, &["dead", "purge", TOPIC, "--class", "nack"]);
    assert_eq!(purged["purged"], 3);
    let left: Vec<String> = store.stage(TOPIC, "dead").into_iter().collect();
    assert_eq!(left, ["t-1", "t-3"]);
}

#[test]
fn ended_jobs_are_pruned() {
    let keys = "done_retention = \"1s\"\nunique_for = \"1s\"\nretention = \"1s\"\nmax_attempts = 1";
    let fixture = fixture(PUPPET, keys);
    let store = fixture.store();
    let daemon = fixture.start();
    push_jobs(&fixture, TOPIC, &[puppet_job("done", "r: 42", "{}"), puppet_job("dead", "N", "{}")]);
    eventually("both have ended", || {
        count_settled(&[&daemon], "done") == 1 && count_settled(&[&daemon], "dead") == 1
    });
    eventually("nothing is left of either", || store.left(TOPIC).is_empty());
    daemon.wait_for_line("it is reported", |line| {
        line.message().starts_with("pruned dead jobs") && line.number("jobs") == Some(1)
    });
}

#[test]
fn a_dead_job_keeps_its_backtrace() {
    let fixture = fixture(&hostile("trap_unreachable"), "max_attempts = 1");
    let daemon = fixture.start();
    fixture.duebox(&["push", TOPIC, "--id", "1"]);
    daemon.wait_for_line("it dies", |line| settled_as(line, "dead"));
    let info = ask(&fixture, &["dead", "show", TOPIC, "1"])["dead"]["info"].clone();
    assert_eq!((&info["class"], info["digest"].as_str().unwrap().len()), (&"trap".into(), 64));
    assert!(info["reason"].as_str().unwrap().contains("unreachable"), "{info}");
}
