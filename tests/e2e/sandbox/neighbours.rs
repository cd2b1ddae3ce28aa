//! Who shares a daemon with handlers that mean harm: slots, processors and memory are there for it too.

use std::fs;
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::handler::{Handler, hostile};
use crate::support::log::{is_verdict, settled_as};
use crate::support::producer::{push, push_ids, push_many};

/// Jobs of the quiet topic in a stretch, one after the other.
const QUIET: usize = 60;
/// How much later a job may be settled beside endless loops, in the middle of all, than without. It was
/// ten times as much and more when loops and short jobs stood in one line.
const RATIO_MAX: f64 = 4.0;
/// Below this a middle says more of the machine than of the daemon: a turn with Redis takes about as much
/// on one that is loaded. It stands for the quiet one's figure where that is smaller.
const FLOOR_MS: f64 = 5.0;

#[test]
fn sleepers_that_want_every_slot_leave_some_for_a_topic_that_comes_later() {
    let ground = Ground::new();
    ground.write("sleeps.wat", hostile("sleeps_for_an_hour"));
    ground.write("good.wat", Handler::says("fine").naps(Duration::from_millis(1)).wat());
    let sleeps = topic("sleeps", "sleeps.wat", "concurrency = 100\nttr = \"1h\"");
    let good = topic("good", "good.wat", "concurrency = 4");
    ground.manifest("max_jobs = 16\ndrain_timeout = \"0s\"", &[sleeps, good]);
    let daemon = ground.start();
    push_many(&ground, "sleeps", 100);
    let is_release = |line: &LogLine| line.has("verdict", "release");
    // What no lane could start is given back: so many sleep by then as may.
    eventually("sleepers have all slots they may", || daemon.count(is_release) > 0);
    push_many(&ground, "good", QUIET);
    eventually("the others are done", || daemon.count(|l| settled_as(l, "done")) == QUIET);
    let has_slept =
        |line: &LogLine| is_verdict(line) && line.has("topic", "sleeps") && !is_release(line);
    assert_eq!(daemon.count(has_slept), 0, "a slot was free for another reason");
}

#[test]
fn a_short_job_does_not_wait_for_endless_loops() {
    let ground = Ground::new();
    ground.write("loops.wat", hostile("endless_loop"));
    ground.write("good.wat", Handler::says("fine").wat());
    let loops = topic("loops", "loops.wat", "concurrency = 64\nttr = \"500ms\"\nmax_attempts = 1");
    let good = topic("good", "good.wat", "");
    ground.manifest("drain_timeout = \"0s\"", &[loops, good]);
    let daemon = ground.start();
    let alone = middle_ms(&ground, &daemon, "alone");
    push_many(&ground, "loops", 2_000);
    eventually("the loops run", || ground.store().stage("loops", "unack").len() >= 64);
    let beside = middle_ms(&ground, &daemon, "beside");
    assert!(ground.store().live_count("loops") > 64, "the loops were over before");
    println!("a short job: {alone:.2} ms alone, {beside:.2} ms beside 64 endless loops");
    assert!(beside <= RATIO_MAX * alone.max(FLOOR_MS), "{beside} ms, {alone} ms alone");
}

/// From due time to end of each of some jobs, the middle one, in ms.
fn middle_ms(ground: &Ground, daemon: &Daemon, name: &str) -> f64 {
    let mut times = Vec::new();
    for number in 0..QUIET {
        let id = format!("{name}-{number}");
        push(ground, "good", &id, ground.store().now_ms());
        let is_its = |line: &LogLine| settled_as(line, "done") && line.has("job_id", &id);
        let line = daemon.wait_for_line(&id, is_its);
        times.push(line.decimal("late_ms").unwrap() + line.decimal("wall_ms").unwrap());
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Modules that end soon, each in its own way.
const SHORT: [&str; 6] = [
    "trap_unreachable",
    "stack_overflow",
    "memory_hog",
    "table_hog",
    "exits_with_zero",
    "pointer_past_memory",
];
/// Jobs of each at a time.
const ROUND: usize = 100;

#[test]
fn a_daemon_is_no_larger_after_more_hostile_jobs() {
    let ground = Ground::new();
    let keys = "max_attempts = 1\nmax_dead = 10\nconcurrency = 4\nbreaker = { failures = 0 }";
    let topics: Vec<String> = SHORT
        .iter()
        .map(|name| {
            ground.write(&format!("{name}.wat"), hostile(name));
            topic(name, &format!("{name}.wat"), keys)
        })
        .collect();
    ground.manifest("log = \"info,handler=off\"", &topics);
    let daemon = ground.start();
    let mut settled = 0;
    let mut round = |number: usize| {
        for name in SHORT {
            let ids: Vec<String> = (0..ROUND).map(|n| format!("{number}-{n}")).collect();
            push_ids(&ground, name, &ids);
        }
        settled += SHORT.len() * ROUND;
        eventually("a round is over", || daemon.count(is_verdict) == settled);
        held(&daemon)
    };
    round(0);
    let (memory, files, threads) = round(1);
    round(2);
    round(3);
    let (memory_after, files_after, threads_after) = round(4);
    println!(
        "{memory} KiB after {} hostile jobs, {memory_after} KiB after {}",
        2 * SHORT.len() * ROUND,
        5 * SHORT.len() * ROUND
    );
    // Slots keep what is wiped in place, some MiB each, and which are in use changes.
    assert!(memory_after <= memory + memory / 4, "{memory} KiB, then {memory_after} KiB");
    assert!(files_after <= files, "{files} open files, then {files_after}");
    assert!(threads_after <= threads, "{threads} threads, then {threads_after}");
}

/// The memory of a daemon that is its own, in KiB, its open files and its threads.
fn held(daemon: &Daemon) -> (u64, usize, u64) {
    let proc = format!("/proc/{}", daemon.pid());
    let status = fs::read_to_string(format!("{proc}/status")).unwrap();
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let files = fs::read_dir(format!("{proc}/fd")).unwrap().count();
    (number("RssAnon:"), files, number("Threads:"))
}
