//! The same id pushed again by plain commands, in every state a job can be in: what waits is replaced,
//! what runs gets a successor, and a new push starts with all its attempts.

use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::handler::Handler;
use crate::support::log::{said, settled_as, verdicts};
use crate::support::producer::{Push, push_each};

const TOPIC: &str = "work";
const ID: &str = "42";

fn ground(handler: &Handler, keys: &str) -> Ground {
    let ground = Ground::new();
    ground.write("work.wat", handler.wat());
    ground.manifest("", &[topic(TOPIC, "work.wat", keys)]);
    ground
}

fn push(ground: &Ground, payload: &str, due_ms: u64) {
    let (topic, id, payload) = (TOPIC.to_owned(), ID.to_owned(), payload.to_owned());
    push_each(ground, &[Push { topic, id, payload, due_ms }]);
}

/// The payloads that ran, in their order.
fn ran(daemon: &Daemon) -> Vec<String> {
    let payloads = said(daemon).into_iter().filter(|line| line.text != "ran");
    payloads.map(|line| line.text).collect()
}

fn is_payload(payload: &'static str) -> impl Fn(&LogLine) -> bool {
    move |line| line.has("target", "handler") && line.message() == payload
}

#[test]
fn what_is_pending_is_replaced_with_its_due_time() {
    let ground = ground(&Handler::says("ran").echoes(), "");
    let daemon = ground.start();
    let now_ms = ground.store().now_ms();
    push(&ground, "first", now_ms + 3_600_000);
    push(&ground, "second", now_ms + 400);
    daemon.wait_for_line("the job is done", |line| settled_as(line, "done"));
    let lines = said(&daemon);
    assert!(lines.iter().all(|line| line.at_ms >= now_ms as i64 + 400), "early: {lines:?}");
    assert_eq!((ran(&daemon), ground.store().live_count(TOPIC)), (vec!["second".to_owned()], 0));
}

#[test]
fn what_runs_gets_a_successor_that_runs_after_it() {
    let handler = Handler::says("ran").echoes().naps(Duration::from_millis(700));
    let ground = ground(&handler, "");
    let mut daemon = ground.start();
    push(&ground, "first", 0);
    daemon.wait_for_line("the first runs", is_payload("first"));
    push(&ground, "second", 0);
    eventually("both are done", || daemon.count(|line| settled_as(line, "done")) == 2);
    assert!(daemon.terminate().success());
    let lines = daemon.lines();
    let at = |wanted: &dyn Fn(&LogLine) -> bool| lines.iter().position(wanted).unwrap();
    // The successor starts when the lease has ended, and not beside it.
    assert!(at(&|line| settled_as(line, "done")) < at(&is_payload("second")));
    assert_eq!(ran(&daemon), ["first", "second"]);
    assert_eq!(ground.store().keys(TOPIC).len(), 0);
}

#[test]
fn a_failure_of_what_was_superseded_is_not_tried_again() {
    let handler = Handler::says("ran").echoes().naps(Duration::from_millis(700)).nacks();
    let ground = ground(&handler, "max_attempts = 5\nbackoff = [\"1ms\"]");
    let daemon = ground.start();
    push(&ground, "first", 0);
    daemon.wait_for_line("the first runs", is_payload("first"));
    push(&ground, "second", 0);
    daemon.wait_for_line("the second dies", |line| settled_as(line, "dead"));
    let settled: Vec<(String, i64)> =
        verdicts(&daemon).into_iter().map(|verdict| (verdict.settled, verdict.attempt)).collect();
    let words =
        [("superseded", 1), ("retry", 1), ("retry", 2), ("retry", 3), ("retry", 4), ("dead", 5)];
    assert!(settled.iter().map(|(word, n)| (word.as_str(), *n)).eq(words), "{settled:?}");
    assert_eq!(ran(&daemon), ["first", "second", "second", "second", "second", "second"]);
}

#[test]
fn what_waits_for_a_retry_is_replaced_and_starts_anew() {
    let handler = Handler::says("ran").echoes().nacks();
    let ground = ground(&handler, "max_attempts = 2\nbackoff = [\"1h\"]");
    let daemon = ground.start();
    push(&ground, "first", 0);
    daemon.wait_for_line("the retry", |line| settled_as(line, "retry"));
    push(&ground, "second", 0);
    eventually("the second is tried", || daemon.count(|line| settled_as(line, "retry")) == 2);
    assert!(verdicts(&daemon).iter().all(|verdict| verdict.attempt == 1));
    assert_eq!(ran(&daemon), ["first", "second"]);
    assert!(ground.store().attempts(TOPIC).into_values().eq([1]));
}

#[test]
fn a_dead_job_stays_dead_beside_its_new_push() {
    let ground = ground(&Handler::says("ran").echoes().nacks(), "max_attempts = 1");
    let daemon = ground.start();
    push(&ground, "first", 0);
    daemon.wait_for_line("the first dies", |line| settled_as(line, "dead"));
    ground.write("work.wat", Handler::says("ran").echoes().wat());
    daemon.wait_for_line("the mended handler", |line| {
        line.message().starts_with("a new module serves")
    });
    push(&ground, "second", 0);
    eventually("the second is done", || daemon.count(|line| settled_as(line, "done")) == 1);
    let store = ground.store();
    assert_eq!((store.stage(TOPIC, "dead").len(), store.live_count(TOPIC)), (1, 0));
    // And it can still be run again as it was.
    ground.duebox(&["requeue", TOPIC, ID]);
    eventually("the first is done", || daemon.count(|line| settled_as(line, "done")) == 2);
    assert_eq!(ran(&daemon), ["first", "second", "first"]);
    assert_eq!(store.keys(TOPIC).len(), 0);
}
