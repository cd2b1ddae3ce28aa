//! Jobs that expire before their first start, and failure classes that a topic discards.

use std::collections::BTreeSet;

use duebox_harness::{LogLine, eventually};
use redis::cmd;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{handler_lines, is_handler_line, settled_as};
use crate::support::producer::{push, push_payload};
use crate::support::puppet::{PUPPET, count_settled, puppet_job, push_jobs};
use crate::support::redis_state::{Store, key};

const TOPIC: &str = "report";
const MINUTE_MS: u64 = 60_000;

fn fixture(keys: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    fixture.manifest("lease = \"1s\"", &[topic(TOPIC, "puppet.wat", keys)]);
    fixture
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// Moves a job's next attempt into the past.
fn make_overdue(store: &Store, id: &str, by_ms: u64) {
    let due = store.now_ms() - by_ms;
    let moved: u64 =
        store.ask(cmd("ZADD").arg(key(TOPIC, "retry")).arg("XX").arg("CH").arg(due).arg(id));
    assert_eq!(moved, 1, "{id} is not in retry");
}

#[test]
fn late_jobs_expire_unless_they_were_started() {
    let fixture = fixture("ttl = \"30s\"\nbackoff = \"1h\"");
    let store = fixture.store();
    push_payload(&fixture, TOPIC, "started", "ln");
    let mut daemon = fixture.start();
    eventually("it waits for its retry", || store.stage(TOPIC, "retry").contains("started"));
    assert!(daemon.terminate().success());

    // No runner is up for a minute.
    let long_ago = store.now_ms() - MINUTE_MS;
    make_overdue(&store, "started", MINUTE_MS);
    for id in ["late-1", "late-2"] {
        push(&fixture, TOPIC, id, long_ago);
    }
    push(&fixture, TOPIC, "in-time", long_ago + MINUTE_MS);
    push(&fixture, TOPIC, "later", long_ago + 60 * MINUTE_MS);
    let mut daemon = fixture.start();
    eventually("all that is due has gone", || store.live(TOPIC) == ids(&["later"]));
    assert_eq!(store.stage(TOPIC, "dead"), ids(&["late-1", "late-2"]));
    for id in ["late-1", "late-2"] {
        let info = store.dead_info(TOPIC, id);
        assert_eq!(info["class"], "expired");
        assert!(info["reason"].as_str().unwrap().contains("ttl"), "{info}");
    }
    eventually("the others are settled", || count_settled(&[&daemon], "done") == 2);
    let ran: Vec<(String, i64)> =
        handler_lines(&daemon).into_iter().map(|line| (line.id, line.attempt)).collect();
    assert_eq!(ran, [("started".to_owned(), 2)], "only this one has something to say");
    assert!(daemon.terminate().success());
    let line = daemon.wait_for_line("the closing line", |line| line.message() == "done");
    assert_eq!((line.number("expired"), line.number("acked")), (Some(2), Some(2)));
}

#[test]
fn the_ttl_of_a_job_overrides_that_of_its_topic() {
    let fixture = fixture("ttl = \"30s\"");
    let store = fixture.store();
    push_jobs(
        &fixture,
        TOPIC,
        &[
            puppet_job("short", "l", r#"{"ttl_ms":1}"#),
            puppet_job("for-ever", "l", r#"{"ttl_ms":0}"#),
        ],
    );
    // Pretend that both have been due for a minute.
    let ready = key(TOPIC, "ready");
    for id in ["short", "for-ever"] {
        let due = store.now_ms() - MINUTE_MS;
        let _: u64 = store.ask(cmd("ZADD").arg(&ready).arg("XX").arg("CH").arg(due).arg(id));
    }
    let daemon = fixture.start();
    eventually("all are gone", || store.live_count(TOPIC) == 0);
    assert_eq!(store.stage(TOPIC, "dead"), ids(&["short"]));
    eventually("the other ran", || daemon.count(is_handler_line) == 1);
}

#[test]
fn discarded_jobs_leave_no_dead_job() {
    let policies = "ttl = \"30s\"\n\
        on = { expired = \"discard\", bad_due = \"discard\", nack = \"discard\", bad_options = \"discard\" }";
    let fixture = fixture(policies);
    let store = fixture.store();
    push(&fixture, TOPIC, "expired", store.now_ms() - MINUTE_MS);
    push(&fixture, TOPIC, "bad-due", 5);
    push_payload(&fixture, TOPIC, "nacks", "lN");
    push_payload(&fixture, TOPIC, "bad-options", "l");
    fixture.redis.cli(&["HSET", &key(TOPIC, "opts"), "bad-options", "{\"no\":1}"]);
    push_payload(&fixture, TOPIC, "good", "l");
    let daemon = fixture.start();
    eventually("all are gone", || store.live_count(TOPIC) == 0);
    eventually("the good one is done", || {
        daemon.count(|line| settled_as(line, "done") && line.has("job_id", "good")) == 1
    });
    assert_eq!(store.stage(TOPIC, "dead"), BTreeSet::new());
    for id in ["nacks", "bad-options"] {
        let is_said = |line: &LogLine| settled_as(line, "discarded") && line.has("job_id", id);
        eventually("a discarded failure is not a success", || daemon.count(is_said) == 1);
    }
    let left = store.keys(TOPIC);
    assert!(left.iter().all(|key| key == "meta"), "{left:?}");
}

#[test]
fn a_crashed_job_can_be_discarded() {
    let fixture = fixture("max_crashes = 1\non = { crashed = \"discard\" }\nttr = \"1h\"");
    let long = Handler::logs("ran").naps(std::time::Duration::from_secs(3_000));
    fixture.write("puppet.wat", long.wat());
    let store = fixture.store();
    push(&fixture, TOPIC, "killer", 0);
    let mut first = fixture.start();
    first.wait_for_line("it runs", is_handler_line);
    first.kill();
    let second = fixture.start();
    second.wait_for_line("its end", |line| line.has("settled", "discarded"));
    assert_eq!((store.live_count(TOPIC), store.stage(TOPIC, "dead").len()), (0, 0));
    assert_eq!(second.count(is_handler_line), 0);
}
