//! A request as a guest wrote it: `METHOD url`, a block of headers, a body. It is read whole before anything
//! is sent, and what could mean two things is refused.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderValue};
use url::Url;

use super::error::HttpError;
use super::headers;
use crate::imports::blocks as block;

/// The longest first line, in bytes.
const LINE_MAX: usize = 8 << 10;

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    body: Bytes,
    /// How long the whole exchange may take; `None` for as long as the job has.
    pub(super) timeout: Option<Duration>,
}

impl Request {
    /// Reads a head. A timeout of 0 milliseconds is none.
    pub(super) fn read(head: &[u8], timeout_ms: u32) -> Result<Self, HttpError> {
        let end = head.iter().position(|byte| *byte == b'\n');
        if end.unwrap_or(head.len()) > LINE_MAX {
            let text = format!("the first line of the head is over {LINE_MAX} bytes");
            return Err(HttpError::TooLarge(text));
        }
        let end = end.ok_or_else(|| invalid("the head has no line `METHOD url` with its end"))?;
        let (line, lines) = (&head[..end], &head[end + 1..]);
        if lines.len() > block::LEN_MAX {
            let text = format!("the headers are over {} bytes", block::LEN_MAX);
            return Err(HttpError::TooLarge(text));
        }
        let line = std::str::from_utf8(line).map_err(|_| invalid("the first line is not UTF-8"))?;
        let (method, url) =
            line.split_once(' ').ok_or_else(|| invalid("the first line is not `METHOD url`"))?;
        Ok(Self {
            method: read_method(method)?,
            url: read_url(url)?,
            headers: headers::read(lines).map_err(HttpError::Invalid)?,
            body: Bytes::new(),
            timeout: (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms.into())),
        })
    }

    pub(super) fn with_body(self, body: &[u8]) -> Self {
        Self { body: Bytes::copy_from_slice(body), ..self }
    }

    /// The same as the library sends it. A method that is expected to have a body says so where that is empty:
    /// there are servers that want to be told a length.
    pub(super) fn into_sent(self) -> reqwest::Request {
        let expected = matches!(self.method, Method::POST | Method::PUT | Method::PATCH);
        let mut sent = reqwest::Request::new(self.method, self.url);
        *sent.headers_mut() = self.headers;
        if !self.body.is_empty() {
            *sent.body_mut() = Some(self.body.into());
        } else if expected {
            sent.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        sent
    }
}

fn invalid(what: &str) -> HttpError {
    HttpError::Invalid(what.to_owned())
}

fn read_method(text: &str) -> Result<Method, HttpError> {
    match Method::from_bytes(text.as_bytes()) {
        // It asks a proxy for a tunnel; there is none.
        Ok(Method::CONNECT) | Err(_) => {
            Err(invalid("the first word is no method that can be sent: GET, POST, PUT …"))
        }
        Ok(method) => Ok(method),
    }
}

/// Reads an absolute URL. What readers of URLs disagree about (users, backslashes, blanks) is refused.
fn read_url(text: &str) -> Result<Url, HttpError> {
    let odd = |c: char| c == '\\' || c.is_whitespace() || c.is_control();
    if text.contains(odd) {
        return Err(invalid("the URL has a blank, a backslash or a control character"));
    }
    let mut url = Url::parse(text)
        .map_err(|error| HttpError::Invalid(format!("the URL does not parse: {error}")))?;
    if !url.has_host() {
        return Err(invalid("the URL names no host"));
    }
    let authority = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(invalid("the URL has a user in it; send an authorization header instead"));
    }
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(head: &str) -> HttpError {
        Request::read(head.as_bytes(), 0).unwrap_err()
    }

    #[test]
    fn a_head_is_a_method_a_url_and_a_block() {
        let head = b"POST https://Shop.example:8443/a?b=c#d\naccept: x\n";
        let request = Request::read(head, 1_500).unwrap();
        assert_eq!(request.method, Method::POST);
        assert_eq!(request.url.as_str(), "https://shop.example:8443/a?b=c");
        assert_eq!(request.headers.get("accept").unwrap(), "x");
        assert_eq!(request.timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(Request::read(b"PURGE http://a.example\n", 0).unwrap().timeout, None);
    }

    #[test]
    fn what_is_no_request_is_refused_whole() {
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
            assert!(matches!(error(head), HttpError::Invalid(_)), "{head:?}");
        }
        assert!(Request::read(b"GET http://a.example/\xff\n", 0).is_err());
    }

    #[test]
    fn a_head_has_an_end() {
        let long = |length: usize| format!("GET http://a.example/{}\n", "x".repeat(length));
        assert!(Request::read(long(LINE_MAX - 21).as_bytes(), 0).is_ok());
        assert!(matches!(error(&long(LINE_MAX - 20)), HttpError::TooLarge(_)));
        assert!(matches!(error(&"x".repeat(LINE_MAX + 1)), HttpError::TooLarge(_)));
        let lines = format!("GET http://a.example/\na: {}\n", "x".repeat(block::LEN_MAX));
        assert!(matches!(error(&lines), HttpError::TooLarge(_)));
    }
}
