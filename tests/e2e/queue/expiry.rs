//! Jobs that nobody started in time, and classes of failure for which a topic keeps no dead.

use std::collections::BTreeSet;

use duebox_harness::eventually;
use redis::cmd;

use crate::support::fixture::{Ground, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_said, said, settled_as};
use crate::support::producer::{push, push_payload};
use crate::support::puppet::{PUPPET, count_settled, push_wishes, wish};
use crate::support::redis_state::{Store, key};

const TOPIC: &str = "report";
const MINUTE_MS: u64 = 60_000;

fn ground(keys: &str) -> Ground {
    let ground = Ground::new();
    ground.write("puppet.wat", PUPPET);
    ground.manifest("lease = \"1s\"", &[topic(TOPIC, "puppet.wat", keys)]);
    ground
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// Puts a job's next attempt into the past, as if the time had gone by.
fn make_overdue(store: &Store, id: &str, by_ms: u64) {
    let due = store.now_ms() - by_ms;
    let moved: u64 =
        store.ask(cmd("ZADD").arg(key(TOPIC, "retry")).arg("XX").arg("CH").arg(due).arg(id));
    assert_eq!(moved, 1, "{id} is not in retry");
}

#[test]
fn jobs_found_too_late_are_dead_as_expired_and_one_that_was_started_is_not() {
    let ground = ground("ttl = \"30s\"\nbackoff = \"1h\"");
    let store = ground.store();
    push_payload(&ground, TOPIC, "started", "ln");
    let mut daemon = ground.start();
    eventually("it waits for its retry", || store.stage(TOPIC, "retry").contains("started"));
    assert!(daemon.terminate().success());

    // Nobody is up for a minute.
    let long_ago = store.now_ms() - MINUTE_MS;
    make_overdue(&store, "started", MINUTE_MS);
    for id in ["late-1", "late-2"] {
        push(&ground, TOPIC, id, long_ago);
    }
    push(&ground, TOPIC, "in-time", long_ago + MINUTE_MS);
    push(&ground, TOPIC, "later", long_ago + 60 * MINUTE_MS);
    let mut daemon = ground.start();
    eventually("all that is due has gone", || store.live(TOPIC) == ids(&["later"]));
    assert_eq!(store.stage(TOPIC, "dead"), ids(&["late-1", "late-2"]));
    for id in ["late-1", "late-2"] {
        let info = store.dead_info(TOPIC, id);
        assert_eq!(info["class"], "expired");
        assert!(info["reason"].as_str().unwrap().contains("ttl"), "{info}");
    }
    eventually("the others are settled", || count_settled(&[&daemon], "done") == 2);
    let ran: Vec<(String, i64)> =
        said(&daemon).into_iter().map(|line| (line.id, line.attempt)).collect();
    assert_eq!(ran, [("started".to_owned(), 2)], "only this one has something to say");
    assert!(daemon.terminate().success());
    let line = daemon.wait_for_line("the closing line", |line| line.message() == "done");
    assert_eq!((line.number("expired"), line.number("acked")), (Some(2), Some(2)));
}

#[test]
fn a_jobs_own_ttl_goes_before_the_topics() {
    let ground = ground("ttl = \"30s\"");
    let store = ground.store();
    push_wishes(
        &ground,
        TOPIC,
        &[wish("short", "l", r#"{"ttl_ms":1}"#), wish("for-ever", "l", r#"{"ttl_ms":0}"#)],
    );
    // Both have been due for a minute by now, say.
    let ready = key(TOPIC, "ready");
    for id in ["short", "for-ever"] {
        let due = store.now_ms() - MINUTE_MS;
        let _: u64 = store.ask(cmd("ZADD").arg(&ready).arg("XX").arg("CH").arg(due).arg(id));
    }
    let daemon = ground.start();
    eventually("all are gone", || store.live_count(TOPIC) == 0);
    assert_eq!(store.stage(TOPIC, "dead"), ids(&["short"]));
    eventually("the other ran", || daemon.count(is_said) == 1);
}

#[test]
fn what_a_topic_discards_leaves_no_dead() {
    let policies = "ttl = \"30s\"\n\
        on = { expired = \"discard\", bad_due = \"discard\", nack = \"discard\", bad_options = \"discard\" }";
    let ground = ground(policies);
    let store = ground.store();
    push(&ground, TOPIC, "expired", store.now_ms() - MINUTE_MS);
    push(&ground, TOPIC, "bad-due", 5);
    push_payload(&ground, TOPIC, "nacks", "lN");
    push_payload(&ground, TOPIC, "bad-options", "l");
    ground.redis.cli(&["HSET", &key(TOPIC, "opts"), "bad-options", "{\"no\":1}"]);
    push_payload(&ground, TOPIC, "good", "l");
    let daemon = ground.start();
    eventually("all are gone", || store.live_count(TOPIC) == 0);
    eventually("the good one is done", || {
        daemon.count(|line| settled_as(line, "done") && line.has("job_id", "good")) == 1
    });
    assert_eq!(store.stage(TOPIC, "dead"), BTreeSet::new());
    let left = store.keys(TOPIC);
    assert!(left.iter().all(|key| key == "meta"), "{left:?}");
}

#[test]
fn a_job_that_kills_its_runners_is_discarded_where_the_topic_says_so() {
    let ground = ground("max_crashes = 1\non = { crashed = \"discard\" }\nttr = \"1h\"");
    let long = Handler::says("ran").naps(std::time::Duration::from_secs(3_000));
    ground.write("puppet.wat", long.wat());
    let store = ground.store();
    push(&ground, TOPIC, "killer", 0);
    let mut first = ground.start();
    first.wait_for_line("it runs", is_said);
    first.kill();
    let second = ground.start();
    second.wait_for_line("its end", |line| line.has("settled", "discarded"));
    assert_eq!((store.live_count(TOPIC), store.stage(TOPIC, "dead").len()), (0, 0));
    assert_eq!(second.count(is_said), 0);
}
