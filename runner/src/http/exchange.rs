//! Middleware of every request: it sets the request id of the response and the log line, and writes
//! errors as problems.

use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use tracing::{debug, warn};

use super::problem::{MEDIA_TYPE, Problem};
use crate::observe::log::follow::following;

/// The request id, in the request and in its response.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Maximum length of a request id from a client.
const ID_MAX: usize = 128;

/// Marks a response whose error body is final and not a problem.
#[derive(Clone, Copy)]
pub(super) struct FinalBody;

/// Handles one request.
pub(super) async fn exchange(mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = client_id(request.headers()).unwrap_or_else(generated_id);
    // Only the path is logged: a query may hold confidential data.
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    request.headers_mut().insert(REQUEST_ID, id.clone());
    let request_id = id.to_str().unwrap_or_default();
    let mut answer = following("request_id", request_id, next.run(request)).await;
    let problem = problem_of(&mut answer);
    let status = problem.as_ref().map_or_else(|| answer.status(), Problem::status);
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    match &problem {
        // A client that sends too much at once must not fill the log too.
        Some(problem) if status.is_server_error() && !problem.is_busy() => {
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

/// The problem of a response, also if a library set only a status.
fn problem_of(answer: &mut Response) -> Option<Problem> {
    if let Some(problem) = answer.extensions_mut().remove::<Problem>() {
        return Some(problem);
    }
    let status = answer.status();
    let is_error = status.is_client_error() || status.is_server_error();
    let kind = answer.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let is_final = answer.extensions().get::<FinalBody>().is_some()
        || kind.is_some_and(|kind| kind == MEDIA_TYPE.as_bytes() || is_json(kind));
    (is_error && !is_final).then(|| Problem::of_status(status))
}

fn is_json(kind: &[u8]) -> bool {
    kind.starts_with(b"application/json")
}

/// The id from the request, if it is valid in a header and a log line.
fn client_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let value = headers.get(REQUEST_ID)?;
    let is_plain = value.as_bytes().iter().all(u8::is_ascii_graphic);
    (is_plain && (1..=ID_MAX).contains(&value.len())).then(|| value.clone())
}

fn generated_id() -> HeaderValue {
    let text = format!("{:032x}", fastrand::u128(..));
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_accepted_if_it_is_valid_in_a_log_line() {
        let accepted = |text: &'static [u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_bytes(text).unwrap());
            client_id(&headers).is_some()
        };
        assert!(accepted(b"a-1") && accepted(&[b'x'; ID_MAX]));
        assert!(
            !accepted(b"")
                && !accepted(b"a b")
                && !accepted(&[b'x'; ID_MAX + 1])
                && !accepted(b"\xe4")
        );
        assert_eq!(generated_id().len(), 32);
    }
}
