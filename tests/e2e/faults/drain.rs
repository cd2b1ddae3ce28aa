//! SIGTERM: what runs may finish, what has not started is given back, and nothing of it costs an
//! attempt or a job.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use duebox_harness::eventually;

use crate::support::fixture::{Ground, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_said, said, settled_as, tally, verdicts};
use crate::support::producer::{push, push_many};

const TOPIC: &str = "work";

#[test]
fn what_runs_finishes_and_what_has_not_started_is_given_back() {
    let ground = Ground::new();
    ground.write("work.wat", Handler::says("ran").naps(Duration::from_millis(700)).wat());
    // Ten jobs are leased for ten lanes, and only two have a slot to run in.
    ground.manifest("max_jobs = 2", &[topic(TOPIC, "work.wat", "concurrency = 10")]);
    let store = ground.store();
    let pushed = push_many(&ground, TOPIC, 10);
    let mut first = ground.start();
    eventually("ten are leased and two run", || {
        first.count(is_said) >= 2 && store.stage(TOPIC, "unack").len() == 10
    });
    assert_eq!(first.terminate().code(), Some(0));
    let ran: BTreeSet<String> = said(&first).into_iter().map(|line| line.id).collect();
    let left = store.live(TOPIC);
    println!("{} ran to their end, {} were given back", ran.len(), left.len());
    assert!(!left.is_empty(), "nothing was left to give back");
    assert_eq!(left, pushed.difference(&ran).cloned().collect());
    assert_eq!(store.stage(TOPIC, "ready"), left);
    assert!(store.attempts(TOPIC).is_empty() && store.stage(TOPIC, "unack").is_empty());
    assert_eq!(first.count(|line| settled_as(line, "done")), ran.len());
    assert_eq!(first.count(|line| settled_as(line, "released")), left.len());

    let mut second = ground.start();
    eventually("the rest is done", || second.count(|line| settled_as(line, "done")) == left.len());
    assert!(second.terminate().success());
    assert!(verdicts(&second).iter().all(|verdict| verdict.attempt == 1));
    let lines = said(&second);
    let once = left.iter().map(|id| (id.as_str(), 1)).collect();
    assert_eq!(tally(lines.iter().map(|line| &line.id)), once);
    assert_eq!(store.keys(TOPIC), BTreeSet::new());
}

#[test]
fn a_job_longer_than_the_drain_is_given_back_unspent() {
    let ground = ground_with_a_long_job("1s");
    let mut daemon = ground.start();
    daemon.wait_for_line("the job runs", is_said);
    let asked_at = Instant::now();
    assert_eq!(daemon.terminate().code(), Some(0));
    let took = asked_at.elapsed();
    println!("drain_timeout 1 s, a job of hours: ended after {took:?}");
    assert!(took >= Duration::from_secs(1), "the job was given no time: {took:?}");
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    assert_eq!(daemon.count(|line| settled_as(line, "released")), 1);
    let store = ground.store();
    assert_eq!(store.stage(TOPIC, "ready"), BTreeSet::from(["long".to_owned()]));
    assert!(store.attempts(TOPIC).is_empty() && store.stage(TOPIC, "unack").is_empty());

    ground.write("work.wat", Handler::says("ran").wat());
    let second = ground.start();
    let line = second.wait_for_line("it is done", |line| settled_as(line, "done"));
    assert_eq!(line.number("attempt"), Some(1));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let ground = ground_with_a_long_job("60s");
    let mut daemon = ground.start();
    daemon.wait_for_line("the job runs", is_said);
    let asked_at = Instant::now();
    daemon.signal("TERM");
    daemon.wait_for_line("the drain", |line| line.message().starts_with("draining"));
    daemon.signal("INT");
    daemon.wait_exit();
    let took = asked_at.elapsed();
    assert!(took < Duration::from_secs(30), "it waited for the drain: {took:?}");
    // The job is not lost: its lease stands, and will run out.
    let store = ground.store();
    assert_eq!(store.stage(TOPIC, "unack"), BTreeSet::from(["long".to_owned()]));
    assert_eq!(store.live_count(TOPIC), 1);
}

fn ground_with_a_long_job(drain_timeout: &str) -> Ground {
    let ground = Ground::new();
    ground.write("work.wat", Handler::says("ran").naps(Duration::from_secs(7_200)).wat());
    let runner = format!("drain_timeout = \"{drain_timeout}\"");
    ground.manifest(&runner, &[topic(TOPIC, "work.wat", "ttr = \"3h\"")]);
    push(&ground, TOPIC, "long", 0);
    ground
}
