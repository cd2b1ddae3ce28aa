//! The HTTP responses of the page, and the parts of the API that only the page uses.

use duebox_harness::eventually;
use serde_json::Value;

use crate::support::client::{address, ask, fixture, get, post, token};
use crate::support::fixture::{Fixture, topic, up};
use crate::support::handler::Handler;

#[test]
fn the_page_is_served_with_a_strict_policy() {
    let (_fixture, _daemon, at) = fixture("[topics.mail]\n");
    let page = get(at, "/");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for path in page.text().split('"').filter(|text| text.starts_with("/page/")) {
        let file = get(at, path);
        assert_eq!(file.status, 200, "{path}");
        let policy = file.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.split("; ").any(|found| found == part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(file.header("referrer-policy"), Some("same-origin"));
        let known = [("if-none-match", file.header("etag").unwrap())];
        assert_eq!(ask(at, &format!("GET {path}"), &known, b"").status, 304, "{path}");
    }
    assert_eq!(get(at, "/page/none.js").problem(), "unknown-path");
    let popped = post(at, "/", r#"{"command":"pop","topic":"mail"}"#).json();
    assert_eq!(popped["success"], false, "{popped}");
    // Without tokens there are no sessions.
    let session = get(at, "/session").json();
    assert_eq!(
        (&session["login"], &session["scopes"]),
        (&false.into(), &serde_json::json!(["admin"]))
    );
    let opened = post(at, "/session", r#"{"token":"any"}"#);
    assert_eq!((opened.status, opened.header("set-cookie")), (200, None));
}

#[test]
fn the_api_lists_recent_jobs_and_topic_history() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("no").nacks().wat());
    let keys = "max_attempts = 2\nbackoff = [\"1h\"]";
    fixture.manifest("", &[topic("work", "work.wat", keys)]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let jobs = r#"[{"id":"fails"},{"id":"later","in":"1h"}]"#;
    assert_eq!(post(at, "/v1/topics/work/jobs", jobs).status, 200);
    let list = || get(at, "/v1/topics/work/jobs").json();
    eventually("the attempt is reported", || list()["latest"][0]["id"] == "fails");
    let reported = list();
    let attempt = &reported["latest"][0];
    assert_eq!(
        (&attempt["settled"], &attempt["class"]),
        (&"retry".into(), &"nack".into()),
        "{reported}"
    );
    assert_eq!(
        (&attempt["attempt"], attempt["digest"].as_str().map(str::len)),
        (&1.into(), Some(64))
    );
    let of = |state: &str| -> Vec<Value> {
        let jobs = reported["jobs"].as_array().unwrap().iter();
        jobs.filter(|job| job["state"] == state).map(|job| job["id"].clone()).collect()
    };
    assert_eq!((of("retry"), of("pending")), (vec!["fails".into()], vec!["later".into()]));
    assert_eq!(get(at, "/v1/topics/work/jobs?limit=0").problem(), "bad-request");
    assert_eq!(get(at, "/v1/topics/none/jobs").problem(), "unknown-topic");
    eventually("the rate is reported", || {
        get(at, "/v1/topics/work").json()["attempts_per_s"]
            .as_f64()
            .is_some_and(|rate| rate < 100.0)
    });
    // The daemon reports its own jobs before it publishes them in Redis.
    assert_eq!(get(at, "/v1/topics").json()["topics"][0]["attempts"], 1);
    eventually("the history has both", || {
        let history = get(at, "/v1/history?topic=work&span=10m").json();
        sum(&history["classes"]["nack"]) == 1 && highest(&history["waiting"]) == 2
    });
    let history = get(at, "/v1/history").json();
    let cause = &history["failures"][0];
    assert_eq!(
        (&cause["topic"], &cause["class"], &cause["job"], &cause["attempts"]),
        (&"work".into(), &"nack".into(), &"fails".into(), &1.into()),
        "{history}"
    );
    assert_eq!(cause["digest"], attempt["digest"]);
    assert_eq!((sum(&history["failed"]), sum(&history["acked"])), (1, 0));
    assert!(highest(&history["ran"]["p99_ms"]) < 60_000 && history["late"]["p50_ms"].is_array());
    assert_eq!(history["failed"].as_array().unwrap().len(), 120);
    for (query, problem) in [
        ("?span=49h", "bad-request"),
        ("?steps=0", "bad-request"),
        ("?topic=none", "unknown-topic"),
        ("?topic=a%20b", "bad-request"),
    ] {
        assert_eq!(get(at, &format!("/v1/history{query}")).problem(), problem, "{query}");
    }
}

/// The sum of a list of numbers, of which some may be null.
fn sum(list: &Value) -> u64 {
    list.as_array().into_iter().flatten().filter_map(Value::as_u64).sum()
}

/// The largest of a list of numbers, rounded up.
fn highest(list: &Value) -> u64 {
    let numbers = list.as_array().into_iter().flatten().filter_map(Value::as_f64);
    numbers.fold(0.0, f64::max).ceil() as u64
}

/// Each daemon has what the other ones did since it started, and says what it ran itself.
#[test]
fn the_history_and_the_daemons_are_those_of_all_daemons() {
    let fixture = Fixture::new();
    fixture.write("bad.wat", Handler::logs("no").nacks().wat());
    fixture.write("good.wat", Handler::logs("yes").wat());
    fixture.manifest("", &[topic("bad", "bad.wat", "max_attempts = 1")]);
    let other = fixture.manifest_named("other.toml", "", &[topic("good", "good.wat", "")]);
    let (one, two) = (fixture.start(), up(&other));
    let at = [&one, &two].map(address);
    for (at, topic) in at.into_iter().zip(["bad", "good"]) {
        let path = format!("/v1/topics/{topic}/jobs");
        assert_eq!(post(at, &path, r#"[{"id":"1"},{"id":"2"}]"#).status, 200);
    }
    for at in at {
        eventually("the history has all four attempts", || {
            let history = get(at, "/v1/history?topics=true").json();
            let topics = history["topics"]["topics"].as_object().map(serde_json::Map::len);
            (sum(&history["failed"]), sum(&history["acked"]), topics) == (2, 2, Some(2))
        });
        let history = get(at, "/v1/history?topic=bad").json();
        assert_eq!((sum(&history["dead"]), sum(&history["acked"])), (2, 0), "{history}");
        eventually("the cause is known", || {
            get(at, "/v1/history").json()["failures"][0]["attempts"] == 2
        });
        let runners = get(at, "/v1/runners").json();
        let runners = runners["runners"].as_array().unwrap();
        assert_eq!((runners.len(), runners.iter().filter(|r| r["this"] == true).count()), (2, 1));
        assert!(runners.iter().all(|runner| runner["process"]["slots"].as_u64() > Some(0)));
        let redis = get(at, "/v1/redis").json();
        assert!(redis["memory_bytes"].as_u64() > Some(0) && redis["disk_ok"] == true, "{redis}");
    }
}

/// A token sees the history of its topics, and only with the scope read why jobs failed.
#[test]
fn a_token_sees_the_history_of_its_topics_only() {
    let fixture = Fixture::new();
    let (shop, shop_table) = token(&fixture, "shop", "push", "mail");
    let (clerk, clerk_table) = token(&fixture, "clerk", "read", "fax");
    fixture.write("tokens.toml", format!("{shop_table}\n{clerk_table}\n"));
    fixture.write("no.wat", Handler::logs("no").nacks().wat());
    let server = "[server]\ntokens = \"tokens.toml\"\n".to_owned();
    let once = "max_attempts = 1";
    fixture.manifest("", &[server, topic("mail", "no.wat", once), topic("fax", "no.wat", once)]);
    let daemon = fixture.start();
    let at = address(&daemon);
    for name in ["mail", "fax"] {
        fixture.duebox(&["push", name, "{}"]);
    }
    let read =
        |token: &str, path: &str| ask(at, &format!("GET {path}"), &[("authorization", token)], b"");
    eventually("its failure is recorded", || {
        let history = read(&clerk, "/v1/history").json();
        sum(&history["failed"]) == 1 && history["failures"][0]["topic"] == "fax"
    });
    eventually("the shop sees one too", || {
        let history = read(&shop, "/v1/history?topics=true").json();
        let topics = history["topics"]["topics"].as_object().cloned().unwrap_or_default();
        sum(&history["failed"]) == 1
            && topics.keys().eq(["mail"])
            && history["failures"] == serde_json::json!([])
    });
    assert_eq!(read(&shop, "/v1/history?topic=fax").problem(), "forbidden");
    assert_eq!(read(&clerk, "/v1/runners").problem(), "forbidden");
    assert_eq!(read(&clerk, "/v1/redis").problem(), "forbidden");
}
