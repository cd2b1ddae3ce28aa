//! Malformed jobs from plain commands. Each becomes dead with its failure class and delays no other job.

use std::fmt::Write as _;

use duebox_harness::eventually;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{handler_lines, settled_as};
use crate::support::producer::push;
use crate::support::redis_state::key;

const TOPIC: &str = "work";

#[test]
fn malformed_jobs_are_dead_with_their_class() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    fixture.manifest("", &[topic(TOPIC, "work.wat", "sandbox.payload = \"1KiB\"")]);
    let daemon = fixture.start();
    let store = fixture.store();
    let now_ms = store.now_ms();
    let mut expected = Vec::new();
    for (n, due) in [
        (now_ms / 1_000).to_string(),
        (now_ms * 1_000).to_string(),
        "+inf".to_owned(),
        "-1".to_owned(),
        "-inf".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        let id = format!("due-{n}");
        push_raw(&fixture, &id, due, "{}", None);
        expected.push((id, "bad_due", None));
    }
    for (n, (options, word)) in [
        ("{", "EOF"),
        ("[]", "JSON object"),
        (r#"{"speed":9}"#, "speed"),
        (r#"{"ttr_ms":0}"#, "ttr_ms"),
        (r#"{"max_attempts":0}"#, "max_attempts"),
    ]
    .iter()
    .enumerate()
    {
        let id = format!("opts-{n}");
        push_raw(&fixture, &id, "0", "{}", Some(options));
        expected.push((id, "bad_options", Some(*word)));
    }
    push_raw(&fixture, "large", "0", &"x".repeat(1_025), None);
    expected.push(("large".to_owned(), "bad_options", Some("1025 bytes")));
    push_raw(&fixture, "fits", "0", &"x".repeat(1_024), None);
    push(&fixture, TOPIC, "good", 0);

    eventually("the good ones are done", || daemon.count(|line| settled_as(line, "done")) == 2);
    eventually("the bad ones are dead", || store.stage(TOPIC, "dead").len() == expected.len());
    for (id, class, word) in &expected {
        let info = store.dead_info(TOPIC, id);
        assert_eq!(info["class"], *class, "{id}: {info}");
        let reason = info["reason"].as_str().unwrap_or_default();
        assert!(!reason.is_empty() && reason.contains(word.unwrap_or_default()), "{id}: {info}");
    }
    let ran: Vec<String> = handler_lines(&daemon).into_iter().map(|line| line.id).collect();
    assert!(ran.iter().all(|id| id == "good" || id == "fits"), "{ran:?}");
    assert_eq!(store.live_count(TOPIC), 0);
    // A dead job keeps its payload.
    let payloads: usize = store.ask(redis::cmd("HLEN").arg(key(TOPIC, "dead:jobs")));
    assert_eq!(payloads, expected.len());
}

/// A manual push with arbitrary fields.
fn push_raw(fixture: &Fixture, id: &str, due: &str, payload: &str, options: Option<&str>) {
    let mut script = format!("MULTI\nHSET {} {id} '{payload}'\n", key(TOPIC, "jobs"));
    if let Some(options) = options {
        writeln!(script, "HSET {} {id} '{options}'", key(TOPIC, "opts")).unwrap();
    }
    writeln!(script, "ZADD {} {due} {id}\nEXEC", key(TOPIC, "pending")).unwrap();
    fixture.redis.pipe(&script);
}
