//! The HTTP responses of the page, and the parts of the API that only the page uses.

use duebox_harness::eventually;
use serde_json::Value;

use crate::support::client::{address, ask, fixture, get, post};
use crate::support::fixture::{Fixture, topic};
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
    eventually("the attempt is told", || list()["latest"][0]["id"] == "fails");
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
    eventually("the rate is told", || {
        get(at, "/v1/topics/work").json()["attempts_per_s"]
            .as_f64()
            .is_some_and(|rate| rate < 100.0)
    });
    // The daemon reports its own jobs before it publishes them in Redis.
    assert_eq!(get(at, "/v1/topics").json()["topics"][0]["attempts"], 1);
    eventually("a look is kept that saw both", || {
        let samples = get(at, "/v1/samples").json();
        let jobs = samples["topics"]["work"]["jobs"].as_array().cloned().unwrap_or_default();
        jobs.last() == Some(&2.into())
            && samples["at_ms"].as_array().map(Vec::len) >= Some(jobs.len())
    });
}
