//! Responses in gzip. What never changes is compressed once. Of the other responses only so many are compressed at a
//! time: a compressor takes more than 100 kB for as long as its client takes to read. The rest are sent as they are.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Body as _;
use tokio::sync::Semaphore;

use super::holding_body::HoldingBody;

/// Responses of at least this many bytes are compressed for clients that accept gzip.
const COMPRESS_FROM: u64 = 1_024;
/// How many responses are compressed at a time.
const COMPRESSORS_MAX: usize = 32;

/// The compressors that are free.
#[derive(Clone)]
pub(super) struct Compressors(Arc<Semaphore>);

/// Marks a response that holds a compressor.
#[derive(Clone)]
struct HoldsCompressor;

/// Content that never changes while the daemon runs.
pub(super) struct Constant {
    plain: Bytes,
    packed: OnceLock<Bytes>,
}

impl Default for Compressors {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(COMPRESSORS_MAX)))
    }
}

impl Compressors {
    /// Gives a compressor to a response that is worth it, if one is free.
    pub(super) async fn give(
        State(Self(free)): State<Self>,
        request: Request,
        next: Next,
    ) -> Response {
        let accepts = accepts_gzip(request.headers());
        let response = next.run(request).await;
        if !accepts || !is_worth_it(&response) {
            return response;
        }
        let Ok(compressor) = free.try_acquire_owned() else { return response };
        let (mut parts, body) = response.into_parts();
        parts.extensions.insert(HoldsCompressor);
        Response::from_parts(parts, Body::new(HoldingBody::new(body, compressor)))
    }
}

/// Whether a response holds a compressor.
pub(super) fn holds_compressor(
    _: StatusCode,
    _: Version,
    _: &HeaderMap,
    extensions: &Extensions,
) -> bool {
    extensions.get::<HoldsCompressor>().is_some()
}

/// Events are sent one by one, not when a block is full.
fn is_worth_it(response: &Response) -> bool {
    let headers = response.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_small = response.body().size_hint().exact().is_some_and(|size| size < COMPRESS_FROM);
    let are_events = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    !is_small && !are_events && !headers.contains_key(header::CONTENT_ENCODING)
}

/// Whether a client accepts gzip (RFC 9110, section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(header::ACCEPT_ENCODING).iter();
    let codings = codings.filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(','));
    codings.into_iter().any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_gzip && weight.is_none_or(|weight| weight.parse::<f32>().is_ok_and(|q| q > 0.0))
    })
}

impl Constant {
    pub(super) fn new(plain: impl Into<Bytes>) -> Self {
        Self { plain: plain.into(), packed: OnceLock::new() }
    }

    /// The response with this content, compressed if the request accepts that.
    pub(super) fn response(&self, request: &HeaderMap, kind: &'static str) -> Response {
        let is_packed = accepts_gzip(request) && self.plain.len() as u64 >= COMPRESS_FROM;
        let content = if is_packed { self.packed() } else { &self.plain };
        let mut response = content.clone().into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if is_packed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }

    fn packed(&self) -> &Bytes {
        self.packed.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to memory does not fail.
            drop(encoder.write_all(&self.plain));
            encoder.finish().unwrap_or_default().into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_accepted_where_its_weight_is_not_0() {
        let accepts = |text| {
            let value = HeaderValue::from_static(text);
            accepts_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]))
        };
        for text in ["gzip", "br, GZIP", "deflate;q=1, gzip;q=0.5"] {
            assert!(accepts(text), "{text}");
        }
        for text in ["", "br", "gzip;q=0", "gzip; q=0.0", "gzip;q=much"] {
            assert!(!accepts(text), "{text}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn no_more_responses_are_compressed_than_there_are_compressors() {
        use axum::Router;
        use axum::routing::get;
        use tower::ServiceExt as _;
        let compressors = Compressors::default();
        let app = Router::new()
            .route("/", get(async || "x".repeat(10_000)))
            .layer(axum::middleware::from_fn_with_state(compressors, Compressors::give));
        let ask = || Request::get("/").header("accept-encoding", "gzip").body(Body::empty());
        let holds = |answer: &Response| answer.extensions().get::<HoldsCompressor>().is_some();
        let mut answers = Vec::new();
        for _ in 0..=COMPRESSORS_MAX {
            answers.push(app.clone().oneshot(ask().unwrap()).await.unwrap());
        }
        assert_eq!(answers.iter().filter(|answer| holds(answer)).count(), COMPRESSORS_MAX);
        answers.clear();
        assert!(holds(&app.oneshot(ask().unwrap()).await.unwrap()));
    }
}
