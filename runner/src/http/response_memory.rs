//! The memory that the responses of all requests may take together, until their clients have taken them.
//!
//! While the responses of a token take all that it may, its requests are refused before they do anything. A read whose response
//! finds no memory is refused as well. What a request has done is always answered.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;

use super::access::Caller;
use super::holding_body::HoldingBody;
use super::state::ServerState;

/// Counts the response to a request. A stream of events has no known size; the number of its readers is limited
/// (`event_readers.rs`).
pub(super) async fn count(
    State(server): State<ServerState>,
    request: Request,
    next: Next,
) -> Response {
    let caller = request.extensions().get::<Caller>().cloned().unwrap_or(Caller::Anonymous);
    let is_read = request.method().is_safe();
    let share = || server.responses.share(&caller, server.manifest().server.max_body);
    if let Err(problem) = share() {
        return problem.into_response();
    }
    let response = next.run(request).await;
    let Some(bytes) = response.body().size_hint().exact() else { return response };
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    let counted = share().and_then(|mut share| share.hold(bytes).map(|()| share));
    match counted {
        Ok(share) => response.map(|body| Body::new(HoldingBody::new(body, share))),
        Err(problem) if is_read => problem.into_response(),
        Err(_) => response,
    }
}
