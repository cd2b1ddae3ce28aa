//! What an operator sees of other programs: relatives of a job, pull consumers in charts and daemons, slow calls of
//! Redis.

use duebox_harness::eventually;
use serde_json::{Value, json};

use super::in_browser::{is_sound, keep_all, opened};
use super::views::broken_rules;
use crate::support::client::{address, ask, get, post, token};
use crate::support::fixture::{Fixture, topic, up};
use crate::support::handler::Handler;
use crate::support::puppet::FAN;

/// The sum of a list of numbers.
fn sum(list: &Value) -> u64 {
    list.as_array().into_iter().flatten().filter_map(Value::as_u64).sum()
}

#[test]
fn a_job_links_its_parent_and_its_follow_ups_as_far_as_they_are_known() {
    let fixture = Fixture::new();
    fixture.write("fan.wat", FAN);
    fixture.write("kid.wat", Handler::logs("ran").wat());
    let grant = "done_retention = \"1h\"\n[topics.\"order\".sandbox]\npush = [\"kid.*\"]";
    let topics = [
        topic("order", "fan.wat", grant),
        topic("kid.one", "kid.wat", "done_retention = \"1h\""),
        topic("kid.two", "kid.wat", ""),
    ];
    fixture.manifest("", &topics);
    let daemon = fixture.start();
    let at = address(&daemon);
    assert_eq!(post(at, "/v1/topics/order/jobs", r#"{"id":"p"}"#).status, 201);
    let relatives = |path: &str| -> Vec<String> {
        let job = get(at, &format!("/v1/topics/{path}?relatives=true")).json();
        let word = |one: &Value| {
            format!("{} {}/{} {}", one["role"], one["topic"], one["id"], one["state"])
        };
        job["relatives"].as_array().into_iter().flatten().map(word).collect()
    };
    let kept = r#""follow_up" "kid.one"/"p.1" "done""#.to_owned();
    eventually("a kept child is done", || relatives("order/jobs/p").contains(&kept));
    let gone = r#""follow_up" "kid.two"/"p.3" null"#.to_owned();
    eventually("a child that is not kept is gone", || relatives("order/jobs/p").contains(&gone));
    assert_eq!(relatives("kid.one/jobs/p.1"), [r#""parent" "order"/"p" "done""#]);
    let browser = opened(at, "#/topics/order/jobs/p");
    browser.reads("#follow-ups", "p.1");
    browser.reads("#follow-ups", "no record");
    keep_all(&browser, "relatives");
    let broken = broken_rules(&browser);
    assert!(broken.is_empty(), "{broken:#?}");
    browser.click("#follow-ups a[href='#/topics/kid.one/jobs/p.1']");
    browser.reads("#job-title", "p.1");
    browser.click("#parent a");
    browser.wait("the parent is open", "location.hash === '#/topics/order/jobs/p'");
    is_sound(&browser);
    // The command line names them too.
    let shown = fixture.duebox(&["get", "kid.one", "p.1"]);
    assert!(shown.contains("parent") && shown.contains("order/p"), "{shown}");
}

/// A token that may not read the topic of a relative sees its name, which the job has, and not its state.
#[test]
fn the_state_of_a_relative_needs_the_right_to_read_its_topic() {
    let fixture = Fixture::new();
    let (clerk, table) = token(&fixture, "clerk", "read", "kid.*");
    fixture.write("tokens.toml", table);
    let server =
        "[server]\ntokens = \"tokens.toml\"\n[topics.order]\n[topics.\"kid.one\"]\n".to_owned();
    fixture.manifest("", &[server]);
    let daemon = fixture.start();
    fixture.duebox(&["push", "order", "--id", "p"]);
    fixture.write("kid.ndjson", r#"{"id":"k","options":{"headers":{"duebox-parent":"order/p"}}}"#);
    fixture.duebox(&["push", "kid.one", "--jobs", "kid.ndjson"]);
    let headers = [("authorization", clerk.as_str())];
    let job = ask(address(&daemon), "GET /v1/topics/kid.one/jobs/k?relatives=true", &headers, b"");
    let parent = &job.json()["relatives"][0];
    assert_eq!((&parent["state"], &parent["readable"]), (&Value::Null, &false.into()), "{parent}");
}

#[test]
fn attempts_of_pull_consumers_count_in_charts_failures_and_daemons() {
    let fixture = Fixture::new();
    fixture.manifest("", &["[topics.mail]\nmax_attempts = 1\n".to_owned()]);
    let (one, two) = (fixture.start(), up(&fixture.path("duebox.toml")));
    let [at, other] = [&one, &two].map(address);
    let jobs = r#"[{"id":"1"},{"id":"2"},{"id":"3"}]"#;
    assert_eq!(post(at, "/v1/topics/mail/jobs", jobs).status, 200);
    let pulled = ask(at, "POST /v1/topics/mail/leases?max=3&consumer=billing-1", &[], b"").json();
    let verdicts = [
        ("ack", json!({})),
        ("nack", json!({ "reason": "mailbox 17 is full" })),
        ("nack", json!({ "reason": "mailbox 18 is full" })),
    ];
    for (job, (verb, mut body)) in pulled["jobs"].as_array().unwrap().iter().zip(verdicts) {
        body["token"] = job["token"].clone();
        let path = format!("/v1/topics/mail/jobs/{}/{verb}", job["id"].as_str().unwrap());
        assert_eq!(post(at, &path, &body.to_string()).status, 200);
    }
    for at in [at, other] {
        eventually("all daemons have them in the history", || {
            let history = get(at, "/v1/history?topic=mail").json();
            let reason = &history["failures"][0];
            (sum(&history["acked"]), sum(&history["failed"]), sum(&history["dead"])) == (1, 2, 2)
                && (&reason["attempts"], &reason["class"]) == (&2.into(), &"nack".into())
        });
    }
    let mail = get(other, "/v1/topics/mail").json();
    assert_eq!((&mail["attempts"], &mail["failed"]), (&3.into(), &2.into()), "{mail}");
    assert_eq!(
        (&mail["consumers"][0]["name"], &mail["consumers"][0]["leased"]),
        (&"billing-1".into(), &3.into())
    );
    assert_eq!(mail["recent"]["failed"], 2);
    let browser = opened(other, "#/topics/mail");
    browser.reads("#consumers", "billing-1");
    browser.reads("#causes", "mailbox 18 is full");
    browser.wait(
        "the chart has failures",
        "/failed: /.test(document.querySelector('#plot-throughput svg').ariaLabel)",
    );
    keep_all(&browser, "pulled-topic");
    browser.run("location.hash = '#/daemons'");
    browser.wait(
        "the topics are folded",
        "document.querySelectorAll('#daemons details').length === 2",
    );
    browser.run(
        "document.querySelectorAll('#daemons details').forEach((one) => { one.open = true; })",
    );
    browser.reads("#daemons [data-pulled]", "billing-1");
    keep_all(&browser, "pulled-daemons");
    let broken = broken_rules(&browser);
    assert!(broken.is_empty(), "{broken:#?}");
    is_sound(&browser);
}

#[test]
fn slow_calls_of_redis_are_named_without_their_arguments() {
    let fixture = Fixture::new().with_user();
    fixture.write("work.wat", Handler::logs("ran").wat());
    fixture.manifest("", &[topic("order.close", "work.wat", "")]);
    let daemon = fixture.start();
    let at = address(&daemon);
    fixture.redis.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    assert_eq!(
        post(at, "/v1/topics/order.close/jobs", r#"{"id":"1","payload":"confidential"}"#).status,
        201
    );
    let slow = || get(at, "/v1/redis").json()["slow"].clone();
    let is_push = |call: &Value| {
        call["command"] == "evalsha produce/push"
            && call["key"].as_str().is_some_and(|key| key.contains("order.close"))
    };
    let mut found = Value::Null;
    fixture.redis.cli(&["CONFIG", "SET", "slowlog-max-len", "1000"]);
    eventually("the push is among the slow calls", || {
        // Only the latest 20 are told, and everything is slow: another push is tried.
        post(at, "/v1/topics/order.close/jobs", r#"{"payload":"confidential"}"#);
        found = slow();
        found.as_array().is_some_and(|calls| calls.len() <= 20 && calls.iter().any(is_push))
    });
    assert!(!found.to_string().contains("confidential"), "{found}");
    fixture.redis.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "10000"]);
    let browser = opened(at, "#/redis");
    browser.reads("#redis-slow", "Command");
    browser.run("document.querySelector('#redis-slow').scrollIntoView()");
    keep_all(&browser, "redis-slow");
    let broken = broken_rules(&browser);
    assert!(broken.is_empty(), "{broken:#?}");
    is_sound(&browser);
    drop(browser);
    // A user without the permission is told so, and the rest is shown.
    fixture.redis.cli(&["ACL", "SETUSER", "worker", "-slowlog|get"]);
    let browser = opened(at, "#/redis");
    browser.reads("#redis-slow", "Redis does not tell them");
    browser.reads("#redis-facts", "Memory of data");
    let redis = get(at, "/v1/redis").json();
    assert!(
        redis["slow"].is_null() && redis["slow_refused"].as_str().unwrap().contains("slowlog"),
        "{redis}"
    );
    fixture.redis.cli(&["ACL", "LOG", "RESET"]);
}
