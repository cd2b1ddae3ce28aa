//! What happens to every exchange, whatever it is about: a request has an id, which its answer and its log
//! line carry, and an error is written out as a problem.

use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use tracing::{debug, warn};

use super::problem::{MEDIA_TYPE, Problem};

/// The id of an exchange, in the request and in its answer.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that is taken from a request.
const ID_MAX: usize = 128;

/// Stands in an answer whose error is written as it is to be, and is no problem.
#[derive(Clone, Copy)]
pub(super) struct AsSaid;

/// Serves one exchange.
pub(super) async fn exchange(mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = taken_id(request.headers()).unwrap_or_else(made_id);
    // Of the target the path alone is told: a query may hold what is nobody's business.
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let mut answer = next.run(request).await;
    let request_id = id.to_str().unwrap_or_default();
    let problem = problem_of(&mut answer);
    let status = problem.as_ref().map_or_else(|| answer.status(), Problem::status);
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    match &problem {
        Some(problem) if status.is_server_error() => {
            warn!(request_id, %method, path, status = status.as_u16(), took_us, "{}", problem.detail());
        }
        Some(problem) => {
            debug!(request_id, %method, path, status = status.as_u16(), took_us, "{}", problem.detail());
        }
        None => debug!(request_id, %method, path, status = status.as_u16(), took_us, "answered"),
    }
    if let Some(problem) = problem {
        answer = problem.write(answer, request_id);
    }
    answer.headers_mut().insert(REQUEST_ID, id);
    answer
}

/// The problem that an answer is, also where a library said so with a status alone.
fn problem_of(answer: &mut Response) -> Option<Problem> {
    if let Some(problem) = answer.extensions_mut().remove::<Problem>() {
        return Some(problem);
    }
    let status = answer.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let kind = answer.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_said = answer.extensions().get::<AsSaid>().is_some()
        || kind.is_some_and(|kind| kind == MEDIA_TYPE.as_bytes() || is_json(kind));
    (is_error && !is_said).then(|| Problem::of_status(status))
}

fn is_json(kind: &[u8]) -> bool {
    kind.starts_with(b"application/json")
}

/// The id that the request brings along, if it can stand in a header and a log line.
fn taken_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let value = headers.get(REQUEST_ID)?;
    let is_plain = value.as_bytes().iter().all(u8::is_ascii_graphic);
    (is_plain && (1..=ID_MAX).contains(&value.len())).then(|| value.clone())
}

fn made_id() -> HeaderValue {
    let text = format!("{:032x}", fastrand::u128(..));
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_taken_if_it_can_stand_in_a_log_line() {
        let taken = |text: &'static [u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(text).unwrap());
            taken_id(&headers).is_some()
        };
        assert!(taken(b"a-1") && taken(&[b'x'; ID_MAX]));
        assert!(!taken(b"") && !taken(b"a b") && !taken(&[b'x'; ID_MAX + 1]) && !taken(b"\xe4"));
        assert_eq!(made_id().len(), 32);
    }
}
