//! CORS: pages of other sites that the manifest allows (`server.cors`) may send requests and read
//! the responses.
//!
//! Origins must match exactly, and no response allows credentials: a page sends its own token, and
//! the session cookie of the page at `/` is useless to other sites.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tower::{Layer, ServiceExt};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use super::exchange::REQUEST_ID;
use super::state::ServerState;

/// How long a browser may cache a preflight response.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(600);
/// The methods of the API.
const METHODS: [Method; 4] = [Method::GET, Method::HEAD, Method::POST, Method::DELETE];
/// Response headers that a page may read.
const EXPOSED_HEADERS: [header::HeaderName; 3] =
    [REQUEST_ID, header::RETRY_AFTER, header::WWW_AUTHENTICATE];

/// Answers preflight requests, and lets listed pages read their responses. The current manifest
/// lists the origins.
pub(super) async fn cors(
    State(server): State<ServerState>,
    request: Request,
    next: Next,
) -> Response {
    let listed = &server.manifest().server.cors;
    if listed.is_empty() {
        return next.run(request).await;
    }
    if !is_listed(listed, request.headers()) || is_plain_options(&request) {
        let mut answer = next.run(request).await;
        // The response differs for listed pages, so a cache must not mix the two.
        answer.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
        return answer;
    }
    match layer().layer(next).oneshot(request).await {
        Ok(answer) => answer.into_response(),
        Err(never) => match never {},
    }
}

/// Whether the request comes from a listed page.
pub(super) fn is_listed(listed: &[String], headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let is_listed = |origin: &HeaderValue| listed.iter().any(|listed| origin == listed.as_str());
    origins.next().is_some_and(is_listed) && origins.next().is_none()
}

/// An `OPTIONS` request that is not a preflight; no path supports it.
fn is_plain_options(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && !request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The CORS layer for listed pages.
fn layer() -> CorsLayer {
    CorsLayer::new()
        // The origin is already checked.
        .allow_origin(AllowOrigin::predicate(|_: &HeaderValue, _: &Parts| true))
        .allow_methods(METHODS)
        // Job options are headers with arbitrary names.
        .allow_headers(AllowHeaders::mirror_request())
        // The server often has a private address.
        .allow_private_network(true)
        .expose_headers(EXPOSED_HEADERS)
        .max_age(PREFLIGHT_MAX_AGE)
}
