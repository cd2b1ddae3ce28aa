//! The response to a request. It is read whole before the handler sees it, because the host keeps
//! only the last one.

use std::time::Duration;

use crate::abi::{self, Meta};
use crate::block::Block;
use crate::verdict::Verdict;

/// The response to a request, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    status: u16,
    url: String,
    headers: Block,
    body: Vec<u8>,
}

impl Response {
    pub(super) fn read(status: u16, url: &str, head: Vec<u8>, body: Vec<u8>) -> Self {
        let head = String::from_utf8(head).unwrap_or_default();
        Self { status, url: url.to_owned(), headers: Block::read(head), body }
    }

    /// Creates an empty response with this status, for the server of a test
    /// ([`TestJob::server`](crate::testing::TestJob::server)).
    pub fn new(status: u16) -> Self {
        Self::read(status, "", Vec::new(), Vec::new())
    }

    /// Adds a header, for the server of a test. An invalid header is left out, as the host does.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        let _: Result<_, _> = self.headers.line(&name.to_ascii_lowercase(), value);
        self
    }

    /// Sets the body, for the server of a test.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The status, 100 to 599.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The URL of the response: that of the request, or of its last redirect.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A header; the name is case-insensitive. Several headers of one name are joined by `, `; for
    /// `set-cookie` this is the first.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers();
        headers.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// All headers, with names in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.pairs()
    }

    /// The body as received: the host does not decompress it.
    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// Returns the body.
    pub fn into_bytes(self) -> Vec<u8> {
        self.body
    }

    /// The body as text.
    ///
    /// # Errors
    /// Fails if it is not UTF-8, with the position.
    pub fn text(&self) -> Result<&str, std::str::Utf8Error> {
        std::str::from_utf8(&self.body)
    }

    /// The body as JSON, deserialised with serde.
    ///
    /// # Errors
    /// Fails with the position and the reason if it is not what `T` expects.
    #[cfg(feature = "json")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, crate::JsonError> {
        serde_json::from_slice(&self.body)
    }

    /// How long the server asks to wait (`Retry-After`, in seconds or as a date); `None` if the
    /// header is missing or malformed.
    pub fn retry_after(&self) -> Option<Duration> {
        let value = self.header("retry-after")?.trim();
        if let Ok(seconds) = value.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let date = httpdate::parse_http_date(value).ok()?;
        let date = date.duration_since(std::time::UNIX_EPOCH).ok()?;
        let now = Duration::from_millis(u64::try_from(abi::meta_int(Meta::Now)).ok()?);
        Some(date.saturating_sub(now))
    }

    /// The verdict that webhooks conventionally derive from a response. 200 to 299 is an ack. 408,
    /// 429 and 500 to 599 are a nack with the delay that the server asks for. Every other 400 to
    /// 499 is a drop, because a repeat would get the same response. Anything else, such as a
    /// redirect, is a nack.
    pub fn verdict(&self) -> Verdict {
        let reason = format!("the server answered {}", self.status);
        match (self.status, self.retry_after()) {
            (200..=299, _) => Verdict::Ack,
            (408 | 429 | 500..=599, Some(wait)) => Verdict::retry_after(wait, reason),
            (408 | 429 | 500..=599, None) => Verdict::nack(reason),
            (400..=499, _) => Verdict::drop(reason),
            _ => Verdict::nack(reason),
        }
    }

    /// Status, headers and body as the host passes them to the guest.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn into_parts(self) -> (u16, String, Vec<u8>) {
        (self.status, self.headers.into_text(), self.body)
    }
}
