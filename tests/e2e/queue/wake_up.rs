//! An idle daemon sleeps until the next due time it knows; an earlier job wakes it.

use std::time::{Duration, Instant};

use duebox_harness::Daemon;

use crate::support::fixture::{Ground, topic, up};
use crate::support::handler::Handler;
use crate::support::log::settled_as;
use crate::support::producer::push;

const TOPIC: &str = "work";

/// A daemon that looks at its topic by itself only so often.
fn daemon(ground: &Ground, poll: &str) -> Daemon {
    ground.write("work.wat", Handler::says("ran").wat());
    let path = ground.manifest("", &[topic(TOPIC, "work.wat", "")]);
    let text = std::fs::read_to_string(&path).unwrap();
    up(&ground.write("duebox.toml", text.replace("200ms", poll)))
}

#[test]
fn an_earlier_job_wakes_a_sleeping_runner() {
    const POLL: Duration = Duration::from_secs(30);
    let ground = Ground::new();
    let daemon = daemon(&ground, "30s");
    ground.duebox(&["push", TOPIC, "{}", "--id", "later", "--in", "10s"]);
    let pushed_at = Instant::now();
    ground.duebox(&["push", TOPIC, "{}", "--id", "now"]);
    daemon.wait_for_line("the job that is due now", |line| {
        settled_as(line, "done") && line.has("job_id", "now")
    });
    let took = pushed_at.elapsed();
    println!("poll 30 s: a job for now, after one for +10 s, was done {took:?} after its push");
    assert!(took < POLL / 10, "found by the poll, not by the wake-up: {took:?}");
    // The later one is known since its push: its time needs no poll either, and is kept.
    let line = daemon.wait_for_line("the later job", |line| {
        settled_as(line, "done") && line.has("job_id", "later")
    });
    let waited = pushed_at.elapsed();
    assert!(waited < POLL, "found by the poll, not by its due time: {waited:?}");
    println!("the one for +10 s was {} ms late", line.decimal("late_ms").unwrap());
}

#[test]
fn a_plain_push_is_found_within_the_poll() {
    const POLL: Duration = Duration::from_secs(2);
    let ground = Ground::new();
    let daemon = daemon(&ground, "2s");
    for n in 0..3 {
        let id = format!("plain-{n}");
        let pushed_at = Instant::now();
        push(&ground, TOPIC, &id, 0);
        daemon.wait_for_line("the plain job", |line| {
            settled_as(line, "done") && line.has("job_id", &id)
        });
        let took = pushed_at.elapsed();
        println!("poll 2 s: a plain push was done after {took:?}");
        assert!(took < POLL * 2, "{took:?}");
    }
}
