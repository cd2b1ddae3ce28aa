//! Inspecting and rescheduling jobs, and pausing their topic.

use serde_json::{Value, json};

use crate::fixture::Fixture;

#[test]
fn only_a_waiting_job_is_rescheduled_or_cancelled() {
    let fixture = Fixture::new();
    fixture.ok(&["push", "slow", "p", "--id", "a"]);
    assert_eq!(fixture.ok(&["run-now", "slow", "a"]), "rescheduled a in slow: now ready\n");
    let later = fixture.ok(&["reschedule", "slow", "a", "--in", "2h", "--json"]);
    let later: Value = serde_json::from_str(&later).unwrap();
    assert_eq!(later, json!({"topic": "slow", "id": "a", "result": "pending"}));
    fixture.ok(&["reschedule", "slow", "a", "--at", "2030-01-01T00:00:00Z"]);
    assert_eq!(
        fixture.redis.cli(&["ZSCORE", "duebox:{slow}:pending", "a"]).trim(),
        "1893456000000"
    );

    let none = fixture.run(&["run-now", "slow", "b", "--json"]);
    assert_eq!((none.code, &none.json()["result"]), (1, &"none".into()));
    assert!(fixture.refused(&["run-now", "slow", "b"]).contains("job b of slow is in no state"));
    assert!(fixture.refused(&["get", "slow", "b"]).contains("no job b is known"));

    fixture.bury(&[("d", 5_000, "trap")]);
    for args in [&["run-now", "slow", "d"][..], &["reschedule", "slow", "d", "--in", "1h"]] {
        let why = fixture.refused(args);
        assert!(why.contains("d of slow is dead; nothing was changed"), "{why}");
        assert!(why.contains("duebox requeue slow d"), "{why}");
    }
    assert!(fixture.refused(&["cancel", "slow", "d"]).contains("is dead"));
    let state = fixture.run(&["run-now", "slow", "d", "--json"]).json();
    assert_eq!((&state["result"], &state["state"]), (&"none".into(), &"dead".into()));

    // A runner has the job.
    fixture.redis.cli(&["ZADD", "duebox:{slow}:unack", "99999999999999999", "r"]);
    fixture.redis.cli(&["HSET", "duebox:{slow}:jobs", "r", "payload"]);
    assert!(fixture.refused(&["run-now", "slow", "r"]).contains("is running: a runner has it"));
    let leased = fixture.ok(&["get", "slow", "r"]);
    assert!(leased.contains("state     running\nlease     an unnamed runner has it"), "{leased}");
}

#[test]
fn done_jobs_are_listed_and_shown_with_their_result() {
    let fixture = Fixture::new();
    let info = r#"{"attempt":2,"wall_ms":1.5,"digest":"ab"}"#;
    fixture.redis.cli(&["ZADD", "duebox:{slow}:done", "1595262401000", "a"]);
    fixture.redis.cli(&["HSET", "duebox:{slow}:done:jobs", "a", "payload"]);
    fixture.redis.cli(&["HSET", "duebox:{slow}:done:info", "a", info]);
    fixture.redis.cli(&["HSET", "duebox:{slow}:done:result", "a", "all \u{1b}[31mwell"]);
    let listed = fixture.run(&["done", "list", "slow", "--json"]).json();
    let job = json!({"id": "a", "done_at_ms": 1_595_262_401_000u64, "attempt": 2, "wall_ms": 1.5});
    assert_eq!(listed, json!({"topic": "slow", "jobs": [job], "next": null}));
    assert!(
        fixture.ok(&["done", "list", "slow"]).contains("a   2020-07-20T16:26:41Z        2   1ms")
    );
    assert_eq!(fixture.ok(&["done", "list", "slow", "--newer-than", "1h"]).lines().count(), 1);
    let shown = fixture.ok(&["get", "slow", "a"]);
    assert!(shown.contains("state     done") && shown.contains("digest: ab"), "{shown}");
    assert!(
        shown.contains("result    all \\u{1b}[31mwell"),
        "control characters are escaped: {shown}"
    );
    let json: Value = serde_json::from_str(&fixture.ok(&["get", "slow", "a", "--json"])).unwrap();
    assert_eq!(json["done"]["result"], "all \u{1b}[31mwell");
}

#[test]
fn a_topic_is_paused_and_resumed_and_stats_show_it() {
    let fixture = Fixture::new();
    assert_eq!(fixture.ok(&["resume", "slow"]), "slow is not paused\n");
    assert_eq!(fixture.ok(&["pause", "slow"]), "paused slow\n");
    assert_eq!(fixture.ok(&["pause", "slow"]), "slow is already paused\n");
    let stats = fixture.run(&["stats", "slow", "--json"]).json();
    let topic = &stats["topics"][0];
    assert_eq!((&topic["paused"], &topic["bound"]), (&true.into(), &true.into()));
    for name in ["blocked", "done", "outbox"] {
        assert_eq!(topic[name], 0, "{name}");
    }
    let text = fixture.ok(&["stats", "slow"]);
    assert!(text.lines().nth(1).is_some_and(|line| line.ends_with("paused")), "{text}");
    assert!(text.contains("\n\nno daemon runs"), "{text}");
    let resumed: Value = serde_json::from_str(&fixture.ok(&["resume", "slow", "--json"])).unwrap();
    assert_eq!(resumed, json!({"topic": "slow", "paused": false, "changed": true}));
    assert_eq!(fixture.redis.cli(&["HEXISTS", "duebox:{slow}:meta", "paused"]).trim(), "0");
}
