//! The primary fails over while jobs run. The daemon follows the sentinels; no job is lost and no attempt is spent.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use duebox_harness::{Daemon, Lateness, SentinelGroup, eventually, only_on_one_server};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{handler_lines, is_lost, is_verdict, verdicts};
use crate::support::redis_state::{Store, key};

const TOPIC: &str = "work";
const JOBS: usize = 1_200;

/// Pushes jobs and waits until a replica has them. The sentinels choose the replica that has the most.
fn push_replicated(group: &mut SentinelGroup, name: &str) -> BTreeSet<String> {
    let ids: BTreeSet<String> = (0..JOBS).map(|number| format!("{name}-{number}")).collect();
    let (jobs, pending) = (key(TOPIC, "jobs"), key(TOPIC, "pending"));
    let mut script = String::new();
    for id in &ids {
        writeln!(script, "MULTI\nHSET {jobs} {id} {{}}\nZADD {pending} 0 {id}\nEXEC").unwrap();
    }
    script.push_str("WAIT 1 30000\n");
    let output = group.primary().pipe(&script);
    assert!(output.last().is_some_and(|count| count != "0"), "no replica has the jobs");
    ids
}

fn fixture_of(group: &SentinelGroup) -> Fixture {
    let fixture = Fixture::new().reached_at(group.url());
    let handler = Handler::logs("ran").naps(Duration::from_millis(50));
    fixture.write("work.wat", handler.wat());
    fixture.manifest("lease = \"5s\"", &[topic(TOPIC, "work.wat", "concurrency = 8")]);
    fixture
}

/// How long the new primary took writes before a verdict was settled there. On a busy machine all jobs may be settled
/// before it is seen that it takes writes.
fn resumed_after(group: &SentinelGroup, daemon: &Daemon, old: u16, jobs: usize) -> Duration {
    group.wait_for_successor_of(old);
    let writable_at = Instant::now();
    let before = daemon.count(is_verdict);
    eventually("work goes on", || {
        let settled = daemon.count(is_verdict);
        settled > before || settled >= jobs
    });
    writable_at.elapsed()
}

#[test]
fn a_failover_under_load_spends_no_attempt() {
    only_on_one_server!("sentinels watch one primary");
    let mut group = SentinelGroup::start();
    let fixture = fixture_of(&group);
    let mut daemon = fixture.start();
    let mut pushed = BTreeSet::new();
    for how in ["order", "death"] {
        let settled = daemon.count(is_verdict);
        pushed.append(&mut push_replicated(&mut group, how));
        eventually("a part is settled", || daemon.count(is_verdict) >= settled + JOBS / 5);
        group.wait_until_one_primary();
        let (old, lateness) = (group.primary().port(), Lateness::measure());
        match how {
            "order" => group.failover(),
            _ => group.primary().stop(),
        }
        let took = resumed_after(&group, &daemon, old, pushed.len());
        lateness.check_resumed(&format!("failover by {how}"), took);
        eventually("the sentinels name the new primary", || group.primary().port() != old);
        let store = Store::new(&group.primary().url());
        eventually("every job is settled", || store.live_count(TOPIC) == 0);
    }
    assert!(daemon.terminate().success());
    let ran: BTreeSet<String> = handler_lines(&daemon).into_iter().map(|line| line.id).collect();
    assert_eq!(ran, pushed);
    let settled = verdicts(&daemon);
    assert!(settled.iter().all(|verdict| verdict.attempt == 1), "an attempt was spent");
    println!("{} jobs, {} verdicts, {} lost", pushed.len(), settled.len(), daemon.count(is_lost));
}

#[test]
fn the_doctor_shows_the_sentinels() {
    only_on_one_server!("sentinels watch one primary");
    let mut group = SentinelGroup::start();
    let fixture = fixture_of(&group);
    let shown = fixture.duebox(&["doctor", "--redis"]);
    let primary = format!("primary 127.0.0.1:{}, 2 replicas", group.primary().port());
    assert!(shown.contains(&primary) && shown.contains("3 of 3 sentinels answer"), "{shown}");
    group.sentinels()[1].stop();
    let shown = fixture.duebox(&["doctor", "--redis"]);
    assert!(
        shown.contains("2 of 3 sentinels answer") && shown.contains("warning: the sentinel at"),
        "{shown}"
    );
}
