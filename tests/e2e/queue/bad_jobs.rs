//! Jobs that plain commands pushed as nobody should: each goes to dead with its class, and holds up
//! none of the others.

use std::fmt::Write as _;

use duebox_harness::eventually;

use crate::support::fixture::{Ground, topic};
use crate::support::handler::Handler;
use crate::support::log::{said, settled_as};
use crate::support::producer::push;
use crate::support::redis_state::key;

const TOPIC: &str = "work";

#[test]
fn bad_dues_options_and_payloads_end_dead_with_their_class() {
    let ground = Ground::new();
    ground.write("work.wat", Handler::says("ran").wat());
    ground.manifest("", &[topic(TOPIC, "work.wat", "sandbox.payload = \"1KiB\"")]);
    let daemon = ground.start();
    let store = ground.store();
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
        push_raw(&ground, &id, due, "{}", None);
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
        push_raw(&ground, &id, "0", "{}", Some(options));
        expected.push((id, "bad_options", Some(*word)));
    }
    push_raw(&ground, "large", "0", &"x".repeat(1_025), None);
    expected.push(("large".to_owned(), "bad_options", Some("1025 bytes")));
    push_raw(&ground, "fits", "0", &"x".repeat(1_024), None);
    push(&ground, TOPIC, "good", 0);

    eventually("the good ones are done", || daemon.count(|line| settled_as(line, "done")) == 2);
    eventually("the bad ones are dead", || store.stage(TOPIC, "dead").len() == expected.len());
    for (id, class, word) in &expected {
        let info = store.dead_info(TOPIC, id);
        assert_eq!(info["class"], *class, "{id}: {info}");
        let reason = info["reason"].as_str().unwrap_or_default();
        assert!(!reason.is_empty() && reason.contains(word.unwrap_or_default()), "{id}: {info}");
    }
    let ran: Vec<String> = said(&daemon).into_iter().map(|line| line.id).collect();
    assert!(ran.iter().all(|id| id == "good" || id == "fits"), "{ran:?}");
    assert_eq!(store.live_count(TOPIC), 0);
    // What is kept of a dead job is whole: its payload with it.
    let payloads: usize = store.ask(redis::cmd("HLEN").arg(key(TOPIC, "dead:jobs")));
    assert_eq!(payloads, expected.len());
}

/// A push by hand, with whatever one may think of.
fn push_raw(ground: &Ground, id: &str, due: &str, payload: &str, options: Option<&str>) {
    let mut script = format!("MULTI\nHSET {} {id} '{payload}'\n", key(TOPIC, "jobs"));
    if let Some(options) = options {
        writeln!(script, "HSET {} {id} '{options}'", key(TOPIC, "opts")).unwrap();
    }
    writeln!(script, "ZADD {} {due} {id}\nEXEC", key(TOPIC, "pending")).unwrap();
    ground.redis.pipe(&script);
}
