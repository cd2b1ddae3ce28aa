//! The target of a redirect, and which parts of the request are sent to it (RFC 9110, 15.4).
//!
//! Invariant: credentials are sent on only if scheme, host and port are written as before, except
//! for case. A doubtful target counts as another origin or is not followed. The host checks each
//! hop against the grant anew.

use crate::http::{Request, Response};

/// The request that the response redirects to; `None` if it is not a redirect that can be followed.
pub(super) fn next(mut request: Request, response: &Response) -> Option<Request> {
    if !matches!(response.status(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let url = target(&request.url, response.header("location")?)?;
    let becomes_get = match response.status() {
        303 => request.method != "HEAD",
        301 | 302 => request.method == "POST",
        _ => false,
    };
    if becomes_get {
        request.method = "GET".to_owned();
        request.body.clear();
        request.headers.retain(|(name, _)| !name.starts_with("content-"));
    }
    if !origin(&request.url)?.eq_ignore_ascii_case(origin(&url)?) {
        request.headers.retain(|(name, _)| name != "authorization" && name != "cookie");
    }
    request.url = url;
    Some(request)
}

/// Resolves a `Location` against `base` into an absolute URL without fragment. The host resolves
/// dot segments in the path.
fn target(base: &str, location: &str) -> Option<String> {
    let location = location.split('#').next()?;
    if is_doubtful(location) {
        return None;
    }
    let origin = origin(base)?;
    let base = base.split('#').next()?;
    let url = if has_scheme(location) {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{}:{location}", origin.split(':').next()?)
    } else if location.starts_with('/') {
        format!("{origin}{location}")
    } else if location.is_empty() {
        base.to_owned()
    } else {
        let path = base.split('?').next()?;
        if location.starts_with('?') {
            format!("{path}{location}")
        } else {
            format!("{origin}{}{location}", folder(&path[origin.len()..])?)
        }
    };
    self::origin(&url).is_some().then_some(url)
}

/// The folder of a path, with a slash at its end; `None` if URL parsers disagree about it.
fn folder(path: &str) -> Option<String> {
    if is_doubtful(path) {
        return None;
    }
    let (folder, name) = path.rsplit_once('/').unwrap_or_default();
    let is_parent = name.to_ascii_lowercase().replace("%2e", ".") == "..";
    Some(format!("{}/", if is_parent { path } else { folder }))
}

/// Whether it has characters that some URL parsers skip, or read as a slash.
fn is_doubtful(text: &str) -> bool {
    text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\')
}

/// Whether it begins with a scheme of any kind.
fn has_scheme(location: &str) -> bool {
    let Some((scheme, _)) = location.split_once(':') else { return false };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(allowed)
}

/// Scheme, host and port of an absolute http or https URL, as they are written.
pub(super) fn origin(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next()?;
    let has_host = !host.is_empty() && !host.starts_with(':');
    has_host.then(|| &url[..url.len() - rest.len() + end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirected(request: Request, status: u16, location: &str) -> Option<Request> {
        next(request, &Response::new(status).with_header("location", location))
    }

    #[test]
    fn a_location_is_resolved_against_the_request() {
        let base = "https://shop.example:8443/a/b?c=1#d";
        for (location, wanted) in [
            ("https://other.example/x", "https://other.example/x"),
            ("HTTP://other.example", "HTTP://other.example"),
            ("//other.example/x?y", "https://other.example/x?y"),
            ("/x?y=1#z", "https://shop.example:8443/x?y=1"),
            ("x", "https://shop.example:8443/a/x"),
            ("../x:1/y", "https://shop.example:8443/a/../x:1/y"),
            ("?y", "https://shop.example:8443/a/b?y"),
            ("", "https://shop.example:8443/a/b?c=1"),
            ("#z", "https://shop.example:8443/a/b?c=1"),
        ] {
            assert_eq!(target(base, location).as_deref(), Some(wanted), "{location:?}");
        }
        assert_eq!(target("http://a", "x").as_deref(), Some("http://a/x"));
        assert_eq!(target("http://a?b/c", "x").as_deref(), Some("http://a/x"));
        assert_eq!(target("http://a/b/..", "x").as_deref(), Some("http://a/b/../x"));
        assert_eq!(target("http://a/b/.%2E?c", "x").as_deref(), Some("http://a/b/.%2E/x"));
        assert_eq!(target("http://a/b/...", "x").as_deref(), Some("http://a/b/x"));
        // Found by fuzzing: the folder is `//` for the host.
        assert_eq!(target("http://a/\\.", "x"), None);
    }

    #[test]
    fn an_invalid_location_is_not_followed() {
        for location in [
            "https:other.example",
            "https:/other.example",
            "https:///other.example",
            "///other.example",
            "/\\other.example",
            "\\\\other.example",
            "https://good.example\\@other.example",
            "https://user@",
            "https://user@@",
            "https://:443/",
            "ftp://other.example/",
            "javascript:alert(1)",
            "/a b",
        ] {
            assert_eq!(target("https://shop.example/a", location), None, "{location:?}");
        }
        assert_eq!(redirected(Request::get("https://a/"), 304, "/b"), None);
        assert_eq!(next(Request::get("https://a/"), &Response::new(301)), None);
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let request = Request::get("https://shop.example/a")
            .header("Authorization", "Bearer x")
            .header("cookie", "a=b")
            .header("accept", "*/*");
        for (location, kept) in [
            ("/b", 3),
            ("https://SHOP.example/b", 3),
            ("http://shop.example/b", 1),
            ("https://shop.example:444/b", 1),
            ("https://shop.example.other.example/b", 1),
            ("//other.example/b", 1),
        ] {
            let next = redirected(request.clone(), 307, location).expect(location);
            assert_eq!(next.headers.len(), kept, "{location}");
        }
    }

    /// A pseudo-random number below `bound`, the same in every run.
    fn below(seed: &mut u64, bound: usize) -> usize {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) as usize % bound
    }

    #[test]
    fn credentials_are_sent_only_to_what_the_host_sees_as_the_same_origin() {
        const BASE: &str = "https://shop.example:8443/a/b?c";
        const PIECES: [&str; 22] = [
            "https://",
            "http://",
            "https:",
            "HTTPS://",
            "//",
            "/",
            "\\",
            "@",
            ":",
            ":8443",
            ":443",
            "shop.example",
            "SHOP.example",
            "other.example",
            "?",
            "#",
            "..",
            "%2f",
            "%40",
            ".",
            "[::1]",
            "x",
        ];
        let host_sees = |url: &str| url::Url::parse(url).map(|url| url.origin());
        let (mut seed, mut kept) = (7, 0);
        for _ in 0..200_000 {
            let count = 1 + below(&mut seed, 6);
            let location: String =
                (0..count).map(|_| PIECES[below(&mut seed, PIECES.len())]).collect();
            let request = Request::get(BASE).header("authorization", "key");
            let Some(next) = redirected(request, 307, &location) else { continue };
            if next.header_value("authorization").is_some() {
                assert_eq!(host_sees(&next.url), host_sees(BASE), "{location:?}: {}", next.url);
                kept += 1;
            }
        }
        assert!(kept > 10_000, "{kept} kept");
    }

    #[test]
    fn methods_change_with_the_status() {
        let seen = |method: &str, status| {
            let request = Request::new(method, "https://a/").header("content-type", "text/plain");
            let next = redirected(request.body("x"), status, "/b").expect("a redirect");
            (next.method, next.body.len(), next.headers.len())
        };
        let (get, kept) = (("GET".to_owned(), 0, 0), |method: &str| (method.to_owned(), 1, 1));
        for status in [301, 302, 303] {
            assert_eq!(seen("POST", status), get, "{status}");
        }
        for (method, status) in
            [("POST", 307), ("POST", 308), ("PUT", 301), ("PUT", 302), ("HEAD", 303)]
        {
            assert_eq!(seen(method, status), kept(method), "{method} {status}");
        }
        assert_eq!(seen("DELETE", 303), get);
    }
}
