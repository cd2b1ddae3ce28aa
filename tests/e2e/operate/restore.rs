//! A snapshot of Redis is restored: what was done since runs again, what was pushed since is missing, and nothing
//! else changes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use duebox_harness::{eventually, only_on_one_server};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{settled_as, verdicts};
use crate::support::producer::{push, push_ids};

/// The topics: jobs that are done, jobs that die, a job that runs during the snapshot.
const WORK: &str = "work";
const FAILING: &str = "failing";
const LONG: &str = "long";

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("worked").wat());
    fixture.write("failing.wat", Handler::logs("failed").nacks().wat());
    fixture.write("long.wat", Handler::logs("ran").naps(Duration::from_secs(2)).wat());
    let topics = [
        topic(WORK, "work.wat", ""),
        topic(FAILING, "failing.wat", "max_attempts = 1"),
        topic(LONG, "long.wat", ""),
    ];
    fixture.manifest("lease = \"2s\"\ndrain_timeout = \"1s\"", &topics);
    fixture
}

fn ids(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Redis is stopped, reads the snapshot without an append-only file, and then writes one.
fn restore(fixture: &mut Fixture, snapshot: &Path) {
    fixture.redis.stop();
    fs::copy(snapshot, fixture.redis.server().dir().join("dump.rdb")).unwrap();
    fixture.redis.restart();
    assert_eq!(fixture.redis.cli(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
}

#[test]
fn a_restored_snapshot_repeats_what_was_done_and_misses_what_was_pushed_since() {
    only_on_one_server!("a snapshot is of one server");
    let mut fixture = fixture();
    let later = fixture.store().now_ms() + 3_600_000;
    let mut daemon = fixture.start();
    push_ids(&fixture, FAILING, &["before".to_owned()]);
    eventually("a job is dead before the snapshot", || {
        fixture.store().stage(FAILING, "dead") == ids(&["before"])
    });
    push_ids(&fixture, LONG, &["running".to_owned()]);
    eventually("a job runs", || fixture.store().stage(LONG, "unack") == ids(&["running"]));
    for id in ["waits", "soon"] {
        push(&fixture, WORK, id, later);
    }
    push(&fixture, WORK, "cancelled", later);
    fixture.redis.cli(&["SAVE"]);
    let snapshot = fixture.path("backup.rdb");
    fs::copy(fixture.redis.server().dir().join("dump.rdb"), &snapshot).unwrap();

    // After the snapshot: a waiting job is done early, one is cancelled, and others are pushed, done and dead.
    fixture.duebox(&["run-now", WORK, "soon"]);
    fixture.duebox(&["cancel", WORK, "cancelled"]);
    push_ids(&fixture, WORK, &["pushed".to_owned()]);
    push_ids(&fixture, FAILING, &["after".to_owned()]);
    for (topic, id, settled) in [
        (WORK, "soon", "done"),
        (WORK, "pushed", "done"),
        (FAILING, "after", "dead"),
        (LONG, "running", "done"),
    ] {
        daemon.wait_for_line(id, |line| {
            settled_as(line, settled) && line.has("topic", topic) && line.has("job_id", id)
        });
    }
    assert!(daemon.terminate().success());

    restore(&mut fixture, &snapshot);
    let store = fixture.store();
    assert_eq!(store.live(WORK), ids(&["cancelled", "soon", "waits"]));
    assert_eq!(store.live(LONG), ids(&["running"]));
    assert_eq!(store.stage(FAILING, "dead"), ids(&["before"]));
    // It fails if it has findings.
    fixture.duebox(&["doctor"]);

    let mut daemon = fixture.start();
    fixture.duebox(&["run-now", WORK, "soon"]);
    let again = daemon.wait_for_line("the job that ran when the snapshot was taken", |line| {
        settled_as(line, "done") && line.has("job_id", "running")
    });
    assert_eq!(again.number("attempt"), Some(1), "no attempt is spent: {}", again.text());
    daemon.wait_for_line("the job that was done since", |line| {
        settled_as(line, "done") && line.has("job_id", "soon")
    });
    assert_eq!(store.stage(WORK, "pending"), ids(&["cancelled", "waits"]));
    assert_eq!(store.stage(FAILING, "dead"), ids(&["before"]));
    let ran: BTreeSet<String> = verdicts(&daemon).into_iter().map(|verdict| verdict.id).collect();
    assert_eq!(ran, ids(&["running", "soon"]), "nothing else runs again");
    assert!(daemon.terminate().success());
}
