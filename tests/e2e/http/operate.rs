//! Operator requests: topics, pause, modules, dead jobs and schedules.

use duebox_harness::eventually;

use crate::support::client::{address, ask, fixture, get, post};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;

const TOPICS: &str = "[topics.mail]\n[[schedules]]\nname = \"nightly\"\ntopic = \"mail\"\n\
    every = \"1d\"\npayload = \"{}\"\n";

#[test]
fn a_topic_is_shown_and_paused() {
    let (_fixture, _daemon, at) = fixture(TOPICS);
    assert_eq!(post(at, "/v1/topics/mail/jobs", "[{},{\"in\":\"1h\"}]").status, 200);
    let list = get(at, "/v1/topics").json();
    let mail = &list["topics"][0];
    assert_eq!((&mail["topic"], &mail["pending"]), (&"mail".into(), &1.into()), "{list}");
    assert_eq!((&mail["ready"], &mail["pulled"]), (&1.into(), &true.into()), "{list}");
    for changed in [true, false] {
        let paused = ask(at, "POST /v1/topics/mail/pause", &[], b"").json();
        assert_eq!((&paused["paused"], &paused["changed"]), (&true.into(), &changed.into()));
    }
    let leased = ask(at, "POST /v1/topics/mail/leases", &[], b"").json();
    assert_eq!(
        (&leased["paused"], leased["jobs"].as_array().map(Vec::len)),
        (&true.into(), Some(0))
    );
    assert_eq!(ask(at, "POST /v1/topics/mail/resume", &[], b"").json()["changed"], true);
    assert_eq!(get(at, "/v1/topics/mail").json()["paused"], false);
    assert_eq!(get(at, "/v1/topics/nail").problem(), "unknown-topic");
    assert!(get(at, "/v1/topics/nail").json()["remedy"].as_str().unwrap().contains("mail"));
}

#[test]
fn a_waiting_job_is_rescheduled_and_cancelled() {
    let (_fixture, _daemon, at) = fixture(TOPICS);
    assert_eq!(post(at, "/v1/topics/mail/jobs", r#"{"id":"1","in":"1h"}"#).status, 201);
    let path = "/v1/topics/mail/jobs/1";
    let answer = post(at, &format!("{path}/reschedule"), r#"{"in":"2h"}"#).json();
    assert_eq!(answer["result"], "pending");
    assert_eq!(ask(at, &format!("POST {path}/run-now"), &[], b"").json()["result"], "ready");
    let cancel = || ask(at, &format!("DELETE {path}"), &[], b"");
    assert_eq!(cancel().json()["result"], "cancelled");
    assert_eq!(cancel().problem(), "unknown-job");
    assert_eq!(post(at, &format!("{path}/reschedule"), "{}").problem(), "bad-request");
}

#[test]
fn dead_jobs_are_listed_shown_requeued_and_purged() {
    let (_fixture, _daemon, at) = fixture(TOPICS);
    assert_eq!(
        post(at, "/v1/topics/mail/jobs", r#"[{"id":"1"},{"id":"2"},{"id":"3"}]"#).status,
        200
    );
    let jobs = ask(at, "POST /v1/topics/mail/leases", &[], b"").json();
    for job in jobs["jobs"].as_array().unwrap() {
        let path = format!("/v1/topics/mail/jobs/{}/drop", job["id"].as_str().unwrap());
        let body = format!("{{\"token\":{},\"reason\":\"no\"}}", job["token"]);
        assert_eq!(post(at, &path, &body).json()["result"], "dead");
    }
    let list = |query: &str| get(at, &format!("/v1/topics/mail/dead?{query}")).json();
    let first = list("limit=2");
    assert_eq!(first["jobs"].as_array().map(Vec::len), Some(2), "{first}");
    let next = list(&format!("limit=2&after={}", first["next"].as_str().unwrap()));
    assert_eq!(next["jobs"].as_array().map(Vec::len), Some(1), "{next}");
    assert_eq!(list("class=trap")["jobs"].as_array().map(Vec::len), Some(0));
    let dead = "/v1/topics/mail/dead";
    assert_eq!(get(at, &format!("{dead}/1")).json()["dead"]["info"]["reason"], "no");
    assert_eq!(ask(at, &format!("POST {dead}/1/requeue"), &[], b"").json()["requeued"], 1);
    assert_eq!(get(at, &format!("{dead}/1")).problem(), "not-dead");
    assert_eq!(ask(at, &format!("POST {dead}/1/requeue"), &[], b"").problem(), "not-dead");
    assert_eq!(ask(at, &format!("DELETE {dead}/2"), &[], b"").json()["purged"], 1);
    // A filter is required.
    assert_eq!(ask(at, &format!("DELETE {dead}"), &[], b"").problem(), "bad-request");
    let requeue = "POST /v1/topics/mail/requeue?class=drop";
    assert_eq!(ask(at, requeue, &[], b"").json()["requeued"], 1);
    assert_eq!(ask(at, &format!("DELETE {dead}?all=true"), &[], b"").json()["purged"], 0);
}

#[test]
fn schedules_are_listed_and_run() {
    let (_fixture, _daemon, at) = fixture(TOPICS);
    let list = get(at, "/v1/schedules").json();
    assert_eq!(list["schedules"][0]["name"], "nightly", "{list}");
    let run = ask(at, "POST /v1/schedules/nightly/run", &[], b"");
    assert_eq!(run.status, 201, "{run:?}");
    let id = run.json()["id"].as_str().unwrap().to_owned();
    let job = get(at, &format!("/v1/topics/mail/jobs/{id}")).json();
    assert_eq!(job["payload"], "{}", "{job}");
    assert_eq!(ask(at, "POST /v1/schedules/daily/run", &[], b"").problem(), "unknown-schedule");
}

#[test]
fn a_module_is_reloaded_and_rolled_back() {
    let fixture = Fixture::new();
    fixture.write("one.wat", Handler::logs("one").wat());
    fixture.manifest("", &[topic("work", "one.wat", ""), "[topics.mail]\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let served = || get(at, "/v1/topics/work").json();
    eventually("it is told who serves", || served()["runners"] == 1);
    let first = served()["digests"][0].clone();
    let nothing = ask(at, "POST /v1/topics/work/rollback", &[], b"");
    assert_eq!((nothing.problem().as_str(), nothing.status), ("not-followed", 409));
    fixture.write("one.wat", Handler::logs("two").wat());
    let looked = ask(at, "POST /v1/topics/work/reload", &[], b"").json();
    assert_eq!(looked["runners"][0]["result"], "looks", "{looked}");
    eventually("the new one serves", || served()["digests"][0] != first);
    let back = ask(at, "POST /v1/topics/work/rollback", &[], b"").json();
    assert_eq!(
        (&back["runners"][0]["result"], &back["runners"][0]["digest"]),
        (&"rolled_back".into(), &first)
    );
    assert_eq!(ask(at, "POST /v1/topics/mail/rollback", &[], b"").problem(), "not-followed");
}
