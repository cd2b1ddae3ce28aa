//! `http_send` and `http_read` against real servers.

use duebox_job::{FailureClass, JobId};
use duebox_sandbox::{Grants, Invocation, Limits, LoadError};

use crate::http_guest::{HTTP_GUEST, HttpGuest, TestRequest, grant};
use crate::support::{TestRun, job, load_with, run, sandbox};
use crate::web_servers;

#[tokio::test]
async fn a_request_is_sent_and_its_response_is_read() {
    let origin = format!("http://{}", web_servers::echo().await);
    let guest = HttpGuest::to(&[&origin]);
    let head = format!("POST {origin}/orders?x=1#fragment\naccept: text/plain\nx-a: 1\nx-a: 2\n");
    let answer = guest.ask(TestRequest { head: &head, body: b"the body\0\xff", timeout: 0 }).await;
    assert_eq!(answer.code, 200, "{}", answer.error);
    assert_eq!(answer.header("content-length"), Some(answer.body.len().to_string().as_str()));
    let (head, body) = answer.body.split_at(answer.body.len() - 10);
    assert_eq!(body, b"the body\0\xff");
    let head = std::str::from_utf8(head).unwrap();
    assert!(head.starts_with("POST /orders?x=1\n"), "{head}");
    for line in [
        "accept: text/plain",
        "x-a: 1",
        "x-a: 2",
        "content-length: 10",
        "duebox-attempt: 2",
        "idempotency-key: order.close/job-42",
        concat!("user-agent: duebox/", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(head.lines().any(|known| known == line), "{line} is missing: {head}");
    }
    assert!(head.lines().any(|line| line.starts_with("traceparent: 00-")), "{head}");
    assert!(!head.contains("accept-encoding"), "{head}");
}

#[tokio::test]
async fn without_a_grant_the_imports_are_refused_with_a_remedy() {
    let refused = sandbox().load(HTTP_GUEST.as_bytes(), Limits::default(), Grants::default());
    let refused = refused.unwrap_err();
    assert!(matches!(refused, LoadError::NotGranted { .. }), "{refused}");
    let (text, remedy) = (refused.to_string(), refused.remedy());
    assert!(text.contains("duebox_v1.http_send") && remedy.contains("`http`"), "{text}; {remedy}");
}

#[tokio::test]
async fn a_target_that_is_not_granted_is_denied() {
    let origin = format!("http://{}", web_servers::echo().await);
    let head = format!("GET {origin}/\n");
    let answer = HttpGuest::to(&[]).ask(head.as_str()).await;
    assert_eq!(answer.code, -2);
    assert!(answer.error.contains(&origin), "{}", answer.error);
    assert_eq!((answer.head.as_str(), answer.body_length), ("", 0));
    let guest = HttpGuest::to(&["https://*", "http://*:1"]);
    for head in [head.as_str(), "GET ftp://127.0.0.1/\n", "GET http://127.0.0.1:2/\n"] {
        assert_eq!(guest.ask(head).await.code, -2, "{head}");
    }
    let mixed = [TestRequest::from(head.as_str()), TestRequest::from("GET nonsense\n")];
    assert_eq!(guest.send_all(job(), &mixed).await.code, -3);
}

/// The value of a header that the echo server received.
fn sent(answer: &crate::http_guest::TestResponse, name: &str) -> String {
    let mut lines = answer.text().lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no {name} in {}", answer.text())).1.to_owned()
}

#[tokio::test]
async fn requests_of_one_job_belong_to_one_trace() {
    let origin = format!("http://{}", web_servers::echo().await);
    let guest = HttpGuest::to(&[&origin]);
    let head = format!("GET {origin}/\n");
    let traced = |header: &str| {
        let headers = [("traceparent", header), ("tracestate", "a=b")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Invocation { headers: headers.into(), ..job() }
    };
    let id = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{id}-b7ad6b7169203331-00");
    let answer = guest.send_all(traced(&parent), &[TestRequest::from(&*head)]).await;
    let given = sent(&answer, "traceparent");
    assert!(given.starts_with(&format!("00-{id}-")) && given.ends_with("-00"), "{given}");
    assert_ne!(given, parent);
    assert_eq!(sent(&answer, "tracestate"), "a=b");
    // An invalid one is not continued.
    let answer = guest.send_all(traced("00-x-y-z"), &[TestRequest::from(&*head)]).await;
    let made = sent(&answer, "traceparent");
    assert_eq!((made.len(), &made[..3]), (55, "00-"));
    assert!(!answer.text().contains("tracestate"), "{}", answer.text());
    // Another job has another trace.
    assert_ne!(sent(&guest.ask(&*head).await, "traceparent")[..35], made[..35]);
}

#[tokio::test]
async fn a_handler_may_set_all_job_headers_except_the_attempt() {
    let origin = format!("http://{}", web_servers::echo().await);
    let guest = HttpGuest::to(&[&origin]);
    let own =
        [("traceparent", "mine"), ("idempotency-key", "order-42/close"), ("user-agent", "me/1")];
    let lines: String = own.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let answer = guest.ask(&*format!("PUT {origin}/\n{lines}")).await;
    for (name, value) in own {
        assert_eq!(sent(&answer, name), value);
    }
    assert_eq!(sent(&answer, "content-length"), "0");
    for name in
        ["duebox-attempt", "host", "content-length", "transfer-encoding", "proxy-authorization"]
    {
        let answer = guest.ask(&*format!("GET {origin}/\n{name}: 1\n")).await;
        assert_eq!(answer.code, -3, "{name}");
        assert!(answer.error.contains(name), "{}", answer.error);
    }
    let odd = Invocation { id: JobId::from_redis(b"a b\xff%".to_vec()), ..job() };
    let answer = guest.send_all(odd, &[TestRequest::from(&*format!("GET {origin}/\n"))]).await;
    assert_eq!(sent(&answer, "idempotency-key"), "order.close/a%20b%FF%25");
}

#[tokio::test]
async fn only_the_last_response_of_a_job_is_kept() {
    let origin = format!("http://{}", web_servers::echo().await);
    let guest = HttpGuest::to(&[&origin]);
    let head = format!("GET {origin}/\n");
    let asks = [TestRequest::from(&*head), TestRequest::from("GET http://elsewhere.test/\n")];
    let answer = guest.send_all(job(), &asks).await;
    assert_eq!((answer.code, answer.head.as_str(), answer.body_length), (-2, "", 0));
    let [denied, granted] = asks;
    let answer = guest.send_all(job(), &[granted, denied]).await;
    assert_eq!((answer.code, answer.error.as_str()), (200, ""));
    assert!(answer.body_length > 0);
}

/// Runs a module with both imports, one page and this body of `handle`.
async fn probe(body: &str) -> TestRun {
    let module = format!(
        r#"(module
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "http_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) (drop {body}) (i32.const 0)))"#
    );
    let grants = Grants { http: Some(grant(&[], &[])), ..Grants::default() };
    run(&load_with(&module, Limits::default(), grants), job()).await
}

#[tokio::test]
async fn a_range_may_end_with_the_memory_and_one_byte_more_faults() {
    let calls = [
        (
            "http_send",
            "(call $send (i32.const P) (i32.const L) (i32.const 0) (i32.const 0) (i32.const 0))",
        ),
        (
            "http_send",
            "(call $send (i32.const 0) (i32.const 0) (i32.const P) (i32.const L) (i32.const 0))",
        ),
        ("http_read", "(call $read (i32.const 0) (i32.const P) (i32.const 0) (i32.const L))"),
        ("http_read", "(call $read (i32.const 9) (i32.const P) (i32.const -1) (i32.const L))"),
    ];
    let fits = [(65_535, 1), (65_436, 100), (0, 65_536), (65_536, 0), (-1, 0)];
    let faults =
        [(65_536, 1), (65_437, 100), (0, 65_537), (1, 65_536), (-1, 1), (16, -1), (-1, -1)];
    for (import, call) in calls {
        let call = |(pointer, length): (i32, i32)| {
            call.replace('P', &pointer.to_string()).replace('L', &length.to_string())
        };
        for range in fits {
            assert_eq!(probe(&call(range)).await.answer(), 0, "{import} {range:?}");
        }
        for range in faults {
            let ran = probe(&call(range)).await;
            let (class, reason) = ran.class();
            assert_eq!(class, FailureClass::Trap, "{import} {range:?}");
            assert!(reason.starts_with(&format!("{import}: ")), "{reason}");
        }
    }
}

#[tokio::test]
async fn a_run_without_a_network_reports_it_after_the_grant_is_checked() {
    let grants = Grants { http: Some(grant(&["http://a.test"], &[])), ..Grants::default() };
    let handler = load_with(HTTP_GUEST, Limits::default(), grants);
    for (head, code) in
        [("GET http://a.test/\n", -6), ("GET http://b.test/\n", -2), ("GET nothing\n", -3)]
    {
        let payload = crate::http_guest::payload(&[TestRequest::from(head)]);
        let ran = run(&handler, Invocation { payload, ..job() }).await;
        let result = ran.report.result.unwrap();
        assert_eq!(i32::from_le_bytes(result[..4].try_into().unwrap()), code, "{head}");
    }
}
