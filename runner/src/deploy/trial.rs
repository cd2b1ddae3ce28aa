//! The host of a trial run, in which nothing has an effect: a clock that stands still, random bytes from a
//! fixed seed, and recorded HTTP responses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use duebox_sandbox::{HostAnswer, HostClock, HostRequest, HttpFailure, HttpResponse, Interceptor};
use parking_lot::Mutex;

use crate::manifest::{Exchange, RecordedResponse, RequestFailure};
use crate::millis::millis;

/// The seed of the random bytes.
const SEED: u64 = 0;

/// The nanoseconds by which a clock that stands still advances at each reading. A guest that waits for a span
/// of time in a loop comes to an end.
const TICK_NS: u64 = 1_000;

/// The host of one trial run.
#[derive(Default)]
pub struct TrialHost {
    clock: Option<FixedClock>,
    random: Option<Mutex<fastrand::Rng>>,
    exchanges: Option<Mutex<Vec<Planned>>>,
    unplanned: Mutex<Vec<String>>,
    observed: Option<Mutex<Vec<Exchange>>>,
}

struct FixedClock {
    now_ms: u64,
    ttr_ms: u64,
    reads: AtomicU64,
}

struct Planned {
    exchange: Exchange,
    is_used: bool,
}

impl TrialHost {
    /// The clock stands still at this time, and all of the ttr remains.
    pub fn with_clock(self, now_ms: u64, ttr: Duration) -> Self {
        let ttr_ms = millis(ttr);
        Self { clock: Some(FixedClock { now_ms, ttr_ms, reads: AtomicU64::new(0) }), ..self }
    }

    /// Random bytes are the same in each run.
    pub fn with_fixed_random(self) -> Self {
        Self { random: Some(Mutex::new(fastrand::Rng::with_seed(SEED))), ..self }
    }

    /// Requests receive these responses, each one once. Any other request ends the guest.
    pub fn with_exchanges(self, exchanges: impl IntoIterator<Item = Exchange>) -> Self {
        let planned = |exchange| Planned { exchange, is_used: false };
        let exchanges = exchanges.into_iter().map(planned).collect();
        Self { exchanges: Some(Mutex::new(exchanges)), ..self }
    }

    /// Keeps the requests that are really sent, with their responses.
    pub fn observing(self) -> Self {
        Self { observed: Some(Mutex::default()), ..self }
    }

    /// The requests that were really sent, with their responses.
    pub fn take_observed(&self) -> Vec<Exchange> {
        self.observed
            .as_ref()
            .map(|observed| std::mem::take(&mut *observed.lock()))
            .unwrap_or_default()
    }

    /// The requests for which there was no response, as method and URL.
    pub fn unplanned(&self) -> Vec<String> {
        self.unplanned.lock().clone()
    }

    /// The requests that were not sent, as method and URL.
    pub fn unused(&self) -> Vec<String> {
        let Some(exchanges) = &self.exchanges else { return Vec::new() };
        let exchanges = exchanges.lock();
        let unused = exchanges.iter().filter(|planned| !planned.is_used);
        unused.map(|planned| line(&planned.exchange.method, &planned.exchange.url)).collect()
    }

    fn random(&self, count: usize) -> Option<HostAnswer> {
        let mut bytes = vec![0; count];
        self.random.as_ref()?.lock().fill(&mut bytes);
        Some(HostAnswer::Random(bytes.into()))
    }

    fn respond(&self, method: &str, url: &str, body: &[u8]) -> Option<HostAnswer> {
        let mut exchanges = self.exchanges.as_ref()?.lock();
        let fits = |planned: &&mut Planned| {
            let Exchange { method: known, url: at, sent, .. } = &planned.exchange;
            let has_body = sent.as_ref().is_none_or(|sent| same_content(sent, body));
            !planned.is_used && known.eq_ignore_ascii_case(method) && at == url && has_body
        };
        let Some(planned) = exchanges.iter_mut().find(fits) else {
            let request = line(method, url);
            self.unplanned.lock().push(request.clone());
            return Some(HostAnswer::Stop(format!("there is no recorded response to {request}")));
        };
        planned.is_used = true;
        Some(HostAnswer::Http(response_of(&planned.exchange)))
    }
}

impl Interceptor for TrialHost {
    fn answer(&self, request: &HostRequest<'_>) -> Option<HostAnswer> {
        match *request {
            HostRequest::Clock(clock) => {
                self.clock.as_ref().map(|fixed| HostAnswer::Clock(fixed.read(clock)))
            }
            HostRequest::Random(count) => self.random(count),
            HostRequest::Http { method, url, body } => self.respond(method, url, body),
            HostRequest::Config(_)
            | HostRequest::KvGet(_)
            | HostRequest::KvSet { .. }
            | HostRequest::KvDelete(_)
            | HostRequest::KvAdd { .. } => None,
        }
    }

    fn answered(&self, request: &HostRequest<'_>, answer: &HostAnswer) {
        if let (Some(observed), HostRequest::Http { method, url, body }, HostAnswer::Http(result)) =
            (&self.observed, request, answer)
        {
            observed.lock().push(exchange(method, url, body, result));
        }
    }
}

impl FixedClock {
    fn read(&self, clock: HostClock) -> u64 {
        let ticks_ns = self.reads.fetch_add(1, Ordering::Relaxed).saturating_mul(TICK_NS);
        match clock {
            HostClock::Now => self.now_ms,
            HostClock::Deadline => self.now_ms.saturating_add(self.ttr_ms),
            HostClock::Remaining => self.ttr_ms,
            HostClock::Elapsed => ticks_ns,
            HostClock::WasiWall => self.now_ms.saturating_mul(1_000_000).saturating_add(ticks_ns),
            HostClock::WasiMonotonic => ticks_ns.saturating_add(TICK_NS),
        }
    }
}

/// Whether two bodies are the same bytes, or the same JSON.
pub fn same_content(expected: &[u8], found: &[u8]) -> bool {
    let json = |bytes| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    expected == found || json(expected).is_some_and(|expected| Some(expected) == json(found))
}

fn line(method: &str, url: &str) -> String {
    format!("{method} {url}")
}

/// What the guest receives.
fn response_of(exchange: &Exchange) -> Result<HttpResponse, HttpFailure> {
    match &exchange.response {
        Ok(RecordedResponse { status, headers, body }) => Ok(HttpResponse {
            status: *status,
            headers: headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect(),
            body: body.clone(),
        }),
        Err(failure) => {
            let text = format!("the recorded request failed: {}", failure.word());
            Err(HttpFailure { code: failure.code(), text })
        }
    }
}

/// A request with its response, as a recording keeps it.
fn exchange(
    method: &str,
    url: &str,
    body: &[u8],
    result: &Result<HttpResponse, HttpFailure>,
) -> Exchange {
    let headers = |block: &str| {
        let pairs = block.lines().filter_map(|line| line.split_once(": "));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    Exchange {
        method: method.to_owned(),
        url: url.to_owned(),
        sent: Some(Bytes::copy_from_slice(body)).filter(|body| !body.is_empty()),
        response: match result {
            Ok(response) => Ok(RecordedResponse {
                status: response.status,
                headers: headers(&response.headers),
                body: response.body.clone(),
            }),
            Err(failure) => Err(RequestFailure::of_code(failure.code)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(url: &str) -> Exchange {
        let response =
            RecordedResponse { status: 204, headers: Default::default(), body: Bytes::new() };
        Exchange { method: "GET".into(), url: url.into(), sent: None, response: Ok(response) }
    }

    #[test]
    fn each_response_is_given_once_and_other_requests_end_the_guest() {
        let host = TrialHost::default().with_exchanges([get("http://a/"), get("http://b/")]);
        let request = HostRequest::Http { method: "GET", url: "http://a/", body: b"" };
        assert!(matches!(host.answer(&request), Some(HostAnswer::Http(Ok(_)))));
        assert!(matches!(host.answer(&request), Some(HostAnswer::Stop(_))));
        assert_eq!(host.unplanned(), ["GET http://a/"]);
        assert_eq!(host.unused(), ["GET http://b/"]);
        assert_eq!(TrialHost::default().answer(&request), None);
    }

    #[test]
    fn a_body_is_compared_as_json_if_both_are() {
        assert!(same_content(b"{\"a\":1,\"b\":2}", b"{ \"b\": 2, \"a\": 1 }"));
        assert!(same_content(b"x", b"x") && !same_content(b"{}", b"[]"));
        assert!(!same_content(b"x", b"y"));
    }

    #[test]
    fn the_clock_stands_still_and_random_bytes_repeat() {
        let host =
            || TrialHost::default().with_clock(5_000, Duration::from_secs(2)).with_fixed_random();
        let (first, second) = (host(), host());
        let read = |clock| first.answer(&HostRequest::Clock(clock));
        assert_eq!(read(HostClock::Now), Some(HostAnswer::Clock(5_000)));
        assert_eq!(read(HostClock::Deadline), Some(HostAnswer::Clock(7_000)));
        assert_eq!(read(HostClock::Now), Some(HostAnswer::Clock(5_000)));
        assert_eq!(read(HostClock::Elapsed), Some(HostAnswer::Clock(3_000)));
        let random = HostRequest::Random(16);
        assert_eq!(first.answer(&random), second.answer(&random));
        assert_ne!(first.answer(&random), first.answer(&random));
    }
}
