//! A runner that dies or hangs: its jobs move on within the lease, no attempt is spent, and no settled job runs
//! again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use duebox_harness::eventually;

use crate::support::fixture::{Fixture, topic, up};
use crate::support::handler::Handler;
use crate::support::log::{
    handler_lines, is_handler_line, is_lost, is_verdict, settled_as, tally, verdicts,
};
use crate::support::producer::{push, push_many};

const TOPIC: &str = "work";
const HOURS: Duration = Duration::from_secs(7_200);

#[test]
fn a_kill_amid_ten_thousand_jobs_loses_and_repeats_none() {
    const JOBS: usize = 10_000;
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").naps(Duration::from_millis(5)).wat());
    fixture.manifest("lease = \"2s\"", &[topic(TOPIC, "work.wat", "concurrency = 64")]);
    let store = fixture.store();
    let pushed = push_many(&fixture, TOPIC, JOBS);
    let mut first = fixture.start();
    eventually("a third is settled", || first.count(is_verdict) >= JOBS / 3);
    first.kill();
    first.wait_exit();
    // Exactly the jobs that are still in Redis must run again.
    let left = store.live(TOPIC);
    let held = store.stage(TOPIC, "unack").len();
    println!("killed with {} of {JOBS} jobs left, {held} of them leased", left.len());
    assert!(!left.is_empty() && left.len() < JOBS, "not killed in the middle: {}", left.len());
    for verdict in verdicts(&first) {
        assert!(verdict.settled == "done" && !left.contains(&verdict.id), "{verdict:?}");
    }
    let mut second = fixture.start();
    eventually("the rest is settled", || second.count(is_verdict) >= left.len());
    assert!(second.terminate().success());
    let (lines, settled) = (handler_lines(&second), verdicts(&second));
    let runs = tally(lines.iter().map(|line| &line.id));
    assert_eq!(runs, left.iter().map(|id| (id.as_str(), 1)).collect());
    assert_eq!(tally(settled.iter().map(|verdict| &verdict.id)), runs);
    assert!(settled.iter().all(|verdict| verdict.settled == "done" && verdict.attempt == 1));
    let ran_before: BTreeSet<String> =
        handler_lines(&first).into_iter().map(|line| line.id).collect();
    let ran: BTreeSet<String> = ran_before.union(&left).cloned().collect();
    assert_eq!(ran, pushed);
    assert_eq!(store.left(TOPIC), BTreeSet::new());
}

#[test]
fn a_dead_runners_job_moves_on_within_the_lease_and_a_second() {
    let fixture = two_runners("2s");
    push(&fixture, TOPIC, "long", 0);
    let mut first = fixture.start();
    first.wait_for_line("the job runs", is_handler_line);
    let second = up(&fixture.path("second.toml"));
    first.kill();
    let died_at = Instant::now();
    let line = second.wait_for_line("the job runs again", is_handler_line);
    let moved_on = died_at.elapsed();
    println!("lease 2 s, ttr 10 min: another runner had the job {moved_on:?} after the kill");
    assert!(moved_on <= Duration::from_secs(3), "it took {moved_on:?}");
    assert_eq!(line.number("attempt"), Some(1));
    second.wait_for_line("the job is done", |line| settled_as(line, "done"));
    assert_eq!(verdicts(&second).len(), 1);
    assert_eq!(fixture.store().attempts(TOPIC).len(), 0);
    assert_eq!(fixture.store().live_count(TOPIC), 0);
}

#[test]
fn a_runner_that_hung_longer_than_its_lease_settles_nothing() {
    let fixture = two_runners("1s");
    let long = Handler::logs("ran").naps(Duration::from_millis(2_500));
    fixture.write("quick.wat", long.wat());
    let mut first = fixture.start();
    push_many(&fixture, TOPIC, 3);
    eventually("three jobs run", || first.count(is_handler_line) == 3);
    first.signal("STOP");
    let mut second = up(&fixture.path("second.toml"));
    eventually("the second runner has them", || second.count(is_handler_line) == 3);
    // The first runner returns while the second holds the leases, which its verdicts must not end.
    first.signal("CONT");
    // The line is logged when the guest was interrupted; it would have slept for hours.
    eventually("the late verdicts are refused", || first.count(is_lost) == 3);
    eventually("the second runner settles them", || second.count(is_verdict) == 3);
    assert!(first.terminate().success() && second.terminate().success());
    assert_eq!((first.count(is_verdict), first.count(is_handler_line)), (0, 3));
    assert_eq!((second.count(is_verdict), second.count(is_handler_line)), (3, 3));
    assert!(verdicts(&second).iter().all(|v| v.settled == "done" && v.attempt == 1));
    assert_eq!(fixture.store().left(TOPIC), BTreeSet::new());
}

#[test]
fn a_job_longer_than_its_lease_stays_with_its_runner() {
    let fixture = two_runners("1s");
    fixture.write("long.wat", Handler::logs("ran").naps(Duration::from_millis(3_500)).wat());
    push(&fixture, TOPIC, "long", 0);
    let first = fixture.start();
    first.wait_for_line("the job runs", is_handler_line);
    // It would lease the job at once if the lease were released.
    let second = up(&fixture.path("second.toml"));
    let line = first.wait_for_line("its verdict", is_verdict);
    assert!(line.has("settled", "done"), "{}", line.text());
    assert!(line.decimal("wall_ms").unwrap() > 3_000.0, "the lease was never put to the test");
    assert_eq!((second.count(is_handler_line), first.count(is_handler_line)), (0, 1));
}

#[test]
fn two_runners_share_a_topic_and_no_job_runs_twice() {
    const JOBS: usize = 4_000;
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").naps(Duration::from_millis(10)).wat());
    fixture.manifest("", &[topic(TOPIC, "work.wat", "concurrency = 16")]);
    let (mut first, mut second) = (fixture.start(), fixture.start());
    let pushed = push_many(&fixture, TOPIC, JOBS);
    eventually("all are settled", || first.count(is_verdict) + second.count(is_verdict) >= JOBS);
    assert!(first.terminate().success() && second.terminate().success());
    let shares = [handler_lines(&first), handler_lines(&second)];
    println!("two runners shared {JOBS} jobs: {} and {}", shares[0].len(), shares[1].len());
    assert!(shares.iter().all(|share| share.len() > JOBS / 20));
    let runs = tally(shares.iter().flatten().map(|line| &line.id));
    assert_eq!(runs, pushed.iter().map(|id| (id.as_str(), 1)).collect());
    let settled = [verdicts(&first), verdicts(&second)].concat();
    assert!(settled.iter().all(|verdict| verdict.settled == "done" && verdict.attempt == 1));
    assert_eq!(first.count(is_lost) + second.count(is_lost), 0);
}

#[test]
fn a_job_that_kills_its_runners_is_dead_as_crashed() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").naps(HOURS).wat());
    let keys = "max_crashes = 2\nttr = \"3h\"";
    fixture.manifest("lease = \"1s\"", &[topic(TOPIC, "work.wat", keys)]);
    push(&fixture, TOPIC, "killer", 0);
    for _ in 0..2 {
        let mut daemon = fixture.start();
        let line = daemon.wait_for_line("the job runs", is_handler_line);
        assert_eq!(line.number("attempt"), Some(1));
        daemon.kill();
    }
    let daemon = fixture.start();
    daemon.wait_for_line("the burial", |line| line.has("class", "crashed"));
    let store = fixture.store();
    assert_eq!(store.stage(TOPIC, "dead"), BTreeSet::from(["killer".to_owned()]));
    assert_eq!(store.dead_class(TOPIC, "killer"), "crashed");
    assert_eq!((store.live_count(TOPIC), daemon.count(is_handler_line)), (0, 0));
}

/// A runner whose handler sleeps for hours, and the manifest of one with a quick handler.
fn two_runners(lease: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("long.wat", Handler::logs("ran").naps(HOURS).wat());
    fixture.write("quick.wat", Handler::logs("ran").wat());
    let runner = format!("lease = \"{lease}\"");
    fixture.manifest(&runner, &[topic(TOPIC, "long.wat", "ttr = \"10m\"")]);
    fixture.manifest_named("second.toml", &runner, &[topic(TOPIC, "quick.wat", "ttr = \"10m\"")]);
    fixture
}
