//! Pushing with options, and pushing many jobs, each with its own outcome.

use serde_json::{Value, json};

use crate::ground::{Ground, say};

#[test]
fn every_option_of_a_push_is_stored_with_the_job() {
    let ground = Ground::new();
    ground.ok(&[
        "push",
        "slow",
        "--id",
        "a",
        "--ttr",
        "5s",
        "--ttl",
        "1h",
        "--priority",
        "low",
        "--key",
        "user 7",
        "--header",
        "traceparent=00-ab=",
        "--header",
        "x=",
        "--backoff",
        "2m,10m",
        "--max-snoozes",
        "4",
        "--max-crashes",
        "2",
        "--max-attempts",
        "3",
    ]);
    let expected = json!({
        "ttr_ms": 5_000, "max_attempts": 3, "backoff": [120_000, 600_000], "max_snoozes": 4,
        "max_crashes": 2, "ttl_ms": 3_600_000, "priority": "low", "key": "user 7",
        "headers": {"traceparent": "00-ab=", "x": ""},
    });
    let job: Value = serde_json::from_str(&ground.ok(&["get", "slow", "a", "--json"])).unwrap();
    assert_eq!(job["options"], expected);
    assert_eq!((&job["priority"], &job["key"]), (&"low".into(), &"user 7".into()));
    let text = ground.ok(&["get", "slow", "a"]);
    assert!(text.starts_with("id       a\ntopic    slow\nstate    pending\ndue      2"), "{text}");
    assert!(text.contains("(in 5"), "59 minutes and something: {text}");
}

#[test]
fn jobs_that_differ_are_pushed_each_with_an_outcome() {
    let ground = Ground::new();
    ground.ok(&["push", "slow", "--id", "taken"]);
    let lines = [
        r#"{"id":"now","in":"0s","payload":{"order": 42},"options":{"max_attempts":2}}"#,
        r#"{"id":"at","at":"2030-01-01T00:00:00Z","payload":"a text"}"#,
        r#"{"id":"ms","at":1893456000000,"payload_base64":"/wA="}"#,
        r#"{"id":"taken"}"#,
        "",
        r#"{"payload":[1,2]}"#,
        r#"{"id":"twice"}"#,
        r#"{"id":"twice"}"#,
        "{",
        "[1]",
        r#"{"id":"a b"}"#,
        r#"{"id":"past","at":"2020-01-01T00:00:00Z"}"#,
        r#"{"id":"both","at":"2030-01-01T00:00:00Z","in":"1s"}"#,
        r#"{"id":"odd","options":{"speed":1}}"#,
        r#"{"id":"odd","prio":1}"#,
        &format!(r#"{{"id":"long","payload":"{}"}}"#, "x".repeat(1_025)),
        r#"{"id":"last","options":{"key":"k","headers":{"a":"b"}}}"#,
    ];
    std::fs::write(ground.folder.path().join("jobs.ndjson"), lines.join("\n")).unwrap();
    let said = ground.say(&["push", "slow", "--jobs", "jobs.ndjson", "--json"]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    let outcomes = said.json_lines();
    let words: Vec<&str> =
        outcomes.iter().map(|outcome| outcome["result"].as_str().unwrap()).collect();
    let expected =
        "pushed pushed pushed exists pushed pushed exists bad bad bad bad bad bad bad bad pushed";
    assert_eq!(words.join(" "), expected);
    for (n, word) in [
        (7, "EOF"),
        (8, "JSON object"),
        (9, "holds ' '"),
        (10, "is in the past"),
        (11, "keep one"),
        (12, "unknown field `speed`"),
        (13, "unknown field `prio`"),
        (14, "longer than 1.0 KiB"),
    ] {
        assert!(outcomes[n]["error"].as_str().unwrap().contains(word), "{}", outcomes[n]);
    }
    assert_eq!((&outcomes[0]["line"], &outcomes[0]["id"]), (&1.into(), &"now".into()));

    let get = |id: &str| -> Value {
        serde_json::from_str(&ground.ok(&["get", "slow", id, "--json"])).unwrap()
    };
    assert_eq!(
        (&get("now")["state"], &get("now")["payload"]),
        (&"ready".into(), &"{\"order\": 42}".into())
    );
    assert_eq!(get("at")["due_at_ms"], 1_893_456_000_000u64);
    assert_eq!(get("ms")["payload_base64"], "/wA=");
    assert_eq!(get("last")["options"], json!({"key": "k", "headers": {"a": "b"}}));

    let text = say(
        ground.folder.path(),
        &["push", "slow", "--jobs", "-"],
        b"{\"id\":\"now\"}\n{\"id\":\"x\"}",
    );
    assert_eq!(text.code, 1);
    assert_eq!(text.out, "exists now (line 1): a job with that id is alive\npushed x\n");
    assert!(text.err.contains("1 of 2 jobs were not pushed"), "{}", text.err);
    let bad = say(ground.folder.path(), &["push", "slow", "--jobs", "-"], b"nonsense\n");
    assert_eq!((bad.code, bad.out.as_str()), (2, "bad (line 1): a job is a JSON object\n"));
    let none = say(ground.folder.path(), &["push", "slow", "--jobs", "-"], b"\n");
    assert_eq!((none.code, none.out.as_str()), (0, ""));
}

#[test]
fn thousands_of_jobs_that_differ_keep_their_order_of_outcomes() {
    let ground = Ground::new();
    let lines: String =
        (0..2_500).map(|n| format!("{{\"id\":\"j{n}\",\"in\":\"{n}s\"}}\n")).collect();
    let said =
        say(ground.folder.path(), &["push", "slow", "--jobs", "-", "--json"], lines.as_bytes());
    assert_eq!(said.code, 0, "{}", said.err);
    for (n, outcome) in said.json_lines().iter().enumerate() {
        let expected = json!({"line": n + 1, "id": format!("j{n}"), "result": "pushed"});
        assert_eq!(*outcome, expected);
    }
    assert_eq!(ground.redis.cli(&["HLEN", "duebox:{slow}:jobs"]).trim(), "2500");
}

#[test]
fn lines_that_are_refused_are_named() {
    let ground = Ground::new();
    ground.ok(&["push", "slow", "--id", "run-2"]);
    let push = |args: &[&str]| {
        let args = [&["push", "slow", "-", "--lines", "--id", "run"], args].concat();
        say(ground.folder.path(), &args, b"a\nb\nc\n")
    };
    let text = push(&[]);
    assert_eq!(text.code, 1);
    assert!(text.out.starts_with("exists run-2 (line 2)\npushed 2 of 3 lines to slow, exists 1"));
    let json = push(&["--json"]).json_lines();
    assert_eq!(json[0], json!({"line": 1, "id": "run-1", "result": "exists"}));
    assert_eq!((json.len(), &json[3]["exists"]), (4, &3.into()));
}

#[test]
fn a_full_topic_and_a_held_id_refuse_by_name() {
    let ground = Ground::new();
    // The first push to a topic writes the manifest's rules.
    ground.ok(&["push", "slow", "--id", "a"]);
    ground.redis.cli(&["HSET", "duebox:{slow}:meta", "max_pending", "1"]);
    let full = ground.refused(&["push", "slow", "--id", "b"]);
    assert!(
        full.contains("full: b was not pushed to slow") && full.contains("max_pending"),
        "{full}"
    );
    ground.redis.cli(&["HDEL", "duebox:{slow}:meta", "max_pending"]);
    ground.redis.cli(&["ZADD", "duebox:{slow}:unique", "9999999999999", "c"]);
    let held = ground.refused(&["push", "slow", "--id", "c"]);
    assert!(held.contains("held: c was not pushed") && held.contains("unique_for"), "{held}");
    assert!(ground.ok(&["get", "slow", "c"]).contains("state  held\nheld   until 2286-11-20"));
}
