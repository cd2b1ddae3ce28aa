//! The same id is pushed again by plain commands in every state. A waiting job is replaced, a running one gets a
//! successor, and the new push starts with all its attempts.

use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{handler_lines, settled_as, verdicts};
use crate::support::producer::{Push, push_each};

const TOPIC: &str = "work";
const ID: &str = "42";

fn fixture(handler: &Handler, keys: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("work.wat", handler.wat());
    fixture.manifest("", &[topic(TOPIC, "work.wat", keys)]);
    fixture
}

fn push(fixture: &Fixture, payload: &str, due_ms: u64) {
    let (topic, id, payload) = (TOPIC.to_owned(), ID.to_owned(), payload.to_owned());
    push_each(fixture, &[Push { topic, id, payload, due_ms }]);
}

/// The payloads that ran, in their order.
fn ran(daemon: &Daemon) -> Vec<String> {
    let payloads = handler_lines(daemon).into_iter().filter(|line| line.text != "ran");
    payloads.map(|line| line.text).collect()
}

fn is_payload(payload: &'static str) -> impl Fn(&LogLine) -> bool {
    move |line| line.has("target", "handler") && line.message() == payload
}

#[test]
fn a_pending_job_is_replaced_with_its_due_time() {
    let fixture = fixture(&Handler::logs("ran").echoes(), "");
    let daemon = fixture.start();
    let now_ms = fixture.store().now_ms();
    push(&fixture, "first", now_ms + 3_600_000);
    push(&fixture, "second", now_ms + 400);
    daemon.wait_for_line("the job is done", |line| settled_as(line, "done"));
    let lines = handler_lines(&daemon);
    assert!(lines.iter().all(|line| line.at_ms >= now_ms as i64 + 400), "early: {lines:?}");
    assert_eq!((ran(&daemon), fixture.store().live_count(TOPIC)), (vec!["second".to_owned()], 0));
}

#[test]
fn a_running_job_gets_a_successor() {
    let handler = Handler::logs("ran").echoes().naps(Duration::from_millis(700));
    let fixture = fixture(&handler, "");
    let mut daemon = fixture.start();
    push(&fixture, "first", 0);
    daemon.wait_for_line("the first runs", is_payload("first"));
    push(&fixture, "second", 0);
    eventually("both are done", || daemon.count(|line| settled_as(line, "done")) == 2);
    assert!(daemon.terminate().success());
    let lines = handler_lines(&daemon);
    let started_ms =
        |number: usize| lines.iter().filter(|line| line.text == "ran").nth(number).unwrap().at_ms;
    // The successor starts after the first run, which naps for 700 ms. Times are rounded down.
    assert!(started_ms(1) >= started_ms(0) + 699, "{lines:?}");
    assert_eq!(ran(&daemon), ["first", "second"]);
    assert_eq!(fixture.store().left(TOPIC).len(), 0);
}

#[test]
fn a_superseded_job_is_not_retried() {
    let handler = Handler::logs("ran").echoes().naps(Duration::from_millis(700)).nacks();
    let fixture = fixture(&handler, "max_attempts = 5\nbackoff = [\"1ms\"]");
    let daemon = fixture.start();
    push(&fixture, "first", 0);
    daemon.wait_for_line("the first runs", is_payload("first"));
    push(&fixture, "second", 0);
    daemon.wait_for_line("the second dies", |line| settled_as(line, "dead"));
    let settled: Vec<(String, i64)> =
        verdicts(&daemon).into_iter().map(|verdict| (verdict.settled, verdict.attempt)).collect();
    let words =
        [("superseded", 1), ("retry", 1), ("retry", 2), ("retry", 3), ("retry", 4), ("dead", 5)];
    assert!(settled.iter().map(|(word, n)| (word.as_str(), *n)).eq(words), "{settled:?}");
    assert_eq!(ran(&daemon), ["first", "second", "second", "second", "second", "second"]);
}

#[test]
fn a_retry_is_replaced_with_all_attempts() {
    let handler = Handler::logs("ran").echoes().nacks();
    let fixture = fixture(&handler, "max_attempts = 2\nbackoff = [\"1h\"]");
    let daemon = fixture.start();
    push(&fixture, "first", 0);
    daemon.wait_for_line("the retry", |line| settled_as(line, "retry"));
    push(&fixture, "second", 0);
    eventually("the second is tried", || daemon.count(|line| settled_as(line, "retry")) == 2);
    assert!(verdicts(&daemon).iter().all(|verdict| verdict.attempt == 1));
    assert_eq!(ran(&daemon), ["first", "second"]);
    assert!(fixture.store().attempts(TOPIC).into_values().eq([1]));
}

#[test]
fn a_dead_job_stays_dead_after_a_new_push() {
    let fixture = fixture(&Handler::logs("ran").echoes().nacks(), "max_attempts = 1");
    let daemon = fixture.start();
    push(&fixture, "first", 0);
    daemon.wait_for_line("the first dies", |line| settled_as(line, "dead"));
    fixture.write("work.wat", Handler::logs("ran").echoes().wat());
    daemon.wait_for_line("the mended handler", |line| {
        line.message().starts_with("a new module serves")
    });
    push(&fixture, "second", 0);
    eventually("the second is done", || daemon.count(|line| settled_as(line, "done")) == 1);
    let store = fixture.store();
    assert_eq!((store.stage(TOPIC, "dead").len(), store.live_count(TOPIC)), (1, 0));
    // And it can still be run again as it was.
    fixture.duebox(&["requeue", TOPIC, ID]);
    eventually("the first is done", || daemon.count(|line| settled_as(line, "done")) == 2);
    assert_eq!(ran(&daemon), ["first", "second", "first"]);
    assert_eq!(store.left(TOPIC).len(), 0);
}
