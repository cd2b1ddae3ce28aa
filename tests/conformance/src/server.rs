//! The test server: each path asks for a certain response.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{any, put};
use duebox_job::TopicName;
use duebox_sandbox::{KeyValue as _, KvCondition, MemoryKv};
use futures_util::stream;

/// Bytes per piece of a streamed body.
const PIECE: usize = 10_000;

/// The routes; README.md lists them. `store` is the store of the handlers.
pub(crate) fn router(store: Arc<MemoryKv>) -> Router {
    Router::new()
        .route("/echo", any(echo))
        .route("/answer/{status}", any(answer))
        .route("/bytes/{length}", any(whole))
        .route("/stream/{length}", any(streamed))
        .route("/broken", any(broken))
        .route("/never", any(std::future::pending::<()>))
        .route("/store/{key}", put(write))
        .route("/gone/{key}", any(gone))
        .with_state(store)
}

/// Responds with the request's body, and each of its headers under another name.
async fn echo(method: Method, headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    let mut seen = HeaderMap::new();
    for (name, value) in &headers {
        if let Ok(name) = HeaderName::try_from(format!("echo-{name}")) {
            seen.append(name, value.clone());
        }
    }
    if let Ok(method) = HeaderValue::from_str(method.as_str()) {
        seen.insert("echo-method", method);
    }
    (seen, body)
}

/// Responds with this status, the headers of the query, and an empty body.
async fn answer(
    Path(status): Path<u16>,
    Query(headers): Query<Vec<(String, String)>>,
) -> Result<(StatusCode, HeaderMap), String> {
    let mut sent = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
        sent.append(name, HeaderValue::try_from(value).map_err(|error| error.to_string())?);
    }
    Ok((StatusCode::from_u16(status).map_err(|error| error.to_string())?, sent))
}

fn pattern(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

/// Responds with this many bytes and a content-length.
async fn whole(Path(length): Path<usize>) -> Vec<u8> {
    pattern(length)
}

/// Responds with this many bytes without a content-length.
async fn streamed(Path(length): Path<usize>) -> Body {
    let bytes = Bytes::from(pattern(length));
    let starts = (0..length).step_by(PIECE);
    let pieces = starts.map(move |start| bytes.slice(start..length.min(start + PIECE)));
    Body::from_stream(stream::iter(pieces.map(Ok::<_, std::io::Error>)))
}

/// Sends some bytes and then closes the connection.
async fn broken() -> Body {
    let pieces = [Ok(Bytes::from_static(b"some")), Err(std::io::Error::other("broken on purpose"))];
    Body::from_stream(stream::iter(pieces))
}

/// Writes a key of the store, as another job would.
async fn write(
    State(store): State<Arc<MemoryKv>>,
    Path(key): Path<String>,
    value: Bytes,
) -> Result<(), String> {
    let written = store.set(&topic()?, key.as_bytes(), value, None, KvCondition::Always).await;
    written.map(|_| ()).map_err(|error| error.to_string())
}

/// Responds when a key of the store has no value any more.
async fn gone(State(store): State<Arc<MemoryKv>>, Path(key): Path<String>) -> Result<(), String> {
    let topic = topic()?;
    let mut poll = tokio::time::interval(Duration::from_millis(2));
    loop {
        poll.tick().await;
        let found = store.get(&topic, key.as_bytes()).await.map_err(|error| error.to_string())?;
        if found.is_none() {
            return Ok(());
        }
    }
}

/// The topic of the cases that use the store.
fn topic() -> Result<TopicName, String> {
    TopicName::new("conformance").map_err(|error| error.to_string())
}
