//! Pages of other sites that the manifest lets in (`server.cors`): what a browser asks before it sends their
//! requests, and what it must read in the answers to show these to them.
//!
//! Origins are exact, and no answer allows credentials: a page brings its token along itself, and what the
//! browser keeps for this address, such as the session of the page at `/`, is nothing to other sites.

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

/// How long a browser may remember what it was allowed.
const REMEMBERED: Duration = Duration::from_secs(600);
/// The methods of the API.
const METHODS: [Method; 4] = [Method::GET, Method::HEAD, Method::POST, Method::DELETE];
/// What a page may read of an answer beside its body.
const SHOWN: [header::HeaderName; 3] = [REQUEST_ID, header::RETRY_AFTER, header::WWW_AUTHENTICATE];

/// Answers what a browser asks beforehand, and lets the pages that are listed read their answers. The
/// manifest that holds now says which these are.
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
        // The answer is another one for pages that are listed: no cache may mix the two up.
        answer.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
        return answer;
    }
    match layer().layer(next).oneshot(request).await {
        Ok(answer) => answer.into_response(),
        Err(never) => match never {},
    }
}

/// Whether the request comes from a page that is let in.
pub(super) fn is_listed(listed: &[String], headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let is_listed = |origin: &HeaderValue| listed.iter().any(|listed| origin == listed.as_str());
    origins.next().is_some_and(is_listed) && origins.next().is_none()
}

/// `OPTIONS` that asks for nothing: no path has it.
fn is_plain_options(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && !request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// What the library answers a page that is listed.
fn layer() -> CorsLayer {
    CorsLayer::new()
        // It was looked at already.
        .allow_origin(AllowOrigin::predicate(|_: &HeaderValue, _: &Parts| true))
        .allow_methods(METHODS)
        // Options of a job stand in headers that nobody can list.
        .allow_headers(AllowHeaders::mirror_request())
        // The address is private more often than not.
        .allow_private_network(true)
        .expose_headers(SHOWN)
        .max_age(REMEMBERED)
}
