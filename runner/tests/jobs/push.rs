//! Pushing with options, and pushing many jobs with a result for each.

use serde_json::{Value, json};

use crate::fixture::{Fixture, run};

#[test]
fn every_option_of_a_push_is_stored_with_the_job() {
    let fixture = Fixture::new();
    fixture.ok(&[
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
    let job: Value = serde_json::from_str(&fixture.ok(&["get", "slow", "a", "--json"])).unwrap();
    assert_eq!(job["options"], expected);
    assert_eq!((&job["priority"], &job["key"]), (&"low".into(), &"user 7".into()));
    let text = fixture.ok(&["get", "slow", "a"]);
    assert!(
        text.starts_with("id        a\ntopic     slow\nstate     pending\ndue       2"),
        "{text}"
    );
    assert!(text.contains("(in 5"), "59 minutes and something: {text}");
}

#[test]
fn different_jobs_are_pushed_with_a_result_each() {
    let fixture = Fixture::new();
    fixture.ok(&["push", "slow", "--id", "taken"]);
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
    std::fs::write(fixture.folder.path().join("jobs.ndjson"), lines.join("\n")).unwrap();
    let output = fixture.run(&["push", "slow", "--jobs", "jobs.ndjson", "--json"]);
    assert_eq!((output.code, output.err.as_str()), (1, ""));
    let results = output.json_lines();
    let words: Vec<&str> =
        results.iter().map(|result| result["result"].as_str().unwrap()).collect();
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
        assert!(results[n]["error"].as_str().unwrap().contains(word), "{}", results[n]);
    }
    assert_eq!((&results[0]["line"], &results[0]["id"]), (&1.into(), &"now".into()));

    let get = |id: &str| -> Value {
        serde_json::from_str(&fixture.ok(&["get", "slow", id, "--json"])).unwrap()
    };
    assert_eq!(
        (&get("now")["state"], &get("now")["payload"]),
        (&"ready".into(), &"{\"order\": 42}".into())
    );
    assert_eq!(get("at")["due_at_ms"], 1_893_456_000_000u64);
    assert_eq!(get("ms")["payload_base64"], "/wA=");
    assert_eq!(get("last")["options"], json!({"key": "k", "headers": {"a": "b"}}));
}

#[test]
fn the_results_of_different_jobs_are_printed_as_text() {
    let fixture = Fixture::new();
    fixture.ok(&["push", "slow", "--id", "now"]);
    let text = run(
        fixture.folder.path(),
        &["push", "slow", "--jobs", "-"],
        b"{\"id\":\"now\"}\n{\"id\":\"x\"}",
    );
    assert_eq!(text.code, 1);
    assert_eq!(text.out, "exists now (line 1): a live job has that id\npushed x\n");
    assert!(text.err.contains("1 of 2 jobs were not pushed"), "{}", text.err);
    let bad = run(fixture.folder.path(), &["push", "slow", "--jobs", "-"], b"nonsense\n");
    assert_eq!((bad.code, bad.out.as_str()), (2, "bad (line 1): a job must be a JSON object\n"));
    let none = run(fixture.folder.path(), &["push", "slow", "--jobs", "-"], b"\n");
    assert_eq!((none.code, none.out.as_str()), (0, ""));
}

#[test]
fn the_results_of_thousands_of_jobs_keep_their_order() {
    let fixture = Fixture::new();
    let lines: String =
        (0..2_500).map(|n| format!("{{\"id\":\"j{n}\",\"in\":\"{n}s\"}}\n")).collect();
    let output =
        run(fixture.folder.path(), &["push", "slow", "--jobs", "-", "--json"], lines.as_bytes());
    assert_eq!(output.code, 0, "{}", output.err);
    for (n, result) in output.json_lines().iter().enumerate() {
        let expected = json!({"line": n + 1, "id": format!("j{n}"), "result": "pushed"});
        assert_eq!(*result, expected);
    }
    assert_eq!(fixture.redis.cli(&["HLEN", "duebox:{slow}:jobs"]).trim(), "2500");
}

#[test]
fn refused_lines_are_named() {
    let fixture = Fixture::new();
    fixture.ok(&["push", "slow", "--id", "run-2"]);
    let push = |args: &[&str]| {
        let args = [&["push", "slow", "-", "--lines", "--id", "run"], args].concat();
        run(fixture.folder.path(), &args, b"a\nb\nc\n")
    };
    let text = push(&[]);
    assert_eq!(text.code, 1);
    assert!(text.out.starts_with("exists run-2 (line 2)\npushed 2 of 3 lines to slow, exists 1"));
    let json = push(&["--json"]).json_lines();
    assert_eq!(json[0], json!({"line": 1, "id": "run-1", "result": "exists"}));
    assert_eq!((json.len(), &json[3]["exists"]), (4, &3.into()));
}

#[test]
fn a_full_topic_and_a_held_id_are_named() {
    let fixture = Fixture::new();
    // The first push to a topic writes the limits of the manifest.
    fixture.ok(&["push", "slow", "--id", "a"]);
    fixture.redis.cli(&["HSET", "duebox:{slow}:meta", "max_pending", "1"]);
    let full = fixture.refused(&["push", "slow", "--id", "b"]);
    assert!(
        full.contains("full: b was not pushed to slow") && full.contains("max_pending"),
        "{full}"
    );
    fixture.redis.cli(&["HDEL", "duebox:{slow}:meta", "max_pending"]);
    fixture.redis.cli(&["ZADD", "duebox:{slow}:unique", "9999999999999", "c"]);
    let held = fixture.refused(&["push", "slow", "--id", "c"]);
    assert!(held.contains("held: c was not pushed") && held.contains("unique_for"), "{held}");
    let shown = fixture.ok(&["get", "slow", "c"]);
    let line = |name: &str| shown.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert_eq!(line("state"), Some("held"), "{shown}");
    assert!(line("held").is_some_and(|until| until.starts_with("until 2286-11-20")), "{shown}");
}
