//! `webhook` with a receiver whose responses the test sets: what is posted, and how the job is
//! settled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use duebox_conformance::{Attempt, Module, Run, runtime};
use jiff::{SignedDuration, Timestamp};

use crate::shop;

/// The receiver's response: a status, an optional header, and a body.
#[derive(Clone)]
struct ReceiverResponse(u16, Option<(&'static str, String)>, &'static str);

/// A receiver for one test.
struct Receiver {
    url: String,
    inner: Arc<Mutex<ReceiverState>>,
}

struct ReceiverState {
    answer: ReceiverResponse,
    received: Vec<(HeaderMap, Bytes)>,
}

async fn receive(
    State(inner): State<Arc<Mutex<ReceiverState>>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Ok(mut inner) = inner.lock() else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    inner.received.push((headers, body));
    let ReceiverResponse(status, header, body) = inner.answer.clone();
    let mut headers = HeaderMap::new();
    if let Some((name, value)) = header {
        let value = HeaderValue::try_from(value);
        headers.insert(HeaderName::from_static(name), value.unwrap_or_else(|_| panic!("a value")));
    }
    let status = StatusCode::from_u16(status).unwrap_or_else(|error| panic!("{error}"));
    (status, headers, body).into_response()
}

impl Receiver {
    fn open() -> Self {
        let answer = ReceiverResponse(204, None, "");
        let inner = Arc::new(Mutex::new(ReceiverState { answer, received: Vec::new() }));
        let router = Router::new().fallback(receive).with_state(Arc::clone(&inner));
        let url = runtime().block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            let url = format!("http://{}/jobs?from=duebox", listener.local_addr()?);
            tokio::spawn(async move { axum::serve(listener, router).await });
            Ok::<_, std::io::Error>(url)
        });
        Self {
            url: url.unwrap_or_else(|error| panic!("cannot start the receiver: {error}")),
            inner,
        }
    }

    fn module(&self, config: &[(&str, &str)]) -> Module {
        module(&self.url, config)
    }

    /// Runs a job that gets this response.
    fn run_with_response(&self, module: &Module, answer: ReceiverResponse) -> Run {
        if let Ok(mut inner) = self.inner.lock() {
            inner.answer = answer;
        }
        module.run(&job())
    }

    /// A header of the last request; empty if it is missing.
    fn last(&self, header: &str) -> String {
        let inner = self.inner.lock().unwrap_or_else(|_| panic!("the receiver panicked"));
        let (headers, _) =
            inner.received.last().unwrap_or_else(|| panic!("no request was received"));
        let value = headers.get(header).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    }

    fn bodies(&self) -> Vec<Bytes> {
        let inner = self.inner.lock().unwrap_or_else(|_| panic!("the receiver panicked"));
        inner.received.iter().map(|(_, body)| body.clone()).collect()
    }
}

fn module(url: &str, config: &[(&str, &str)]) -> Module {
    let values = config.iter().copied().chain([("url", url)]);
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Module::built("webhook", values.collect::<BTreeMap<_, _>>())
}

fn job() -> Attempt {
    Attempt { id: "a/b%.c".to_owned(), topic: "mail.welcome".to_owned(), ..Attempt::new("{}") }
}

#[test]
fn the_job_is_posted_with_its_metadata() {
    let receiver = Receiver::open();
    let module = receiver.module(&[("signing_key", "whsec_ZHVl"), ("authorization", "Bearer x")]);
    let payload = [0, 0xff, b'\r', b'\n', 0];
    let run = module.run(&Attempt { payload: payload.to_vec(), ..job() }.number(3));
    assert_eq!((run.verdict(), run.verdict_line()), ("ack", "info verdict=ack status=204"));
    assert_eq!(receiver.bodies(), [Bytes::copy_from_slice(&payload)]);
    for (header, value) in [
        ("content-type", "application/octet-stream"),
        ("authorization", "Bearer x"),
        ("duebox-topic", "mail.welcome"),
        ("duebox-id", "a/b%25.c"),
        ("duebox-attempt", "3"),
        ("duebox-max-attempts", "8"),
        ("duebox-due-at", "1764000000000"),
        ("webhook-id", "mail%2Ewelcome/a%2Fb%25%2Ec"),
    ] {
        assert_eq!(receiver.last(header), value, "{header}");
    }
    let sent: i64 = receiver.last("webhook-timestamp").parse().unwrap_or_default();
    assert!((sent - Timestamp::now().as_second()).abs() < 300, "{sent}");
    let signature = receiver.last("webhook-signature");
    assert!(signature.starts_with("v1,") && signature.len() == 47, "{signature}");
    assert!(
        !receiver.last("traceparent").is_empty() && !receiver.last("idempotency-key").is_empty()
    );
}

#[test]
fn the_headers_depend_on_the_job_and_the_topic() {
    let receiver = Receiver::open();
    assert_eq!(receiver.module(&[]).run(&job()).verdict(), "ack");
    assert_eq!(
        (receiver.last("webhook-signature"), receiver.last("authorization")),
        Default::default()
    );
    let typed = receiver.module(&[("content_type", "text/csv")]);
    assert_eq!(typed.run(&job()).verdict(), "ack");
    assert_eq!(receiver.last("content-type"), "text/csv");
    let mut own = job();
    own.headers.insert("content-type".to_owned(), "text/plain".to_owned());
    assert_eq!(typed.run(&own).verdict(), "ack");
    assert_eq!(receiver.last("content-type"), "text/plain");
}

#[test]
fn the_response_settles_the_job() {
    let receiver = Receiver::open();
    let module = receiver.module(&[]);
    for (status, verdict) in [
        (200, "ack"),
        (202, "ack"),
        (299, "ack"),
        (301, "nack"),
        (304, "nack"),
        (400, "drop"),
        (401, "drop"),
        (404, "drop"),
        (410, "drop"),
        (408, "nack"),
        (429, "nack"),
        (500, "nack"),
        (503, "nack"),
        (599, "nack"),
    ] {
        let run = receiver.run_with_response(&module, ReceiverResponse(status, None, ""));
        assert_eq!((run.verdict(), run.retry_after_ms()), (verdict, None), "{status}: {run:?}");
        let line = run.verdict_line();
        assert!(line.starts_with(&format!("info verdict={verdict} status={status}")), "{line}");
        let reason = format!("the receiver answered {status}");
        assert_eq!(run.reason(), if verdict == "ack" { "" } else { &reason });
    }
    assert!(receiver.bodies().iter().all(|body| body == "{}"), "a redirect is not followed");
}

#[test]
fn retry_after_is_honoured() {
    let receiver = Receiver::open();
    let module = receiver.module(&[]);
    let wait = |status, value: String| {
        receiver
            .run_with_response(&module, ReceiverResponse(status, Some(("retry-after", value)), ""))
            .retry_after_ms()
    };
    assert_eq!(wait(429, "7".to_owned()), Some(7_000));
    assert_eq!(wait(503, "soon".to_owned()), None);
    let hour = Timestamp::now() + SignedDuration::from_hours(1);
    let date = hour.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    let wait_ms = wait(408, date).unwrap_or_default();
    assert!((3_300_000..=3_600_000).contains(&wait_ms), "{wait_ms}");
}

#[test]
fn the_response_body_is_kept() {
    let receiver = Receiver::open();
    let module = receiver.module(&[]);
    let run = receiver.run_with_response(&module, ReceiverResponse(200, None, "welcomed"));
    assert_eq!(run.result.as_deref(), Some(&b"welcomed"[..]));
    let run = receiver.run_with_response(
        &module,
        ReceiverResponse(422, None, "no\tsuch\r\nverdict=ack  user\u{1}"),
    );
    assert_eq!(run.reason(), "the receiver answered 422: no such verdict=ack user");
    let long: &str = Box::leak("ü".repeat(100_000).into_boxed_str());
    let run = receiver.run_with_response(&module, ReceiverResponse(500, None, long));
    assert_eq!(run.reason(), format!("the receiver answered 500: {}…", "ü".repeat(200)));
    let run = receiver.run_with_response(&module, ReceiverResponse(200, None, long));
    assert_eq!((run.verdict(), run.result), ("ack", None), "too long to keep");
}

#[test]
fn a_missing_response_is_a_nack_with_a_reason() {
    let shop = shop::open();
    shop::inject_fault(&shop, "/orders", r#""hang""#);
    let hung = shop::module(
        "webhook",
        &shop,
        &[
            ("url", &format!("{}/orders/A-1", shop.origin())),
            ("authorization", "Bearer let-me-in"),
            ("timeout_s", "0.2"),
        ],
    );
    let receiver = Receiver::open();
    for (module, why) in [
        (hung, "no response: "),
        (module(&shop::unreachable_origin(), &[]), "no response: "),
        (module("http://shop.example/", &[]), "no response: "),
        (module("nowhere", &[]), "no response: "),
        (Module::built("webhook", BTreeMap::new()), "\"url\" is missing"),
        (receiver.module(&[("timeout_s", "0")]), "\"timeout_s\" is 0"),
        (receiver.module(&[("timeout_s", "soon")]), "\"timeout_s\""),
        (receiver.module(&[("signing_key", "whsec_?")]), "\"signing_key\""),
        (receiver.module(&[("signing_key", "")]), "\"signing_key\""),
    ] {
        let run = module.run(&job());
        assert_eq!((run.verdict(), run.retry_after_ms()), ("nack", None), "{why}: {run:?}");
        assert!(run.reason().contains(why), "{why}: {run:?}");
        assert!(run.verdict_line().starts_with("info verdict=nack reason="), "{run:?}");
    }
    assert!(receiver.bodies().is_empty());
}
