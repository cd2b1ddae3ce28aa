//! Malformed requests get the documented response and do not change the queue.

use crate::support::client::{Connection, ask, fixture, get, post, request};

const TOPICS: &str = "[server]\nmax_body = \"64KiB\"\n[topics.mail]\n";
const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn oversized_and_malformed_http_is_refused() {
    let (_fixture, _daemon, at) = fixture("[topics.mail]\n");
    let push = |accept: &str| {
        let headers = [("content-type", "application/json"), ("accept", accept)];
        ask(at, "POST /v1/topics/mail/jobs", &headers, b"{}")
    };
    let refused = push("text/html");
    assert_eq!((refused.problem().as_str(), refused.status), ("not-acceptable", 406));
    assert_eq!(refused.json()["field"], "Accept");
    assert_eq!(push("application/json;q=0, text/html").status, 406);
    let depth = get(at, "/v1/topics/mail").json();
    assert_eq!((&depth["ready"], &depth["pending"]), (&0.into(), &0.into()), "{depth}");
    for accept in ["application/json", "text/html, */*;q=0.1", "application/*"] {
        assert_eq!(push(accept).status, 201, "{accept}");
    }
}

#[test]
fn invalid_requests_are_refused_and_change_nothing() {
    let (fixture, _daemon, at) = fixture(TOPICS);
    let jobs = "/v1/topics/mail/jobs";
    let before = fixture.store().dump();
    for (body, field) in [
        ("", None),
        ("{", None),
        ("[", None),
        ("17", None),
        ("{\"id\":1}", None),
        ("{\"speed\":1}", None),
        ("{\"id\":\"a b\"}", Some("id")),
        ("{\"in\":30}", None),
        ("{\"in\":\"30\"}", Some("in")),
        ("{\"at\":\"tomorrow\"}", Some("at")),
        ("{\"payload_base64\":\"?\"}", Some("payload_base64")),
        ("{\"options\":{\"ttr_ms\":0}}", Some("options")),
    ] {
        let answer = post(at, jobs, body);
        assert_eq!((answer.problem().as_str(), answer.status), ("bad-request", 400), "{body}");
        assert_eq!(answer.json()["field"].as_str(), field, "{body}");
    }
    for (line, kind, status) in [
        ("GET /v1/nothing", "unknown-path", 404),
        ("PUT /v1/topics/mail/jobs", "method", 405),
        ("POST /v1/topics/nail/jobs", "unknown-topic", 404),
        ("POST /v1/topics/a%20b/jobs", "bad-request", 400),
        ("POST /v1/topics/%ff/jobs", "bad-request", 400),
        ("POST /v1/topics/mail/jobs?if_exists=burn", "bad-request", 400),
        ("POST /v1/topics/mail/leases?max=0", "bad-request", 400),
        ("POST /v1/topics/mail/leases?wait=61s", "bad-request", 400),
        ("POST /v1/topics/mail/leases?speed=1", "bad-request", 400),
        ("POST /v1/topics/mail/jobs/1/ack", "bad-request", 400),
    ] {
        let answer = ask(at, line, &[JSON], b"{}");
        assert_eq!((answer.problem().as_str(), answer.status), (kind, status), "{line}");
    }
    let text = ask(at, "POST /v1/topics/mail/jobs", &[("content-type", "text/plain")], b"x");
    assert_eq!((text.problem().as_str(), text.status), ("media-type", 415));
    let packed = [JSON, ("content-encoding", "br")];
    assert_eq!(ask(at, "POST /v1/topics/mail/jobs", &packed, b"{}").problem(), "media-type");
    let broken = [JSON, ("content-encoding", "gzip")];
    assert_eq!(ask(at, "POST /v1/topics/mail/jobs", &broken, b"{}").problem(), "bad-request");
    let long = format!("{{\"payload\":\"{}\"}}", "x".repeat(64 << 10));
    let answer = post(at, jobs, &long);
    assert_eq!((answer.problem().as_str(), answer.status), ("too-large", 413));
    assert_eq!(fixture.store().dump(), before);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (fixture, _daemon, at) = fixture(TOPICS);
    let push = |id: u32| {
        request("POST /v1/topics/mail/jobs", &[JSON], format!("{{\"id\":\"{id}\"}}").as_bytes())
    };
    let mut piped = Connection::open(at);
    piped.send(&(0..20).flat_map(push).collect::<Vec<u8>>());
    for id in 0..20 {
        assert_eq!(piped.answer().json()["id"], id.to_string());
    }
    // A truncated body pushes nothing.
    let mut broken = Connection::open(at);
    let whole = push(99);
    broken.send(&whole[..whole.len() - 3]);
    broken.end();
    if let Some(answer) = broken.next_answer() {
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    assert_eq!(get(at, "/v1/topics/mail/jobs/99").problem(), "unknown-job");
    // Not HTTP.
    let mut noise = Connection::open(at);
    noise.send(b"\x00\x01\x02 noise\r\n\r\n");
    assert!(noise.next_answer().is_none_or(|answer| answer.status == 400));
    let mut heads = Connection::open(at);
    heads.send(format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(80 << 10)).as_bytes());
    assert!(heads.next_answer().is_none_or(|answer| answer.status == 431));
    assert_eq!(fixture.store().live_count("mail"), 20);
}

#[test]
fn the_contract_is_served_and_responses_have_a_request_id() {
    let (_fixture, _daemon, at) = fixture(TOPICS);
    let contract = get(at, "/openapi.json").json();
    assert_eq!(contract["openapi"].as_str().map(|version| &version[..3]), Some("3.1"));
    let push = &contract["paths"]["/v1/topics/{topic}/jobs"]["post"];
    for status in ["200", "201", "400", "401", "403", "404", "413", "415", "503"] {
        assert!(push["responses"][status].is_object(), "{status}: {push}");
    }
    let named = [("x-request-id", "mine-1")];
    assert_eq!(ask(at, "GET /v1/topics", &named, b"").header("x-request-id"), Some("mine-1"));
    assert_eq!(get(at, "/v1/topics").header("x-request-id").map(str::len), Some(32));
    let head = {
        let mut connection = Connection::open(at);
        connection.send(&request("HEAD /v1/topics", &[("connection", "close")], b""));
        connection.head()
    };
    assert_eq!((head.status, head.body.len()), (200, 0));
    let packed = ask(at, "GET /openapi.json", &[("accept-encoding", "gzip")], b"");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
}
