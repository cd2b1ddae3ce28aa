//! The server that cases talk to: it answers as it is asked to.

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

/// How much of a stream goes out at once, in bytes.
const PIECE: usize = 10_000;

/// The routes; README.md has them. `store` is the one that the handlers see.
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

/// The request's body, and each of its headers under another name.
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

/// An empty body with this status, and the headers of the query.
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

/// So many bytes, their number told before.
async fn whole(Path(length): Path<usize>) -> Vec<u8> {
    pattern(length)
}

/// The same, their number not told.
async fn streamed(Path(length): Path<usize>) -> Body {
    let bytes = Bytes::from(pattern(length));
    let starts = (0..length).step_by(PIECE);
    let pieces = starts.map(move |start| bytes.slice(start..length.min(start + PIECE)));
    Body::from_stream(stream::iter(pieces.map(Ok::<_, std::io::Error>)))
}

/// Some bytes, and then the connection is gone.
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

/// Answers when a key of the store has no value any more.
async fn gone(State(store): State<Arc<MemoryKv>>, Path(key): Path<String>) -> Result<(), String> {
    let topic = topic()?;
    let mut look = tokio::time::interval(Duration::from_millis(2));
    loop {
        look.tick().await;
        let found = store.get(&topic, key.as_bytes()).await.map_err(|error| error.to_string())?;
        if found.is_none() {
            return Ok(());
        }
    }
}

/// The topic of the cases that keep values.
fn topic() -> Result<TopicName, String> {
    TopicName::new("conformance").map_err(|error| error.to_string())
}
