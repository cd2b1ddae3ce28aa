//! A request as a guest wrote it: `METHOD url`, a block of headers, and a body. It is parsed completely
//! before anything is sent, and an ambiguous request is refused.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use url::Url;

use super::error::{HttpError, RequestError};
use super::headers;
use crate::imports::blocks;

/// The longest first line, in bytes.
const LINE_MAX: usize = 8 << 10;

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The time limit of the whole exchange. `None` for the rest of the job's ttr.
    pub(super) timeout: Option<Duration>,
}

impl Request {
    /// Parses a head. A timeout of 0 ms means no time limit.
    pub(super) fn parse(head: &[u8], timeout_ms: u32) -> Result<Self, HttpError> {
        let first = &head[..head.len().min(LINE_MAX + 1)];
        let end = first.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(head.len()) > LINE_MAX {
            return Err(HttpError::LineTooLong { max: LINE_MAX });
        }
        let end = end.ok_or(RequestError::NoLine)?;
        let (line, lines) = (&head[..end], &head[end + 1..]);
        if lines.len() > blocks::LEN_MAX {
            return Err(HttpError::HeadersTooLong);
        }
        let line = std::str::from_utf8(line).map_err(|_| RequestError::NotUtf8)?;
        let (method, url) = line.split_once(' ').ok_or(RequestError::Line)?;
        Ok(Self {
            method: parse_method(method)?,
            url: parse_url(url)?,
            headers: headers::parse(lines)?,
            body: Bytes::new(),
            timeout: (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms.into())),
        })
    }

    pub(super) fn with_body(self, body: Bytes) -> Self {
        Self { body, ..self }
    }

    /// The request for the HTTP library. With an empty body, methods that usually have one get a
    /// `content-length: 0`, which some servers require.
    pub(super) fn into_reqwest(self) -> reqwest::Request {
        let usually_has_body = matches!(self.method, Method::POST | Method::PUT | Method::PATCH);
        let mut request = reqwest::Request::new(self.method, self.url);
        *request.headers_mut() = self.headers;
        if !self.body.is_empty() {
            *request.body_mut() = Some(self.body.into());
        } else if usually_has_body {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        request
    }
}

fn parse_method(text: &str) -> Result<Method, RequestError> {
    match Method::from_bytes(text.as_bytes()) {
        // CONNECT asks a proxy for a tunnel, and there is no proxy.
        Ok(Method::CONNECT) | Err(_) => Err(RequestError::Method),
        Ok(method) => Ok(method),
    }
}

/// Parses an absolute URL. Refuses what URL parsers interpret differently: users, backslashes and blanks.
fn parse_url(text: &str) -> Result<Url, RequestError> {
    let ambiguous = |c: char| c == '\\' || c.is_whitespace() || c.is_control();
    if text.contains(ambiguous) {
        return Err(RequestError::UrlCharacter);
    }
    let mut url = Url::parse(text)?;
    if !url.has_host() {
        return Err(RequestError::NoHost);
    }
    let authority = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(RequestError::UserInfo);
    }
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(head: &str) -> HttpError {
        Request::parse(head.as_bytes(), 0).unwrap_err()
    }

    #[test]
    fn a_head_has_a_method_a_url_and_a_block() {
        let head = b"POST https://Shop.example:8443/a?b=c#d\naccept: x\n";
        let request = Request::parse(head, 1_500).unwrap();
        assert_eq!(request.method, Method::POST);
        assert_eq!(request.url.as_str(), "https://shop.example:8443/a?b=c");
        assert_eq!(request.headers.get("accept").unwrap(), "x");
        assert_eq!(request.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(Request::parse(b"PURGE http://a.example\n", 0).unwrap().timeout, None);
    }

    #[test]
    fn a_malformed_request_is_refused_as_a_whole() {
        for head in [
            "",
            "GET http://a.example/",
            "GET\n",
            "http://a.example/\n",
            "GET  http://a.example/\n",
            "GET http://a.example/ HTTP/1.1\n",
            "G(T http://a.example/\n",
            "CONNECT http://a.example/\n",
            "GET /path\n",
            "GET a.example/\n",
            "GET http://\n",
            "GET mailto:a@b.example\n",
            "GET http://a.example:99999/\n",
            "GET http://user@a.example/\n",
            "GET http://user:word@a.example/\n",
            "GET http://@a.example/\n",
            "GET http://a.example\\@b.example/\n",
            "GET http://[fe80::1%25eth0]/\n",
            "GET http://a.example/\r\n",
            "GET http://a.example/\nhost: b.example\n",
            "GET http://a.example/\naccept: x",
        ] {
            assert!(matches!(error(head), HttpError::Request(_)), "{head:?}");
        }
        assert!(Request::parse(b"GET http://a.example/\xff\n", 0).is_err());
    }

    #[test]
    fn the_length_of_a_head_is_limited() {
        let long = |length: usize| format!("GET http://a.example/{}\n", "x".repeat(length));
        assert!(Request::parse(long(LINE_MAX - 21).as_bytes(), 0).is_ok());
        assert!(matches!(error(&long(LINE_MAX - 20)), HttpError::LineTooLong { .. }));
        assert!(matches!(error(&"x".repeat(LINE_MAX + 1)), HttpError::LineTooLong { .. }));
        let lines = format!("GET http://a.example/\na: {}\n", "x".repeat(blocks::LEN_MAX));
        assert!(matches!(error(&lines), HttpError::HeadersTooLong));
    }
}
