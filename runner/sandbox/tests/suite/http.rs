//! `http_send` and `http_read` against real servers.

use duebox_sandbox::{Grants, Limits, LoadError};

use crate::asker::{ASKER, Ask, Asker};
use crate::kit::{job, sandbox};
use crate::web;

#[tokio::test]
async fn a_request_goes_out_and_its_response_comes_in() {
    let origin = format!("http://{}", web::echo().await);
    let asker = Asker::to(&[&origin]);
    let head = format!("POST {origin}/orders?x=1#fragment\naccept: text/plain\nx-a: 1\nx-a: 2\n");
    let answer = asker.ask(Ask { head: &head, body: b"the body\0\xff", timeout: 0 }).await;
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
async fn without_a_grant_a_module_is_refused_by_name_with_the_remedy() {
    let refused = sandbox().load(ASKER.as_bytes(), Limits::default(), Grants::default());
    let refused = refused.unwrap_err();
    assert!(matches!(refused, LoadError::NotGranted { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("duebox_v1.http_send") && text.contains("`http`"), "{text}");
}

#[tokio::test]
async fn what_is_not_granted_is_denied() {
    let origin = format!("http://{}", web::echo().await);
    let head = format!("GET {origin}/\n");
    let answer = Asker::to(&[]).ask(head.as_str()).await;
    assert_eq!(answer.code, -2);
    assert!(answer.error.contains(&origin), "{}", answer.error);
    assert_eq!((answer.head.as_str(), answer.body_length), ("", 0));
    let asker = Asker::to(&["https://*", "http://*:1"]);
    for head in [head.as_str(), "GET ftp://127.0.0.1/\n", "GET http://127.0.0.1:2/\n"] {
        assert_eq!(asker.ask(head).await.code, -2, "{head}");
    }
    let mixed = [Ask::from(head.as_str()), Ask::from("GET nonsense\n")];
    assert_eq!(asker.ask_as(job(), &mixed).await.code, -3);
}
