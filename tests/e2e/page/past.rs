//! The past that a daemon does not know itself: what others recorded before it started, and the earlier attempts of a
//! job with their logs.

use duebox_harness::eventually;
use redis::cmd;
use serde_json::{Value, json};

use super::in_browser::{is_sound, keep_all, opened};
use super::views::broken_rules;
use crate::support::client::{address, get, post};
use crate::support::fixture::{Fixture, topic, up};
use crate::support::handler::Handler;
use crate::support::log::is_verdict;

/// The acked attempts of a topic in the history of a daemon.
fn acked(at: std::net::SocketAddr) -> u64 {
    let history = get(at, "/v1/history?topic=work&span=1h").json();
    history["acked"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum()
}

#[test]
fn a_daemon_that_starts_shows_what_all_others_recorded_before() {
    let fixture = Fixture::new().with_user();
    fixture.write("work.wat", Handler::logs("ran").wat());
    fixture.manifest("", &[topic("work", "work.wat", "concurrency = 1")]);
    let mut one = fixture.start();
    let two = up(&fixture.path("duebox.toml"));
    let push = |at, name: &str, jobs: usize| {
        let jobs: Vec<Value> = (0..jobs).map(|n| json!({ "id": format!("{name}-{n}") })).collect();
        let answer = post(at, "/v1/topics/work/jobs", &json!(jobs).to_string());
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    // A daemon that has run nothing publishes its history only every five minutes.
    let mut pushed = 0;
    eventually("both have run jobs", || {
        push(address(&two), &format!("first-{pushed}"), 20);
        pushed += 20;
        [&one, &two].into_iter().all(|daemon| daemon.count(is_verdict) > 0)
    });
    let first = pushed as u64;
    eventually("both know the attempts of both", || {
        [&one, &two].into_iter().all(|daemon| acked(address(daemon)) == first)
    });
    // What daemon two did is in Redis before the other one starts again.
    let histories = || -> Vec<String> {
        fixture.store().ask(cmd("ZRANGE").arg("duebox:histories").arg(0).arg(-1))
    };
    eventually("both have published", || histories().len() == 2);
    assert!(one.terminate().success());
    let began = fixture.store().now_ms();
    let again = fixture.start();
    let at = address(&again);
    eventually("it knows the time before it started", || acked(at) == first);
    let history = get(at, "/v1/history").json();
    assert!(history["since_ms"].as_u64() < Some(began), "{history}");
    // What happens from now on counts once.
    push(at, "second", 20);
    eventually("the new attempts are added", || acked(at) == first + 20);
    eventually("and the other daemon has them", || acked(address(&two)) == first + 20);
    assert_eq!(acked(at), first + 20);
    let browser = opened(at, "#/topics/work");
    browser.wait(
        "the chart has them",
        "/acked: now/.test(document.querySelector('#plot-throughput svg').ariaLabel)",
    );
    keep_all(&browser, "after-restart");
    is_sound(&browser);
    drop(browser);
    for field in ["counted", "s"] {
        let name = &histories()[0];
        let fields: Vec<String> =
            fixture.store().ask(cmd("HKEYS").arg(format!("duebox:history:{name}")));
        assert!(fields.iter().any(|name| name.starts_with(field)), "{fields:?}");
    }
}

#[test]
fn the_timeline_has_each_failed_attempt_with_its_log() {
    let fixture = Fixture::new();
    fixture.write("bad.wat", Handler::logs("attempt of").echoes().nacks().wat());
    let keys = "max_attempts = 3\nbackoff = [\"10ms\"]";
    fixture.manifest("", &[topic("work", "bad.wat", keys)]);
    let daemon = fixture.start();
    let at = address(&daemon);
    assert_eq!(post(at, "/v1/topics/work/jobs", r#"{"id":"ill","payload":"order 7"}"#).status, 201);
    let job = || get(at, "/v1/topics/work/jobs/ill").json();
    eventually("it is dead", || job()["state"] == "dead");
    let job = job();
    let ends: Vec<(u64, &str, String)> = job["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|moment| ["retried", "dead"].contains(&moment["event"].as_str().unwrap()))
        .map(|end| {
            let lines = end["log"].as_array().into_iter().flatten();
            let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
            (end["attempt"].as_u64().unwrap(), end["event"].as_str().unwrap(), lines.join("|"))
        })
        .collect();
    assert_eq!(ends.len(), 3, "{job}");
    for (at, (attempt, event, log)) in ends.iter().enumerate() {
        assert_eq!(*attempt, at as u64 + 1);
        assert_eq!(*event, if at == 2 { "dead" } else { "retried" });
        assert!(log.contains("attempt of") && log.contains("order 7"), "{log}");
    }
    let browser = opened(at, "#/topics/work/jobs/ill");
    browser.reads("#timeline", "Attempt 3: nack");
    browser.wait("each has its log", "document.querySelectorAll('.attempt-log').length === 3");
    browser.click("[data-attempt='2'] summary");
    browser.reads("[data-attempt='2'] pre", "order 7");
    browser.wait("it is open", "document.querySelector('[data-attempt=\"2\"]').open");
    keep_all(&browser, "attempt-logs");
    let broken = broken_rules(&browser);
    assert!(broken.is_empty(), "{broken:#?}");
    is_sound(&browser);
}
