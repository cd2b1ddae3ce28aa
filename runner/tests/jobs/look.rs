//! Looking at jobs, moving them, and pausing their topic.

use serde_json::{Value, json};

use crate::ground::Ground;

#[test]
fn a_job_is_moved_cancelled_and_told_apart_from_one_that_does_not_wait() {
    let ground = Ground::new();
    ground.ok(&["push", "slow", "p", "--id", "a"]);
    assert_eq!(ground.ok(&["run-now", "slow", "a"]), "rescheduled a in slow: it is ready now\n");
    let later = ground.ok(&["reschedule", "slow", "a", "--in", "2h", "--json"]);
    let later: Value = serde_json::from_str(&later).unwrap();
    assert_eq!(later, json!({"topic": "slow", "id": "a", "result": "pending"}));
    ground.ok(&["reschedule", "slow", "a", "--at", "2030-01-01T00:00:00Z"]);
    assert_eq!(ground.redis.cli(&["ZSCORE", "duebox:{slow}:pending", "a"]).trim(), "1893456000000");

    let none = ground.say(&["run-now", "slow", "b", "--json"]);
    assert_eq!((none.code, &none.json()["result"]), (1, &"none".into()));
    assert!(ground.refused(&["run-now", "slow", "b"]).contains("no job b waits or runs"));
    assert!(ground.refused(&["get", "slow", "b"]).contains("nothing is known"));

    ground.bury(&[("d", 5_000, "trap")]);
    for args in [&["run-now", "slow", "d"][..], &["reschedule", "slow", "d", "--in", "1h"]] {
        let why = ground.refused(args);
        assert!(why.contains("d of slow is dead; nothing has changed"), "{why}");
        assert!(why.contains("duebox requeue slow d"), "{why}");
    }
    assert!(ground.refused(&["cancel", "slow", "d"]).contains("is dead"));
    let state = ground.say(&["run-now", "slow", "d", "--json"]).json();
    assert_eq!((&state["result"], &state["state"]), (&"none".into(), &"dead".into()));

    // A runner has it.
    ground.redis.cli(&["ZADD", "duebox:{slow}:unack", "99999999999999999", "r"]);
    ground.redis.cli(&["HSET", "duebox:{slow}:jobs", "r", "payload"]);
    assert!(ground.refused(&["run-now", "slow", "r"]).contains("runs right now"));
    let leased = ground.ok(&["get", "slow", "r"]);
    assert!(leased.contains("state    unack\nlease    a runner without a name has it"), "{leased}");
}

#[test]
fn done_jobs_are_listed_and_shown_with_their_result() {
    let ground = Ground::new();
    let info = r#"{"attempt":2,"wall_ms":1.5,"digest":"ab"}"#;
    ground.redis.cli(&["ZADD", "duebox:{slow}:done", "1595262401000", "a"]);
    ground.redis.cli(&["HSET", "duebox:{slow}:done:jobs", "a", "payload"]);
    ground.redis.cli(&["HSET", "duebox:{slow}:done:info", "a", info]);
    ground.redis.cli(&["HSET", "duebox:{slow}:done:result", "a", "all \u{1b}[31mwell"]);
    let listed = ground.say(&["done", "list", "slow", "--json"]).json();
    let job = json!({"id": "a", "done_at_ms": 1_595_262_401_000u64, "attempt": 2, "wall_ms": 1.5});
    assert_eq!(listed, json!({"topic": "slow", "jobs": [job], "next": null}));
    assert!(
        ground.ok(&["done", "list", "slow"]).contains("a   2020-07-20T16:26:41Z        2   1ms")
    );
    assert_eq!(ground.ok(&["done", "list", "slow", "--newer-than", "1h"]).lines().count(), 1);
    let shown = ground.ok(&["get", "slow", "a"]);
    assert!(shown.contains("state    done") && shown.contains("digest: ab"), "{shown}");
    assert!(
        shown.contains("result   all \\u{1b}[31mwell"),
        "it cannot steer the terminal: {shown}"
    );
    let json: Value = serde_json::from_str(&ground.ok(&["get", "slow", "a", "--json"])).unwrap();
    assert_eq!(json["done"]["result"], "all \u{1b}[31mwell");
}

#[test]
fn a_topic_is_paused_and_resumed_and_stats_show_it() {
    let ground = Ground::new();
    assert_eq!(ground.ok(&["resume", "slow"]), "slow is not paused\n");
    assert_eq!(ground.ok(&["pause", "slow"]), "paused slow\n");
    assert_eq!(ground.ok(&["pause", "slow"]), "slow is paused already\n");
    let stats = ground.say(&["stats", "slow", "--json"]).json();
    let topic = &stats["topics"][0];
    assert_eq!((&topic["paused"], &topic["bound"]), (&true.into(), &true.into()));
    for name in ["blocked", "done", "outbox"] {
        assert_eq!(topic[name], 0, "{name}");
    }
    let text = ground.ok(&["stats", "slow"]);
    assert!(text.lines().nth(1).is_some_and(|line| line.ends_with("paused")), "{text}");
    assert!(text.contains("\n\nno daemon runs"), "{text}");
    let resumed: Value = serde_json::from_str(&ground.ok(&["resume", "slow", "--json"])).unwrap();
    assert_eq!(resumed, json!({"topic": "slow", "paused": false, "changed": true}));
    assert_eq!(ground.redis.cli(&["HEXISTS", "duebox:{slow}:meta", "paused"]).trim(), "0");
}
