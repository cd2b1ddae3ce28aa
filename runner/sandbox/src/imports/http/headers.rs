//! Headers: conversion between the blocks of docs/reference/abi.md and HTTP.
//!
//! A guest cannot set the headers that the host controls: the server's name, the length of the body, and how
//! the connection is used.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, SET_COOKIE};

use super::error::RequestError;
use super::job_headers::ATTEMPT;
use crate::imports::blocks;

/// Headers that the host sets. Those that begin with `proxy-` belong to them.
const HOST_HEADERS: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    ATTEMPT,
];

/// Parses the lines of a block as headers.
pub(super) fn parse(lines: &[u8]) -> Result<HeaderMap, RequestError> {
    let pairs = blocks::read(lines).ok_or(RequestError::Block)?;
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        if HOST_HEADERS.contains(&name) || name.starts_with("proxy-") {
            return Err(RequestError::HostHeader(name.to_owned()));
        }
        let invalid = || RequestError::Header(name.to_owned());
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let value =
            HeaderValue::from_str(value).or_else(|_| HeaderValue::from_bytes(value.as_bytes()));
        headers.append(key, value.map_err(|_| invalid())?);
    }
    Ok(headers)
}

/// Writes headers as a block. `None` if it would exceed the longest block. Values of the same name are
/// joined by `, ` into one line, except for `set-cookie`. A header that is not allowed in a block is omitted.
pub(super) fn block(headers: &HeaderMap) -> Option<String> {
    let mut joined: BTreeMap<&str, String> = BTreeMap::new();
    let mut cookies = Vec::new();
    for (name, value) in headers {
        let Ok(value) = std::str::from_utf8(value.as_bytes()) else { continue };
        if !blocks::can_hold(name.as_str(), value) {
            continue;
        }
        if name == SET_COOKIE {
            cookies.push(value);
            continue;
        }
        match joined.get_mut(name.as_str()) {
            Some(before) => {
                before.push_str(", ");
                before.push_str(value);
            }
            None => {
                joined.insert(name.as_str(), value.to_owned());
            }
        }
    }
    let lines = joined.iter().map(|(name, value)| (*name, value.as_str()));
    let lines = lines.chain(cookies.into_iter().map(|value| (SET_COOKIE.as_str(), value)));
    let text: String = lines.map(|(name, value)| format!("{name}: {value}\n")).collect();
    (text.len() <= blocks::LEN_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_cannot_set_the_headers_of_the_host() {
        for name in HOST_HEADERS.into_iter().chain(["proxy-authorization", "proxy-connection"]) {
            let error = parse(format!("{name}: 1\n").as_bytes()).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        for lines in [&b"Accept: 1\n"[..], b"accept: 1", b"a b: 1\n", b"accept: \x01\n", b"\n"] {
            assert!(parse(lines).is_err(), "{lines:?}");
        }
        let parsed = parse("accept: a\naccept: b\nx-name: ä\n".as_bytes()).unwrap();
        assert_eq!(parsed.get_all("accept").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(parsed.get("x-name").unwrap().as_bytes(), "ä".as_bytes());
    }

    #[test]
    fn a_block_has_one_line_per_name_except_for_cookies() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("vary", &b"a"[..]),
            ("set-cookie", b"a=1, b"),
            ("x-odd", b"tab\there"),
            ("x-latin", b"\xe4"),
            ("set-cookie", b"c=2"),
            ("vary", b"b"),
            ("x~y", b"1"),
            ("age", b""),
        ] {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        let lines = "age: \nvary: a, b\nset-cookie: a=1, b\nset-cookie: c=2\n";
        assert_eq!(block(&headers).as_deref(), Some(lines));
        headers.insert("x-long", HeaderValue::from_str(&"x".repeat(blocks::LEN_MAX)).unwrap());
        assert_eq!(block(&headers), None);
    }
}
