//! Gives a handler of the Rust SDK an arbitrary payload, arbitrary headers, and arbitrary responses to
//! its requests. A redirect leads where the URL standard says, or nowhere; credentials stay with
//! their origin; a wait that a server asks for is one that the host accepts.
#![no_main]

use arbitrary::Arbitrary;
use duebox_fuzz as _;
use duebox_sdk::http::{Request, Response};
use duebox_sdk::testing::TestJob;
use duebox_sdk::{Job, Verdict};
use libfuzzer_sys::fuzz_target;
use url::Url;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    payload: &'a [u8],
    base: &'a str,
    status: u16,
    location: &'a str,
    retry_after: &'a str,
    header: &'a str,
}

fuzz_target!(|input: Input<'_>| {
    let base = format!("https://shop.example/{}", input.base);
    let (status, location, wait) =
        (input.status, input.location.to_owned(), input.retry_after.to_owned());
    let first = base.clone();
    let run = TestJob::new(input.payload)
        .header("trace", input.header)
        .server(move |request: &Request| {
            let answer = if request.url() == first { status } else { 200 };
            Ok(Response::new(answer)
                .with_header("location", &location)
                .with_header("retry-after", &wait))
        })
        .run(|job: Job| handle(&job, &base));
    for request in run.requests.iter().skip(1) {
        redirected(&base, input.location, request);
    }
});

fn handle(job: &Job, url: &str) -> Verdict {
    let bytes = job.payload();
    assert_eq!(
        job.text().ok().as_deref().map(str::as_bytes),
        std::str::from_utf8(&bytes).ok().map(str::as_bytes)
    );
    drop(job.json::<serde_json::Value>());
    job.headers();
    let sent = Request::get(url).header("authorization", "Bearer secret").follow(3).send();
    match sent {
        Ok(response) => {
            response.retry_after();
            drop(response.json::<serde_json::Value>());
            response.verdict()
        }
        Err(error) => Verdict::nack(error),
    }
}

/// The target of a redirect is the one of the URL standard, and only the same origin gets credentials.
fn redirected(base: &str, location: &str, request: &Request) {
    let (Ok(base), Ok(went)) = (Url::parse(base), Url::parse(request.url())) else { return };
    if let Ok(mut wanted) = base.join(location) {
        wanted.set_fragment(None);
        assert_eq!(went, wanted, "{location:?}");
    }
    if request.header_value("authorization").is_some() {
        assert_eq!(went.origin(), base.origin(), "{location:?}");
    }
}
