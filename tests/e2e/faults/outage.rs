//! Redis goes away, stands still or forgets its scripts: the daemon waits, comes back by itself, and
//! loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_lost, is_said, is_verdict, said, settled_as, tally, verdicts};
use crate::support::producer::{push, push_many, under_load};

const TOPIC: &str = "work";

fn ground_with(ground: Ground, handler: &Handler, runner: &str, keys: &str) -> Ground {
    ground.write("work.wat", handler.wat());
    ground.manifest(runner, &[topic(TOPIC, "work.wat", keys)]);
    ground
}

fn says(daemon: &Daemon, begin: &str) -> usize {
    daemon.count(|line| line.message().starts_with(begin))
}

#[test]
fn redis_ends_and_starts_again_under_load() {
    const JOBS: usize = 3_000;
    let handler = Handler::says("ran").naps(Duration::from_millis(10));
    let runner = "lease = \"5s\"";
    let mut ground = ground_with(Ground::persistent(), &handler, runner, "concurrency = 16");
    let pushed = push_many(&ground, TOPIC, JOBS);
    let mut daemon = ground.start();
    for outage in 1..=3 {
        eventually("a part is settled", || daemon.count(is_verdict) >= outage * JOBS / 5);
        ground.redis.stop();
        eventually("the daemon notices", || says(&daemon, "Redis fails") >= outage);
        ground.redis.restart();
        eventually("the daemon is back", || says(&daemon, "Redis is back") >= outage);
    }
    let store = ground.store();
    eventually("every job is settled", || store.live_count(TOPIC) == 0);
    assert!(daemon.terminate().success());
    assert_eq!(store.keys(TOPIC), BTreeSet::new());
    let ran: BTreeSet<String> = said(&daemon).into_iter().map(|line| line.id).collect();
    assert_eq!(ran, pushed);
    let settled = verdicts(&daemon);
    // Settled twice is what must not be; where Redis settled and could not say so, it is lost.
    let times = tally(settled.iter().filter(|v| v.settled == "done").map(|verdict| &verdict.id));
    assert!(times.values().all(|times| *times == 1), "settled twice: {times:?}");
    assert!(settled.iter().all(|verdict| verdict.attempt == 1));
    let unheard = daemon.count(is_lost);
    println!("3 outages, {JOBS} jobs: {} acked, {unheard} acked without an answer", times.len());
    assert!(times.len() + unheard >= JOBS);
}

#[test]
fn scripts_are_flushed_under_load() {
    let handler = Handler::says("ran").naps(Duration::from_millis(5));
    let ground = ground_with(Ground::new(), &handler, "", "concurrency = 8");
    let mut daemon = ground.start();
    let pushed = under_load(&ground, TOPIC, || {
        for _ in 0..50 {
            assert_eq!(ground.redis.cli(&["SCRIPT", "FLUSH"]), "OK");
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
    assert_eq!(says(&daemon, "Redis fails"), 0);
    assert_eq!(ground.store().keys(TOPIC), BTreeSet::new());
}

#[test]
fn a_redis_that_stands_still_longer_than_the_lease_ends_the_guests() {
    let handler = Handler::says("ran").naps(Duration::from_secs(7_200));
    let keys = "ttr = \"3h\"\nconcurrency = 3\nmax_crashes = 999";
    let ground = ground_with(Ground::new(), &handler, "lease = \"1s\"", keys);
    let daemon = ground.start();
    push_many(&ground, TOPIC, 3);
    eventually("three run", || daemon.count(is_said) == 3);
    ground.redis.pause();
    daemon.wait_for_line("the guests are ended", |line| {
        line.message().starts_with("leases ran out and could not be renewed")
    });
    assert_eq!(daemon.count(is_said), 3);
    // The next to run have a quick handler; those that were ended can come back only as new runs.
    ground.write("work.wat", Handler::says("again").wat());
    daemon
        .wait_for_line("the new module", |line| line.message().starts_with("a new module serves"));
    ground.redis.resume();
    eventually("they run again", || daemon.count(|line| settled_as(line, "done")) == 3);
    let settled = verdicts(&daemon);
    let done = settled.iter().filter(|verdict| verdict.settled == "done");
    assert!(done.clone().all(|verdict| verdict.attempt == 1), "an attempt was spent: {settled:?}");
    assert_eq!(tally(done.map(|v| &v.id)), BTreeMap::from([("0", 1), ("1", 1), ("2", 1)]));
    assert_eq!(ground.store().live_count(TOPIC), 0);
}

#[test]
fn jobs_that_ended_meanwhile_keep_their_verdict_through_a_short_outage() {
    let handler = Handler::says("ran").naps(Duration::from_millis(300));
    let ground = ground_with(Ground::new(), &handler, "lease = \"20s\"", "concurrency = 4");
    let daemon = ground.start();
    push_many(&ground, TOPIC, 4);
    eventually("four run", || daemon.count(is_said) == 4);
    ground.redis.pause();
    daemon.wait_for_line("the outage", |line: &LogLine| line.message().starts_with("Redis fails"));
    ground.redis.resume();
    eventually("each verdict counts", || daemon.count(|line| settled_as(line, "done")) == 4);
    assert_eq!((daemon.count(is_said), daemon.count(is_lost)), (4, 0));
    push(&ground, TOPIC, "after", 0);
    daemon.wait_for_line("the next job", |line| line.has("job_id", "after"));
}

#[test]
fn it_drains_in_time_while_redis_is_away() {
    let handler = Handler::says("ran").naps(Duration::from_secs(7_200));
    let runner = "drain_timeout = \"1s\"";
    let mut ground = ground_with(Ground::new(), &handler, runner, "ttr = \"3h\"");
    let mut daemon = ground.start();
    push(&ground, TOPIC, "long", 0);
    daemon.wait_for_line("the job runs", is_said);
    ground.redis.stop();
    let asked_at = std::time::Instant::now();
    assert_eq!(daemon.terminate().code(), Some(0));
    let took = asked_at.elapsed();
    println!("drain_timeout 1 s, Redis away: ended after {took:?}");
    assert!(took < Duration::from_secs(15), "{took:?}");
}
