//! Content negotiation. A request whose `Accept` excludes the only media type of its path is
//! refused before it is processed.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::body::media_type;
use super::problem::{NOT_ACCEPTABLE, Problem};

/// Refuses a request that excludes the media type of its response.
pub(super) async fn accept(request: Request, next: Next) -> Response {
    let kind = response_type(&request);
    if accepts(request.headers(), kind) {
        return next.run(request).await;
    }
    let detail = format!("the response is {kind}, which Accept excludes; nothing was done");
    let remedy = format!("send Accept: {kind}, or no Accept");
    Problem::new(NOT_ACCEPTABLE, detail, remedy).of("Accept").into_response()
}

/// The media type of the response.
fn response_type(request: &Request) -> &'static str {
    if request.uri().path() == "/v1/events" {
        return "text/event-stream";
    }
    match media_type(request.headers()).as_deref() {
        Some("application/x-ndjson" | "application/jsonl") => "application/x-ndjson",
        _ => "application/json",
    }
}

/// Whether `Accept` allows this media type: the most specific matching range decides. Without a
/// readable range, everything is allowed.
fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let lines = headers.get_all(header::ACCEPT).iter().map(HeaderValue::to_str);
    let texts = lines.map(Result::unwrap_or_default).flat_map(|line| line.split(','));
    let ranges: Vec<(&str, bool)> = texts.filter_map(read_range).collect();
    let best =
        ranges.iter().filter_map(|(range, is_allowed)| Some((fit(range, kind)?, is_allowed)));
    match best.max_by_key(|(fit, _)| *fit) {
        Some((_, is_allowed)) => *is_allowed,
        None => ranges.is_empty(),
    }
}

/// A media range, and whether it is allowed (`q` above 0).
fn read_range(text: &str) -> Option<(&str, bool)> {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().filter(|range| range.contains('/'))?;
    let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
    let is_allowed = weight.and_then(|weight| weight.parse::<f32>().ok()) != Some(0.0);
    Some((range, is_allowed))
}

/// How specifically a range matches a media type; `None` if it does not match.
fn fit(range: &str, kind: &str) -> Option<u8> {
    if range.eq_ignore_ascii_case(kind) {
        return Some(2);
    }
    let (whole, of_kind) = (range.strip_suffix("/*")?, kind.split('/').next()?);
    match whole {
        "*" => Some(0),
        whole => whole.eq_ignore_ascii_case(of_kind).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_range_decides() {
        let accepted = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            accepts(&headers, "application/json")
        };
        for accept in [
            "application/json",
            "Application/JSON; charset=utf-8",
            "text/html, */*;q=0.1",
            "application/*",
            "*/*;q=0, application/json",
            "",
            "nonsense",
        ] {
            assert!(accepted(accept), "{accept}");
        }
        for accept in [
            "text/html",
            "text/*, image/png",
            "application/json;q=0",
            "*/*;q=0.0",
            "application/*;q=0, */*",
        ] {
            assert!(!accepted(accept), "{accept}");
        }
        assert!(accepts(&HeaderMap::new(), "application/json"));
    }
}
