//! Bodies of requests, read within bounds of size and time.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use bytes::BytesMut;
use futures_util::StreamExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use super::problem::{MEDIA, Problem, TOO_LARGE, TOO_SLOW};
use super::state::ServerState;

/// Time limit for the next piece of a body.
const PIECE_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for a whole body.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);

/// A body that is read piece by piece.
pub(super) struct Pieces {
    stream: axum::body::BodyDataStream,
}

impl Pieces {
    pub(super) fn of(body: Body) -> Self {
        Self { stream: body.into_data_stream() }
    }

    /// The next piece; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        match timeout(PIECE_WITHIN, self.stream.next()).await {
            Err(_) => Err(too_slow(PIECE_WITHIN)),
            Ok(None) => Ok(None),
            Ok(Some(Ok(piece))) => Ok(Some(piece)),
            Ok(Some(Err(error))) => Err(Problem::bad(
                format!("the body cannot be read: {error}"),
                "send as many bytes as Content-Length states, and complete gzip data",
            )),
        }
    }
}

/// A body of at most `max` bytes.
pub(super) async fn whole(body: Body, max: usize) -> Result<Bytes, Problem> {
    let until = Instant::now() + WHOLE_WITHIN;
    let mut pieces = Pieces::of(body);
    let next = async |pieces: &mut Pieces| match timeout_at(until, pieces.next()).await {
        Ok(next) => next,
        Err(_) => Err(too_slow(WHOLE_WITHIN)),
    };
    let Some(first) = next(&mut pieces).await? else { return Ok(Bytes::new()) };
    if first.len() > max {
        return Err(too_large(max));
    }
    // Most bodies arrive in one piece, which need not be copied.
    let Some(second) = next(&mut pieces).await? else { return Ok(first) };
    let mut all = BytesMut::from(&first[..]);
    let mut piece = Some(second);
    while let Some(bytes) = piece {
        if all.len() + bytes.len() > max {
            return Err(too_large(max));
        }
        all.extend_from_slice(&bytes);
        piece = next(&mut pieces).await?;
    }
    Ok(all.freeze())
}

fn too_slow(within: Duration) -> Problem {
    Problem::new(
        TOO_SLOW,
        format!("no more of the body arrived within {} s", within.as_secs()),
        "send it faster, or in several requests",
    )
}

pub(super) fn too_large(max: usize) -> Problem {
    Problem::new(
        TOO_LARGE,
        format!("the body is longer than {max} bytes"),
        "send several requests, or raise server.max_body",
    )
}

/// The media type of a body in lower case, without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let essence = value.split(';').next().unwrap_or_default();
    Some(essence.trim().to_ascii_lowercase())
}

/// The error for an unsupported media type.
pub(super) fn wrong_type(found: Option<&str>, expected: &str) -> Problem {
    let detail = match found {
        Some(found) => format!("the body has type {found:?}; expected {expected}"),
        None => format!("the body has no Content-Type; expected {expected}"),
    };
    Problem::new(MEDIA, detail, format!("send Content-Type: {expected}")).of("Content-Type")
}

/// Reads a body as a JSON object of this type.
pub(super) async fn json<T: DeserializeOwned>(
    server: &ServerState,
    headers: &HeaderMap,
    body: Body,
) -> Result<T, Problem> {
    read(&json_bytes(headers, body, server.manifest().server.max_body).await?)
}

/// Reads a body whose media type is JSON.
pub(super) async fn json_bytes(
    headers: &HeaderMap,
    body: Body,
    max: usize,
) -> Result<Bytes, Problem> {
    match media_type(headers).as_deref() {
        Some("application/json") => whole(body, max).await,
        other => Err(wrong_type(other, "application/json")),
    }
}

/// Parses a JSON object of this type.
pub(super) fn read<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Problem> {
    let remedy = "see the schema of the body in /openapi.json";
    // Serde would accept an array as the fields in their order.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(Problem::bad("the body is not a JSON object", remedy));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad(format!("the body is invalid: {error}"), remedy))
}
