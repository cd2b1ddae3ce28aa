//! Headers between the blocks of docs/reference/abi.md and HTTP. What the host decides about an exchange (who is asked, how
//! long a body is, how a connection lives) no guest can say.

use std::collections::BTreeMap;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue, SET_COOKIE};

use crate::imports::blocks as block;

/// Headers of the host's own; all that begin with `proxy-` are too.
const OWN: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    super::marks::ATTEMPT,
];

/// Reads the lines of a block as headers. The error says what is wrong.
pub(super) fn read(lines: &[u8]) -> Result<HeaderMap, String> {
    let pairs = block::read(lines).ok_or(
        "the head is not `METHOD url` and lines of `name: value`, names in lower case, each with its end",
    )?;
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        if OWN.contains(&name) || name.starts_with("proxy-") {
            return Err(format!("the header {name} is the host's own; leave it out"));
        }
        let bad = || format!("the header {name} cannot be sent as it is");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let value =
            HeaderValue::from_str(value).or_else(|_| HeaderValue::from_bytes(value.as_bytes()));
        headers.append(key, value.map_err(|_| bad())?);
    }
    Ok(headers)
}

/// Writes headers as a block; `None` if it would be longer than one may be. Several of one name become one
/// line, joined by `, `, but for `set-cookie`, which stays several. What cannot stand in a block is left out.
pub(super) fn block(headers: &HeaderMap) -> Option<String> {
    let mut joined: BTreeMap<&str, String> = BTreeMap::new();
    let mut cookies = Vec::new();
    for (name, value) in headers {
        let Ok(value) = std::str::from_utf8(value.as_bytes()) else { continue };
        if !block::can_hold(name.as_str(), value) {
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
    (text.len() <= block::LEN_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_owns_no_guest_sends() {
        for name in OWN.into_iter().chain(["proxy-authorization", "proxy-connection"]) {
            let error = read(format!("{name}: 1\n").as_bytes()).unwrap_err();
            assert!(error.contains(name), "{error}");
        }
        for lines in [&b"Accept: 1\n"[..], b"accept: 1", b"a b: 1\n", b"accept: \x01\n", b"\n"] {
            assert!(read(lines).is_err(), "{lines:?}");
        }
        let read = read("accept: a\naccept: b\nx-name: ä\n".as_bytes()).unwrap();
        assert_eq!(read.get_all("accept").iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(read.get("x-name").unwrap().as_bytes(), "ä".as_bytes());
    }

    #[test]
    fn a_block_has_one_line_a_name_but_for_cookies() {
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
        headers.insert("x-long", HeaderValue::from_str(&"x".repeat(block::LEN_MAX)).unwrap());
        assert_eq!(block(&headers), None);
    }
}
