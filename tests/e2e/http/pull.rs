//! Pull consumers over HTTP: waiting leases, verdicts with lease tokens, and jobs of consumers that disconnect.

use std::net::SocketAddr;

use duebox_harness::eventually;
use serde_json::{Value, json};

use crate::support::client::{Connection, ask, fixture, get, post, request};

const TOPICS: &str = "[topics.mail]\nmax_attempts = 2\nbackoff = \"1h\"\ndone_retention = \"1h\"\n";

fn pull(at: SocketAddr, query: &str) -> Vec<Value> {
    let answer = ask(at, &format!("POST /v1/topics/mail/leases?{query}"), &[], b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()["jobs"].as_array().unwrap().clone()
}

/// Sends a verdict with its token and returns the status and the response.
fn say(at: SocketAddr, job: &Value, verb: &str, more: Value) -> (u16, Value) {
    let mut body = json!({"token": job["token"]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let path = format!("/v1/topics/mail/jobs/{}/{verb}", job["id"].as_str().unwrap());
    let answer = post(at, &path, &body.to_string());
    (answer.status, answer.json())
}

#[test]
fn jobs_are_pulled_and_settled_by_their_tokens() {
    let (_fixture, _daemon, at) = fixture(TOPICS);
    let jobs = r#"[{"id":"1","payload":"p"},{"id":"2"},{"id":"3"},{"id":"4"}]"#;
    assert_eq!(post(at, "/v1/topics/mail/jobs", jobs).status, 200);
    let jobs = pull(at, "max=4&lease=5m&consumer=me");
    assert_eq!((jobs.len(), &jobs[0]["payload"]), (4, &"p".into()), "{jobs:?}");
    let state = |id: &str| get(at, &format!("/v1/topics/mail/jobs/{id}")).json();
    assert_eq!(state("1")["lease"]["holder"], "me");
    assert_eq!(say(at, &jobs[0], "ack", json!({"result": "ok"})).1["result"], "done");
    assert_eq!(state("1")["done"]["result"], "ok");
    assert_eq!(say(at, &jobs[1], "nack", json!({"reason": "later"})).1["result"], "retry");
    assert_eq!(say(at, &jobs[2], "drop", json!({"reason": "never"})).1["result"], "dead");
    assert_eq!(state("3")["dead"]["info"]["reason"], "never");
    assert_eq!(say(at, &jobs[3], "release", json!({})).1["result"], "released");
    assert_eq!(state("4")["failures"], 0);
    assert_eq!(pull(at, "min_age=1h").len(), 0);
}

#[test]
fn a_stale_token_changes_nothing_and_gets_the_current_holder() {
    let (fixture, _daemon, at) = fixture(TOPICS);
    assert_eq!(post(at, "/v1/topics/mail/jobs", r#"{"id":"1"}"#).status, 201);
    let job = &pull(at, "consumer=me&lease=5m")[0];
    let (status, extended) = say(at, job, "extend", json!({"by": "5m", "consumer": "you"}));
    assert_eq!(status, 200, "{extended}");
    let before = fixture.store().dump();
    for verb in ["ack", "nack", "drop", "release"] {
        let (status, lost) = say(at, job, verb, json!({}));
        assert_eq!((status, &lost["type"]), (409, &"/problems/lost".into()), "{lost}");
        assert_eq!((&lost["lease"]["holder"], &lost["state"]), (&"you".into(), &"unack".into()));
    }
    assert_eq!(fixture.store().dump(), before);
    let now = json!({"id": "1", "token": extended["token"]});
    assert_eq!(say(at, &now, "ack", json!({})).1["result"], "done");
    let (status, lost) = say(at, &now, "ack", json!({}));
    assert_eq!((status, &lost["state"]), (409, &"done".into()), "{lost}");
}

#[test]
fn a_waiting_lease_gets_a_job_when_it_falls_due() {
    let (fixture, _daemon, at) = fixture(TOPICS);
    let wait = request("POST /v1/topics/mail/leases?wait=60s&max=1", &[], b"");
    let mut waiting: Vec<Connection> = (0..3).map(|_| Connection::open(at)).collect();
    waiting.iter_mut().for_each(|connection| connection.send(&wait));
    // The waiting clients share one subscription.
    let listeners = fixture.redis.cli(&["PUBSUB", "NUMSUB", "duebox:{mail}:wake"]);
    assert_eq!(listeners.lines().nth(1), Some("0"));
    let jobs = r#"[{"id":"1"},{"id":"2","in":"300ms"},{"id":"3","in":"600ms"}]"#;
    assert_eq!(post(at, "/v1/topics/mail/jobs", jobs).status, 200);
    let mut ids: Vec<String> = Vec::new();
    for connection in &mut waiting {
        let answer = connection.answer().json();
        assert_eq!(answer["jobs"].as_array().map(Vec::len), Some(1), "{answer}");
        ids.push(answer["jobs"][0]["id"].as_str().unwrap().to_owned());
    }
    ids.sort();
    assert_eq!(ids, ["1", "2", "3"]);
}

#[test]
fn a_lease_for_a_disconnected_client_is_released() {
    let (fixture, _daemon, at) = fixture(TOPICS);
    let wait = request("POST /v1/topics/mail/leases?wait=60s&lease=1h", &[], b"");
    for _ in 0..5 {
        let mut gone = Connection::open(at);
        gone.send(&wait);
        drop(gone);
    }
    for id in 0..5 {
        assert_eq!(post(at, "/v1/topics/mail/jobs", &format!("{{\"id\":\"{id}\"}}")).status, 201);
    }
    let mut ids = Vec::new();
    eventually("every job comes, and none as a second attempt", || {
        for job in pull(at, "lease=1h") {
            assert_eq!(job["attempt"], 1, "{job}");
            ids.push(job["id"].as_str().unwrap().to_owned());
        }
        ids.len() == 5
    });
    assert!(fixture.store().attempts("mail").is_empty());
}
