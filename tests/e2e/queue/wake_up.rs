//! An idle daemon sleeps until the next due time that it knows, and an earlier job wakes it.

use std::time::{Duration, Instant};

use duebox_harness::{Daemon, eventually, only_on_one_server};
use redis::{InfoDict, cmd};

use crate::support::fixture::{Fixture, topic, up};
use crate::support::handler::Handler;
use crate::support::log::settled_as;
use crate::support::producer::push;

const TOPIC: &str = "work";

/// A daemon with this poll interval.
fn daemon(fixture: &Fixture, poll: &str) -> Daemon {
    fixture.write("work.wat", Handler::logs("ran").wat());
    let path = fixture.manifest("", &[topic(TOPIC, "work.wat", "")]);
    let text = std::fs::read_to_string(&path).unwrap();
    up(&fixture.write("duebox.toml", text.replace("200ms", poll)))
}

#[test]
fn an_earlier_job_wakes_a_sleeping_runner() {
    const POLL: Duration = Duration::from_secs(30);
    let fixture = Fixture::new();
    let daemon = daemon(&fixture, "30s");
    fixture.duebox(&["push", TOPIC, "{}", "--id", "later", "--in", "10s"]);
    let pushed_at = Instant::now();
    fixture.duebox(&["push", TOPIC, "{}", "--id", "now"]);
    daemon.wait_for_line("the job that is due now", |line| {
        settled_as(line, "done") && line.has("job_id", "now")
    });
    let took = pushed_at.elapsed();
    println!("poll 30 s: a job for now, after one for +10 s, was done {took:?} after its push");
    assert!(took < POLL / 10, "found by the poll, not by the wake-up: {took:?}");
    // The later job is known since its push, so it also starts on time without a poll.
    let line = daemon.wait_for_line("the later job", |line| {
        settled_as(line, "done") && line.has("job_id", "later")
    });
    let waited = pushed_at.elapsed();
    assert!(waited < POLL, "found by the poll, not by its due time: {waited:?}");
    println!("the one for +10 s was {} ms late", line.decimal("late_ms").unwrap());
}

#[test]
fn a_plain_push_to_a_quiet_topic_starts_at_once() {
    only_on_one_server!("a cluster is polled");
    const POLL: Duration = Duration::from_secs(60);
    let fixture = Fixture::new();
    let daemon = daemon(&fixture, "60s");
    eventually("the topic is watched", || is_watched(&fixture));
    let pushed_at = Instant::now();
    push(&fixture, TOPIC, "plain", 0);
    daemon.wait_for_line("the plain job", |line| {
        settled_as(line, "done") && line.has("job_id", "plain")
    });
    let took = pushed_at.elapsed();
    println!("poll 60 s: a plain push to a quiet topic was done after {took:?}");
    assert!(took < POLL / 10, "found by the poll, not by the watch: {took:?}");
}

#[test]
fn a_plain_push_is_found_after_the_watch_was_lost() {
    only_on_one_server!("a cluster is polled");
    const POLL: Duration = Duration::from_secs(60);
    let fixture = Fixture::new();
    let daemon = daemon(&fixture, "60s");
    eventually("the topic is watched", || is_watched(&fixture));
    fixture.redis.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let pushed_at = Instant::now();
    push(&fixture, TOPIC, "plain", 0);
    daemon.wait_for_line("the plain job", |line| {
        settled_as(line, "done") && line.has("job_id", "plain")
    });
    let took = pushed_at.elapsed();
    println!("poll 60 s: a plain push was done {took:?} after its watch was lost");
    assert!(took < POLL / 10, "found by the poll: {took:?}");
}

/// Whether Redis reports changes of any key.
fn is_watched(fixture: &Fixture) -> bool {
    let info: InfoDict = fixture.store().ask(cmd("INFO").arg("stats"));
    info.get::<u64>("tracking_total_keys").unwrap() > 0
}

#[test]
fn a_plain_push_is_found_within_the_poll() {
    const POLL: Duration = Duration::from_secs(2);
    let fixture = Fixture::new();
    let daemon = daemon(&fixture, "2s");
    for n in 0..3 {
        let id = format!("plain-{n}");
        let pushed_at = Instant::now();
        push(&fixture, TOPIC, &id, 0);
        daemon.wait_for_line("the plain job", |line| {
            settled_as(line, "done") && line.has("job_id", &id)
        });
        let took = pushed_at.elapsed();
        println!("poll 2 s: a plain push was done after {took:?}");
        assert!(took < POLL * 2, "{took:?}");
    }
}
