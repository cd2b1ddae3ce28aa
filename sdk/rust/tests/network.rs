//! Handlers that call a server and keep values, run natively: requests, responses, and the verdicts
//! derived from them.

use std::time::Duration;

use duebox_sdk::http::{Error, Request, Response};
use duebox_sdk::testing::TestJob;
use duebox_sdk::{Job, Verdict, info, kv};
use serde::Deserialize;

#[derive(Deserialize)]
struct Order {
    paid: bool,
}

fn close(job: Job) -> Result<Verdict, Verdict> {
    let url = format!("https://shop.example/orders/{}", job.text()?);
    let order: Order = Request::get(&url).header("Accept", "application/json").send()?.json()?;
    if order.paid {
        return Ok(Verdict::Ack);
    }
    let closing = Request::post(&format!("{url}/close")).json(&["unpaid"])?;
    Ok(closing.timeout(Duration::from_secs(5)).send()?.verdict())
}

fn shop(request: &Request) -> Result<Response, Error> {
    info!("{} {}", request.method(), request.url());
    Ok(match request.method() {
        "GET" => Response::new(200)
            .with_header("Content-Type", "application/json")
            .with_body("{\"paid\":false}"),
        _ => Response::new(204),
    })
}

#[test]
fn requests_are_sent_as_built_and_responses_come_back() {
    let run = TestJob::new("42").server(shop).run(close);
    assert_eq!(run.verdict, Verdict::Ack);
    let [asked, closed] = &run.requests[..] else { panic!("{:?}", run.requests) };
    assert_eq!(asked.header_value("accept"), Some("application/json"));
    assert_eq!((closed.method(), closed.url()), ("POST", "https://shop.example/orders/42/close"));
    assert_eq!(closed.header_value("Content-Type"), Some("application/json"));
    assert_eq!(closed.body_bytes(), b"[\"unpaid\"]");
    assert_eq!(run.logs.len(), 2, "a server of a test may log");
}

#[test]
fn an_error_is_a_nack_with_the_hosts_message() {
    let run = TestJob::new("42").run(close);
    let Verdict::Nack { reason, .. } = run.verdict else { panic!("{:?}", run.verdict) };
    assert!(reason.contains("TestJob::server"), "{reason}");
    for (error, is_temporary) in [
        (Error::Denied("no".to_owned()), false),
        (Error::Invalid("no".to_owned()), false),
        (Error::TooLarge("no".to_owned()), false),
        (Error::Timeout("no".to_owned()), true),
        (Error::Unavailable("no".to_owned()), true),
    ] {
        let (wanted, server) = (error.clone(), move |_: &Request| Err(error.clone()));
        let run = TestJob::new("").server(server).run(move |_: Job| {
            assert_eq!(Request::get("https://a/").send(), Err(wanted.clone()));
            assert_eq!(wanted.is_temporary(), is_temporary);
        });
        assert_eq!(run.verdict, Verdict::Ack);
    }
}

#[test]
fn an_invalid_request_is_refused() {
    let run = TestJob::new("").server(shop).run(|_: Job| {
        for bad in [
            Request::new("", "https://a/"),
            Request::new("GET /", "https://a/"),
            Request::get("https://a/\nx: y"),
            Request::get("https://a/ b"),
            Request::get("https://a/").header("a b", "c"),
            Request::get("https://a/").header("a", "b\r\nc: d"),
            Request::get("https://a/").header("a: b", "c"),
        ] {
            let response = bad.clone().send();
            assert!(matches!(response, Err(Error::Invalid(_))), "{bad:?}: {response:?}");
        }
    });
    assert_eq!(run.requests, []);
}

#[test]
fn a_response_leads_to_the_verdict_of_webhooks() {
    let now_ms = 784_111_777_000; // Sun, 06 Nov 1994 08:49:37 GMT
    let answered = |response: Response| {
        let server = move |_: &Request| Ok(response.clone());
        let send = |_: Job| Request::post("https://a/").send().map(|response| response.verdict());
        TestJob::new("").now_ms(now_ms).server(server).run(send).verdict
    };
    let why = |status: u16| format!("the server answered {status}");
    for status in [200, 201, 204, 299] {
        assert_eq!(answered(Response::new(status)), Verdict::Ack);
    }
    for status in [100, 301, 304, 408, 429, 500, 503, 599] {
        assert_eq!(answered(Response::new(status)), Verdict::nack(why(status)));
    }
    for status in [400, 404, 410, 422, 499] {
        assert_eq!(answered(Response::new(status)), Verdict::drop(why(status)));
    }
    for (value, wait) in [
        ("120", Some(120)),
        ("0", Some(0)),
        (" 7 ", Some(7)),
        ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
        ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
        ("Sunday, 06-Nov-94 08:50:37 GMT", Some(60)),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("", None),
    ] {
        let wanted = match wait {
            Some(seconds) => Verdict::retry_after(Duration::from_secs(seconds), why(503)),
            None => Verdict::nack(why(503)),
        };
        let response = Response::new(503).with_header("Retry-After", value);
        assert_eq!(answered(response), wanted, "{value:?}");
    }
}

#[test]
fn redirects_are_followed_up_to_the_given_number() {
    let chain = |request: &Request| {
        let hop: u32 = request.url().rsplit('/').next().unwrap_or("").parse().unwrap_or(0);
        Ok(match hop {
            3 => Response::new(200)
                .with_body(request.header_value("authorization").unwrap_or("none")),
            hop => Response::new(307).with_header("location", &format!("/{}", hop + 1)),
        })
    };
    let status = |follow: u32| {
        let run = TestJob::new("").server(chain).run(move |_: Job| {
            let request = Request::get("https://a/0").header("authorization", "key").follow(follow);
            let response = request.timeout(Duration::from_secs(1)).send().unwrap();
            assert_eq!(response.url(), format!("https://a/{}", follow.min(3)));
            Verdict::nack(response.status())
        });
        (run.verdict, run.requests.len())
    };
    assert_eq!(status(0), (Verdict::nack(307), 1));
    assert_eq!(status(2), (Verdict::nack(307), 3));
    assert_eq!(status(3), (Verdict::nack(200), 4));
    assert_eq!(status(9), (Verdict::nack(200), 4));
}

#[test]
fn a_large_response_is_read_whole() {
    for length in [0, 1, 1_023, 1_024, 1_025, 2_048, 3_000_000] {
        let body: Vec<u8> = (0..length).map(|index: u32| index.to_le_bytes()[0]).collect();
        let sent = body.clone();
        let server = move |_: &Request| Ok(Response::new(200).with_body(sent.clone()));
        let run = TestJob::new("").server(server).run(move |_: Job| {
            assert_eq!(Request::get("https://a/").send().unwrap().into_bytes(), body);
        });
        assert_eq!(run.verdict, Verdict::Ack);
    }
}

#[test]
fn a_store_keeps_values_and_numbers() {
    let run = TestJob::new("").stored("old", "1").stored("word", "x").run(|_: Job| {
        assert_eq!(kv::get("old"), Ok(Some(b"1".to_vec())));
        assert_eq!(kv::get("none"), Ok(None));
        assert_eq!(kv::set("new", "x".repeat(64 << 10), Some(Duration::ZERO)), Ok(()));
        assert_eq!(kv::get("new").map(|value| value.map(|value| value.len())), Ok(Some(64 << 10)));
        assert_eq!(kv::set_if_absent("new", "y", None), Ok(false));
        assert_eq!(kv::set_if_absent("mark", "", None), Ok(true));
        assert_eq!(kv::delete("new"), Ok(true));
        assert_eq!(kv::delete("new"), Ok(false));
        assert_eq!((kv::add("old", -3), kv::add("count", 5)), (Ok(-2), Ok(5)));
        assert_eq!(kv::add("word", 1), Err(kv::Error::Invalid));
        assert_eq!(kv::add("count", i64::MAX), Err(kv::Error::Invalid));
        assert_eq!(kv::get(""), Err(kv::Error::Invalid));
        assert_eq!(kv::set("k".repeat(257), "", None), Err(kv::Error::Invalid));
        assert_eq!(kv::set("k", "", Some(Duration::MAX)), Err(kv::Error::Invalid));
        assert_eq!(kv::set("k", vec![0; (64 << 10) + 1], None), Err(kv::Error::TooLarge));
    });
    assert_eq!(run.verdict, Verdict::Ack);
    let kept = |key: &str| run.store.get(key.as_bytes()).map(|value| &value[..]);
    assert_eq!(
        (kept("old"), kept("count"), kept("mark")),
        (Some(&b"-2"[..]), Some(&b"5"[..]), Some(&b""[..]))
    );
    assert_eq!((run.store.len(), kept("new")), (4, None));
}

#[test]
fn a_value_is_written_only_if_it_is_unchanged_since_it_was_read() {
    let run = TestJob::new("").stored("a", "1").run(|_: Job| {
        assert_eq!(kv::set_if_unchanged("a", "2", None), Ok(false), "never read");
        kv::get("a").unwrap();
        assert_eq!(kv::set_if_unchanged("a", "2", None), Ok(true));
        assert_eq!(kv::set_if_unchanged("a", "3", None), Ok(false), "written since by this job");
        kv::get("b").unwrap();
        assert_eq!(kv::set_if_unchanged("b", "1", None), Ok(true), "still absent");
    });
    assert_eq!(run.verdict, Verdict::Ack);
}

#[test]
fn an_update_retries_on_conflict_a_limited_number_of_times() {
    let count = |job: TestJob| {
        let mut tries = 0;
        let run = job.stored("cursor", "7").run(|_: Job| {
            kv::update("cursor", None, |old| {
                tries += 1;
                [old.unwrap_or_default(), b"+".to_vec()].concat()
            })
            .map(|value| assert_eq!(value, b"7+"))
        });
        (run.verdict, tries)
    };
    assert_eq!(count(TestJob::new("")), (Verdict::Ack, 1));
    assert_eq!(count(TestJob::new("").store_is_contended(9)), (Verdict::Ack, 10));
    let gave_up = (Verdict::nack(kv::Error::Conflict), 10);
    assert_eq!(count(TestJob::new("").store_is_contended(10)), gave_up);
}
