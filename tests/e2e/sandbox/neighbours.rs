//! Topics that share a daemon with hostile handlers still get permits, CPU time and memory.

use std::fs;
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, hostile};
use crate::support::log::{is_verdict, settled_as};
use crate::support::producer::{push, push_ids, push_many};

/// Jobs of the quiet topic in one measurement, one after the other.
const QUIET: usize = 60;
/// The highest accepted ratio between the median latency with endless loops and the one without.
const RATIO_MAX: f64 = 4.0;
/// The lower bound of the median, in ms. A round trip on a loaded machine takes about as long, so smaller
/// values are replaced by it.
const FLOOR_MS: f64 = 5.0;

#[test]
fn sleeping_jobs_leave_permits_for_a_later_topic() {
    let fixture = Fixture::new();
    fixture.write("sleeps.wat", hostile("sleeps_for_an_hour"));
    fixture.write("good.wat", Handler::logs("fine").naps(Duration::from_millis(1)).wat());
    let sleeps = topic("sleeps", "sleeps.wat", "concurrency = 100\nttr = \"1h\"");
    let good = topic("good", "good.wat", "concurrency = 4");
    fixture.manifest("max_jobs = 16\ndrain_timeout = \"0s\"", &[sleeps, good]);
    let daemon = fixture.start();
    push_many(&fixture, "sleeps", 100);
    let is_release = |line: &LogLine| line.has("verdict", "release");
    // Jobs without a permit are released, so the maximum number of jobs sleeps by now.
    let store = fixture.store();
    eventually("sleepers have all slots they may", || {
        (1..=16).contains(&store.stage("sleeps", "unack").len())
    });
    push_many(&fixture, "good", QUIET);
    eventually("the others are done", || daemon.count(|l| settled_as(l, "done")) == QUIET);
    let has_slept =
        |line: &LogLine| is_verdict(line) && line.has("topic", "sleeps") && !is_release(line);
    assert_eq!(daemon.count(has_slept), 0, "a slot was free for another reason");
}

#[test]
fn a_short_job_does_not_wait_for_endless_loops() {
    let fixture = Fixture::new();
    fixture.write("loops.wat", hostile("endless_loop"));
    fixture.write("good.wat", Handler::logs("fine").wat());
    let loops = topic("loops", "loops.wat", "concurrency = 64\nttr = \"500ms\"\nmax_attempts = 1");
    let good = topic("good", "good.wat", "");
    fixture.manifest("drain_timeout = \"0s\"", &[loops, good]);
    let daemon = fixture.start();
    let alone = middle_ms(&fixture, &daemon, "alone");
    push_many(&fixture, "loops", 2_000);
    eventually("the loops run", || fixture.store().stage("loops", "unack").len() >= 64);
    let shared = middle_ms(&fixture, &daemon, "shared");
    assert!(fixture.store().live_count("loops") > 64, "the loops were over before");
    println!("a short job: {alone:.2} ms alone, {shared:.2} ms with 64 endless loops");
    assert!(shared <= RATIO_MAX * alone.max(FLOOR_MS), "{shared} ms, {alone} ms alone");
}

/// The median time from due to settled of some jobs, in ms.
fn middle_ms(fixture: &Fixture, daemon: &Daemon, name: &str) -> f64 {
    let mut times = Vec::new();
    for number in 0..QUIET {
        let id = format!("{name}-{number}");
        push(fixture, "good", &id, fixture.store().now_ms());
        let is_its = |line: &LogLine| settled_as(line, "done") && line.has("job_id", &id);
        let line = daemon.wait_for_line(&id, is_its);
        times.push(line.decimal("late_ms").unwrap() + line.decimal("wall_ms").unwrap());
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Modules that end soon, each with another class.
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
/// The first rounds fill the slots of the pool, which keep some MiB each. After so many, memory no longer grows.
const ROUNDS_MAX: usize = 16;
/// The growth in a round that is not a leak, in KiB: less than one for each job.
const GROWTH_MAX: u64 = 512;

#[test]
fn hostile_jobs_do_not_leak_memory() {
    let fixture = Fixture::new();
    let keys = "max_attempts = 1\nmax_dead = 10\nconcurrency = 4\nbreaker = { failures = 0 }";
    let topics: Vec<String> = SHORT
        .iter()
        .map(|name| {
            fixture.write(&format!("{name}.wat"), hostile(name));
            topic(name, &format!("{name}.wat"), keys)
        })
        .collect();
    fixture.manifest("log = \"info,handler=off\"", &topics);
    let daemon = fixture.start();
    let mut settled = 0;
    let mut round = |number: usize| {
        for name in SHORT {
            let ids: Vec<String> = (0..ROUND).map(|n| format!("{number}-{n}")).collect();
            push_ids(&fixture, name, &ids);
        }
        settled += SHORT.len() * ROUND;
        eventually("a round is over", || daemon.count(is_verdict) == settled);
        held(&daemon)
    };
    round(0);
    let (mut memory, files, threads) = round(1);
    let is_steady = (2..ROUNDS_MAX).any(|number| {
        let before = memory;
        (memory, ..) = round(number);
        println!("{before} KiB before round {number}, {memory} KiB after it");
        memory <= before + GROWTH_MAX
    });
    assert!(
        is_steady,
        "each round of {} jobs took more memory, now {memory} KiB",
        SHORT.len() * ROUND
    );
    eventually("no file and no thread is left over", || {
        let (_, files_after, threads_after) = held(&daemon);
        files_after <= files && threads_after <= threads
    });
}

/// The private memory of a daemon in KiB, its open files and its threads.
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
