//! Recorded HTTP: the requests that a handler may send in a trial, and their responses. A case has them as
//! `http`, a file of `duebox invoke --http` as `[[http]]`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::case::read_texts;
use super::json::read_bytes;
use super::keys::EXCHANGE;
use super::section::Section;

/// The most exchanges of a case or of a file.
const EXCHANGES_MAX: usize = 1_000;

/// One request and its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The method.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// The body that the request must have; any without one.
    pub sent: Option<Bytes>,
    /// The response, or why the request failed.
    pub response: Result<RecordedResponse, RequestFailure>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedResponse {
    /// The status, from 100 to 599.
    pub status: u16,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Bytes,
}

/// Why a request has no response; the handler receives its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFailure {
    /// The origin cannot be reached.
    Unavailable,
    /// The origin did not respond in time.
    Timeout,
    /// The response is too large.
    TooLarge,
    /// The address is not granted.
    Denied,
}

impl RequestFailure {
    /// Each one with its name and its code in docs/reference/abi.md.
    const ALL: [(&'static str, Self, i32); 4] = [
        ("unavailable", Self::Unavailable, -6),
        ("timeout", Self::Timeout, -5),
        ("too_large", Self::TooLarge, -4),
        ("denied", Self::Denied, -2),
    ];

    /// Its code in docs/reference/abi.md.
    pub fn code(self) -> i32 {
        Self::ALL.iter().find(|(_, known, _)| *known == self).map_or(0, |(_, _, code)| *code)
    }

    /// Its name.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, known, _)| *known == self).map_or("", |(word, _, _)| word)
    }

    /// The failure with this code; `Unavailable` for any other code.
    pub fn of_code(code: i32) -> Self {
        let found = Self::ALL.iter().find(|(_, _, known)| *known == code);
        found.map_or(Self::Unavailable, |(_, failure, _)| *failure)
    }
}

/// Reads the exchanges of a table; none if it has no key `http`.
pub(super) fn read_exchanges(section: &Section<'_>) -> Option<Vec<Exchange>> {
    if section.value("http").is_none() {
        return Some(Vec::new());
    }
    let reader = section.reader();
    let entries = section.list("http")?;
    if entries.len() > EXCHANGES_MAX {
        let count = entries.len();
        let title = format!("there are {count} exchanges; at most {EXCHANGES_MAX} are allowed");
        reader.refuse(section.key_at("http"), title, "split the case");
        return None;
    }
    let read = |entry| {
        let table = reader.table("http", entry, Some(entry.span()))?;
        let exchange = Section::open(reader, table, &EXCHANGE);
        let Some(url) = exchange.text("url") else {
            let title = "an exchange has no `url`".to_owned();
            reader.refuse(Some(entry.span()), title, "write url = \"https://…\"");
            return None;
        };
        Some(Exchange {
            method: exchange.text("method").unwrap_or_else(|| "GET".to_owned()),
            url: url::Url::parse(&url).map_or(url, |url| url.to_string()),
            sent: read_body(&exchange, "sent", "sent_base64"),
            response: read_response(&exchange)?,
        })
    };
    entries.iter().map(read).collect::<Vec<_>>().into_iter().collect()
}

/// A body as text or JSON, or in base64 under its other key.
fn read_body(exchange: &Section<'_>, key: &str, base64_key: &str) -> Option<Bytes> {
    let Some(text) = exchange.text(base64_key) else { return read_bytes(exchange, key) };
    let decoded = STANDARD.decode(text);
    if let Err(error) = &decoded {
        let title = format!("`{base64_key}` is not base64: {error}");
        exchange.reader().refuse(exchange.value_at(base64_key), title, "write `body` for a text");
    }
    decoded.ok().map(Bytes::from)
}

fn read_response(exchange: &Section<'_>) -> Option<Result<RecordedResponse, RequestFailure>> {
    if exchange.value("error").is_some() {
        let words = RequestFailure::ALL.map(|(word, failure, _)| (word, failure));
        return exchange.choice("error", &words).map(Err);
    }
    let status = match exchange.value("status") {
        None => Some(200),
        Some(_) => exchange.integer("status", 100..=599),
    };
    let headers = read_texts(exchange, "headers").unwrap_or_default();
    let named = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
    Some(Ok(RecordedResponse {
        status: u16::try_from(status?).ok()?,
        headers: headers.into_iter().map(named).collect(),
        body: read_body(exchange, "body", "body_base64").unwrap_or_default(),
    }))
}
