//! SIGTERM: running jobs may finish, leased jobs that have not started are released, and no attempt or job is lost.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use duebox_harness::eventually;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{handler_lines, is_handler_line, settled_as, tally, verdicts};
use crate::support::producer::{push, push_many};

const TOPIC: &str = "work";

#[test]
fn running_jobs_finish_and_others_are_released() {
    let fixture = Fixture::new();
    // Long enough to be seen, also on a busy machine.
    fixture.write("work.wat", Handler::logs("ran").naps(Duration::from_secs(3)).wat());
    // Ten jobs are leased, but only two have a permit to run. The others go back a moment later, with a line at level debug.
    let runner = "max_jobs = 2\nlog = \"info,duebox::job=debug\"";
    fixture.manifest(runner, &[topic(TOPIC, "work.wat", "concurrency = 10")]);
    let store = fixture.store();
    let pushed = push_many(&fixture, TOPIC, 10);
    let mut first = fixture.start();
    // On a busy machine that moment may pass unseen.
    eventually("ten are or were leased, and two run", || {
        let released = first.count(|line| line.message().starts_with("job released"));
        let were_leased = store.stage(TOPIC, "unack").len() == 10 || released >= 8;
        first.count(is_handler_line) >= 2 && were_leased
    });
    assert_eq!(first.terminate().code(), Some(0));
    let ran: BTreeSet<String> = handler_lines(&first).into_iter().map(|line| line.id).collect();
    let left = store.live(TOPIC);
    println!("{} ran to their end, {} were given back", ran.len(), left.len());
    assert!(!left.is_empty(), "nothing was left to give back");
    assert_eq!(left, pushed.difference(&ran).cloned().collect());
    assert_eq!(store.stage(TOPIC, "ready"), left);
    assert!(store.attempts(TOPIC).is_empty() && store.stage(TOPIC, "unack").is_empty());
    assert_eq!(first.count(|line| settled_as(line, "done")), ran.len());
    // A job that has not started goes back after a moment, also without a drain.
    let ended = first.wait_for_line("the sums", |line| line.message() == "done");
    let (leased, released) = (ended.number("leased"), ended.number("released"));
    assert_eq!(leased.zip(released).map(|(leased, released)| leased - released), Some(2));
    assert!(released >= i64::try_from(left.len()).ok(), "{ended:?}");

    fixture.write("work.wat", Handler::logs("ran").wat());
    let mut second = fixture.start();
    eventually("the rest is done", || second.count(|line| settled_as(line, "done")) == left.len());
    assert!(second.terminate().success());
    assert!(verdicts(&second).iter().all(|verdict| verdict.attempt == 1));
    let lines = handler_lines(&second);
    let once = left.iter().map(|id| (id.as_str(), 1)).collect();
    assert_eq!(tally(lines.iter().map(|line| &line.id)), once);
    assert_eq!(store.left(TOPIC), BTreeSet::new());
}

#[test]
fn a_job_longer_than_the_drain_is_released() {
    let fixture = fixture_with_a_long_job("1s");
    let mut daemon = fixture.start();
    daemon.wait_for_line("the job runs", is_handler_line);
    let asked_at = Instant::now();
    assert_eq!(daemon.terminate().code(), Some(0));
    let took = asked_at.elapsed();
    println!("drain_timeout 1 s, a job of hours: ended after {took:?}");
    assert!(took >= Duration::from_secs(1), "the job was given no time: {took:?}");
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    assert_eq!(daemon.count(|line| settled_as(line, "released")), 1);
    let store = fixture.store();
    assert_eq!(store.stage(TOPIC, "ready"), BTreeSet::from(["long".to_owned()]));
    assert!(store.attempts(TOPIC).is_empty() && store.stage(TOPIC, "unack").is_empty());

    fixture.write("work.wat", Handler::logs("ran").wat());
    let second = fixture.start();
    let line = second.wait_for_line("it is done", |line| settled_as(line, "done"));
    assert_eq!(line.number("attempt"), Some(1));
}

#[test]
fn a_second_signal_stops_at_once() {
    let fixture = fixture_with_a_long_job("60s");
    let mut daemon = fixture.start();
    daemon.wait_for_line("the job runs", is_handler_line);
    let asked_at = Instant::now();
    daemon.signal("TERM");
    daemon.wait_for_line("the drain", |line| line.message().starts_with("draining"));
    daemon.signal("INT");
    daemon.wait_exit();
    let took = asked_at.elapsed();
    assert!(took < Duration::from_secs(30), "it waited for the drain: {took:?}");
    // The job is not lost: its lease will expire.
    let store = fixture.store();
    assert_eq!(store.stage(TOPIC, "unack"), BTreeSet::from(["long".to_owned()]));
    assert_eq!(store.live_count(TOPIC), 1);
}

fn fixture_with_a_long_job(drain_timeout: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").naps(Duration::from_secs(7_200)).wat());
    let runner = format!("drain_timeout = \"{drain_timeout}\"");
    fixture.manifest(&runner, &[topic(TOPIC, "work.wat", "ttr = \"3h\"")]);
    push(&fixture, TOPIC, "long", 0);
    fixture
}
