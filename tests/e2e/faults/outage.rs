//! Redis goes away, hangs, or loses its scripts. The daemon waits, recovers without help, and loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{
    handler_lines, is_handler_line, is_lost, is_verdict, settled_as, tally, verdicts,
};
use crate::support::producer::{push, push_many, under_load};

const TOPIC: &str = "work";

fn fixture_with(fixture: Fixture, handler: &Handler, runner: &str, keys: &str) -> Fixture {
    fixture.write("work.wat", handler.wat());
    fixture.manifest(runner, &[topic(TOPIC, "work.wat", keys)]);
    fixture
}

fn log_count(daemon: &Daemon, begin: &str) -> usize {
    daemon.count(|line| line.message().starts_with(begin))
}

#[test]
fn redis_ends_and_starts_again_under_load() {
    const JOBS: usize = 3_000;
    let handler = Handler::logs("ran").naps(Duration::from_millis(10));
    let runner = "lease = \"5s\"";
    let mut fixture = fixture_with(Fixture::persistent(), &handler, runner, "concurrency = 16");
    let pushed = push_many(&fixture, TOPIC, JOBS);
    let mut daemon = fixture.start();
    for outage in 1..=3 {
        eventually("a part is settled", || daemon.count(is_verdict) >= outage * JOBS / 5);
        fixture.redis.stop();
        eventually("the daemon notices", || log_count(&daemon, "Redis fails") >= outage);
        fixture.redis.restart();
        eventually("the daemon is back", || log_count(&daemon, "Redis is back") >= outage);
    }
    let store = fixture.store();
    eventually("every job is settled", || store.live_count(TOPIC) == 0);
    assert!(daemon.terminate().success());
    assert_eq!(store.keys(TOPIC), BTreeSet::new());
    let ran: BTreeSet<String> = handler_lines(&daemon).into_iter().map(|line| line.id).collect();
    assert_eq!(ran, pushed);
    let settled = verdicts(&daemon);
    // No job may be settled twice. If Redis settled it and the reply was lost, the verdict is lost.
    let times = tally(settled.iter().filter(|v| v.settled == "done").map(|verdict| &verdict.id));
    assert!(times.values().all(|times| *times == 1), "settled twice: {times:?}");
    assert!(settled.iter().all(|verdict| verdict.attempt == 1));
    let unheard = daemon.count(is_lost);
    println!("3 outages, {JOBS} jobs: {} acked, {unheard} acked without an answer", times.len());
    assert!(times.len() + unheard >= JOBS);
}

#[test]
fn scripts_are_flushed_under_load() {
    let handler = Handler::logs("ran").naps(Duration::from_millis(5));
    let fixture = fixture_with(Fixture::new(), &handler, "", "concurrency = 8");
    let mut daemon = fixture.start();
    let pushed = under_load(&fixture, TOPIC, || {
        for _ in 0..50 {
            assert_eq!(fixture.redis.cli(&["SCRIPT", "FLUSH"]), "OK");
            let before = daemon.count(is_verdict);
            eventually("jobs go on", || daemon.count(is_verdict) >= before + 10);
        }
    });
    eventually("every job is settled", || daemon.count(is_verdict) >= pushed.len());
    assert!(daemon.terminate().success());
    let settled = verdicts(&daemon);
    assert!(settled.iter().all(|v| v.settled == "done" && v.attempt == 1));
    let once: BTreeMap<&str, usize> = pushed.iter().map(|id| (id.as_str(), 1)).collect();
    assert_eq!(tally(settled.iter().map(|verdict| &verdict.id)), once);
    assert_eq!(log_count(&daemon, "Redis fails"), 0);
    assert_eq!(fixture.store().keys(TOPIC), BTreeSet::new());
}

#[test]
fn a_redis_that_hangs_longer_than_the_lease_ends_the_guests() {
    let handler = Handler::logs("ran").naps(Duration::from_secs(7_200));
    let keys = "ttr = \"3h\"\nconcurrency = 3\nmax_crashes = 999";
    let fixture = fixture_with(Fixture::new(), &handler, "lease = \"1s\"", keys);
    let daemon = fixture.start();
    push_many(&fixture, TOPIC, 3);
    eventually("three run", || daemon.count(is_handler_line) == 3);
    fixture.redis.pause();
    daemon.wait_for_line("the guests are ended", |line| {
        line.message().starts_with("leases ran out and could not be renewed")
    });
    assert_eq!(daemon.count(is_handler_line), 3);
    // Later runs have a quick handler; interrupted jobs can only run again.
    fixture.write("work.wat", Handler::logs("again").wat());
    daemon
        .wait_for_line("the new module", |line| line.message().starts_with("a new module serves"));
    fixture.redis.resume();
    eventually("they run again", || daemon.count(|line| settled_as(line, "done")) == 3);
    let settled = verdicts(&daemon);
    let done = settled.iter().filter(|verdict| verdict.settled == "done");
    assert!(done.clone().all(|verdict| verdict.attempt == 1), "an attempt was spent: {settled:?}");
    assert_eq!(tally(done.map(|v| &v.id)), BTreeMap::from([("0", 1), ("1", 1), ("2", 1)]));
    assert_eq!(fixture.store().live_count(TOPIC), 0);
}

#[test]
fn verdicts_survive_a_short_outage() {
    let handler = Handler::logs("ran").naps(Duration::from_millis(300));
    let fixture = fixture_with(Fixture::new(), &handler, "lease = \"20s\"", "concurrency = 4");
    let daemon = fixture.start();
    push_many(&fixture, TOPIC, 4);
    eventually("four run", || daemon.count(is_handler_line) == 4);
    fixture.redis.pause();
    daemon.wait_for_line("the outage", |line: &LogLine| line.message().starts_with("Redis fails"));
    fixture.redis.resume();
    eventually("each verdict counts", || daemon.count(|line| settled_as(line, "done")) == 4);
    assert_eq!((daemon.count(is_handler_line), daemon.count(is_lost)), (4, 0));
    push(&fixture, TOPIC, "after", 0);
    daemon.wait_for_line("the next job", |line| line.has("job_id", "after"));
}

#[test]
fn it_drains_in_time_while_redis_is_away() {
    let handler = Handler::logs("ran").naps(Duration::from_secs(7_200));
    let runner = "drain_timeout = \"1s\"";
    let mut fixture = fixture_with(Fixture::new(), &handler, runner, "ttr = \"3h\"");
    let mut daemon = fixture.start();
    push(&fixture, TOPIC, "long", 0);
    daemon.wait_for_line("the job runs", is_handler_line);
    fixture.redis.stop();
    let asked_at = std::time::Instant::now();
    assert_eq!(daemon.terminate().code(), Some(0));
    let took = asked_at.elapsed();
    println!("drain_timeout 1 s, Redis away: ended after {took:?}");
    assert!(took < Duration::from_secs(15), "{took:?}");
}
