//! Pushing jobs over HTTP and reading them back.

use serde_json::Value;

use crate::support::client::{ask, fixture, get, post};

const TOPICS: &str = "[topics.mail]\nmax_pending = 3\nunique_for = \"1h\"\n[topics.plain]\n";
const RAW: &str = "application/octet-stream";
const LINES: [(&str, &str); 1] = [("content-type", "application/x-ndjson")];

#[test]
fn a_pushed_job_is_read_back_unchanged() {
    let (_fixture, _daemon, at) = fixture(TOPICS);
    let body = r#"{"id":"a/1","in":"1h","payload":{"b": 1.50,"a":[]},"options":{"key":"k"}}"#;
    let pushed = post(at, "/v1/topics/plain/jobs", body);
    assert_eq!(pushed.status, 201, "{pushed:?}");
    let place = "/v1/topics/plain/jobs/a%2F1";
    assert_eq!(pushed.header("location"), Some(place));
    let answer = pushed.json();
    assert_eq!((&answer["id"], &answer["result"]), (&"a/1".into(), &"pushed".into()));
    let job = get(at, place).json();
    assert_eq!(job["payload"], r#"{"b": 1.50,"a":[]}"#, "{job}");
    assert_eq!((&job["state"], &job["key"]), (&"pending".into(), &"k".into()), "{job}");
    assert_eq!(get(at, "/v1/topics/plain/jobs/none").problem(), "unknown-job");
    // The same job with a binary payload.
    let headers = [
        ("content-type", RAW),
        ("duebox-id", "raw"),
        ("duebox-in", "1h"),
        ("duebox-header-from", "a"),
    ];
    let pushed = ask(at, "POST /v1/topics/plain/jobs", &headers, b"\xff\x00");
    assert_eq!(pushed.status, 201, "{pushed:?}");
    let job = get(at, "/v1/topics/plain/jobs/raw").json();
    let from = &job["options"]["headers"]["from"];
    assert_eq!((&job["payload_base64"], from), (&"/wA=".into(), &"a".into()));
}

#[test]
fn a_repeated_push_is_idempotent() {
    let (fixture, _daemon, at) = fixture(TOPICS);
    let headers = [("content-type", "application/json"), ("idempotency-key", "key-1")];
    let push = |body: &str| ask(at, "POST /v1/topics/plain/jobs", &headers, body.as_bytes());
    let first = push("{}");
    assert_eq!((first.status, &first.json()["existing"]), (201, &false.into()), "{first:?}");
    let again = push("{}");
    assert_eq!((again.status, &again.json()["existing"]), (200, &true.into()), "{again:?}");
    assert_eq!((&again.json()["id"], &first.json()["id"]), (&"key-1".into(), &"key-1".into()));
    // Several jobs share the key, each with a number.
    for existing in [0, 2] {
        let answer = push("[{}, {}]").json();
        assert_eq!(answer["existing"], existing, "{answer}");
        assert_eq!(answer["jobs"][1]["id"], "key-1-2", "{answer}");
    }
    assert_eq!(fixture.store().live_count("plain"), 3);
    // Without a key a live id is refused, unless `if_exists` says otherwise.
    let id = r#"{"id":"key-1","payload":"new"}"#;
    assert_eq!(post(at, "/v1/topics/plain/jobs", id).problem(), "exists");
    let replaced = post(at, "/v1/topics/plain/jobs?if_exists=replace", id);
    assert_eq!((replaced.status, &replaced.json()["result"]), (201, &"replaced".into()));
}

#[test]
fn an_array_is_pushed_whole_or_not_at_all() {
    let (fixture, _daemon, at) = fixture(TOPICS);
    let before = fixture.store().dump();
    let refused = post(at, "/v1/topics/plain/jobs", r#"[{"id":"a"},{"id":"b","in":"soon"}]"#);
    assert_eq!((refused.problem().as_str(), refused.status), ("bad-request", 400));
    assert_eq!(refused.json()["field"], "[1].in");
    assert_eq!(fixture.store().dump(), before);
    let jobs: Vec<String> = (0..2_500).map(|n| format!("{{\"id\":\"{n}\"}}")).collect();
    let answer = post(at, "/v1/topics/plain/jobs", &format!("[{}]", jobs.join(","))).json();
    assert_eq!((&answer["pushed"], &answer["refused"]), (&2_500.into(), &0.into()));
    assert_eq!(answer["jobs"].as_array().map(Vec::len), Some(2_500));
    assert_eq!(fixture.store().live_count("plain"), 2_500);
    // The response reports each refused job.
    let answer = post(at, "/v1/topics/mail/jobs", "[{},{},{},{}]").json();
    assert_eq!((&answer["pushed"], &answer["refused"]), (&3.into(), &1.into()), "{answer}");
    assert_eq!(answer["jobs"][3]["result"], "full");
    assert_eq!(post(at, "/v1/topics/mail/jobs", "{}").problem(), "full");
}

#[test]
fn a_stream_is_answered_line_by_line() {
    let (fixture, _daemon, at) = fixture(TOPICS);
    let body = "{\"id\":\"a\"}\n\nno job\n{\"id\":\"a\"}\n{\"id\":\"b\",\"payload\":[1]}";
    let answer = ask(at, "POST /v1/topics/plain/jobs", &LINES, body.as_bytes());
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")));
    let lines: Vec<Value> =
        answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let printed: Vec<_> = lines.iter().map(|line| line["result"].as_str().unwrap()).collect();
    assert_eq!(printed, ["pushed", "bad", "exists", "pushed"], "{lines:?}");
    assert_eq!(lines[3]["line"], 4);
    assert_eq!(fixture.store().live_count("plain"), 2);
    // A long stream in many chunks.
    let many: String = (0..30_000).map(|n| format!("{{\"id\":\"n-{n}\"}}\n")).collect();
    let answer = ask(at, "POST /v1/topics/plain/jobs", &LINES, many.as_bytes());
    assert_eq!(answer.text().lines().count(), 30_000);
    assert_eq!(fixture.store().live_count("plain"), 30_002);
}
