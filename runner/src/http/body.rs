//! Bodies of requests, read within bounds of size, time and memory.

use std::ops::Deref;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::BytesMut;
use futures_util::StreamExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout, timeout_at};

use super::access::Caller;
use super::body_memory::Share;
use super::problem::{MEDIA, Problem, TOO_LARGE, TOO_SLOW};
use super::state::ServerState;

/// Time limit for the next piece of a body.
const PIECE_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for a whole body.
const WHOLE_WITHIN: Duration = Duration::from_secs(60);

/// The body of a request, with its share of the memory for bodies.
pub(super) struct RequestBody {
    stream: axum::body::BodyDataStream,
    share: Share,
}

/// A whole body. It counts in the memory for bodies until it is dropped.
pub(super) struct WholeBody {
    pub(super) bytes: Bytes,
    _share: Share,
}

impl FromRequest<ServerState> for RequestBody {
    type Rejection = Problem;

    async fn from_request(request: Request, server: &ServerState) -> Result<Self, Problem> {
        let caller = request.extensions().get::<Caller>().unwrap_or(&Caller::Anonymous);
        let share = server.bodies.share(caller, server.manifest().server.max_body)?;
        Ok(Self { stream: request.into_body().into_data_stream(), share })
    }
}

impl RequestBody {
    /// The next piece; `None` at the end. The caller counts what it keeps, see [`Self::hold`].
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

    /// Counts this many bytes as the memory of this body.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        self.share.hold(bytes)
    }

    /// The whole body, of at most `max` bytes.
    pub(super) async fn whole(mut self, max: usize) -> Result<WholeBody, Problem> {
        let bytes = match timeout_at(Instant::now() + WHOLE_WITHIN, self.read(max)).await {
            Ok(read) => read?,
            Err(_) => return Err(too_slow(WHOLE_WITHIN)),
        };
        Ok(WholeBody { bytes, _share: self.share })
    }

    async fn read(&mut self, max: usize) -> Result<Bytes, Problem> {
        let Some(first) = self.next().await? else { return Ok(Bytes::new()) };
        self.check(first.len(), max)?;
        // Most bodies arrive in one piece, which need not be copied.
        let Some(second) = self.next().await? else { return Ok(first) };
        let mut all = BytesMut::from(&first[..]);
        let mut piece = Some(second);
        while let Some(bytes) = piece {
            self.check(all.len() + bytes.len(), max)?;
            all.extend_from_slice(&bytes);
            piece = self.next().await?;
        }
        Ok(all.freeze())
    }

    fn check(&mut self, bytes: usize, max: usize) -> Result<(), Problem> {
        if bytes > max { Err(too_large(max)) } else { self.hold(bytes) }
    }
}

impl Deref for WholeBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
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
    body: RequestBody,
) -> Result<T, Problem> {
    read(&json_bytes(headers, body, server.manifest().server.max_body).await?)
}

/// Reads a body whose media type is JSON.
pub(super) async fn json_bytes(
    headers: &HeaderMap,
    body: RequestBody,
    max: usize,
) -> Result<WholeBody, Problem> {
    match media_type(headers).as_deref() {
        Some("application/json") => body.whole(max).await,
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
