//! The session cookie of the page.
//!
//! The cookie holds a random id, which no script can read and no other site can send. A request with
//! the cookie must also come from the page: it needs a header that forms and foreign pages cannot
//! send, and the browser must state the same origin.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use cookie::{Cookie, SameSite};

use super::origin::host_of;
use super::problem::{FOREIGN, Problem};
use super::state::ServerState;
use crate::auth::tokens::{Token, Tokens};

/// The header that the page sends with every change.
const FROM_PAGE: &str = "x-duebox-page";
/// The header in which a browser states the site of the page.
const FETCH_SITE: &str = "sec-fetch-site";

/// The token of the session in a request, if it has one.
///
/// # Errors
/// If it has a session but does not come from the page.
pub(super) fn token_of(
    server: &ServerState,
    tokens: &Tokens,
    request: &Request,
) -> Result<Option<Arc<Token>>, Problem> {
    let headers = request.headers();
    let sent = SessionCookie::of(server, headers, request.uri()).sent_id();
    let Some(id) = sent else { return Ok(None) };
    let Some(token) = server.sessions.find(&id, tokens, Instant::now()) else {
        return Ok(None);
    };
    let public = server.manifest().server.public_url.clone();
    check_page(request.method(), headers, request.uri(), public.as_deref())?;
    Ok(Some(token))
}

/// Refuses a request with a session cookie that the page did not send.
fn check_page(
    method: &Method,
    headers: &HeaderMap,
    uri: &Uri,
    public_url: Option<&str>,
) -> Result<(), Problem> {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    let is_reading = method == Method::GET || method == Method::HEAD;
    let is_own_page = match site {
        Some(site) => site == b"same-origin" || (is_reading && site == b"none"),
        None => is_reading || is_own_origin(headers, uri, public_url),
    };
    let has_header = is_reading || headers.contains_key(FROM_PAGE);
    if is_own_page && has_header {
        return Ok(());
    }
    let (detail, field) = match is_own_page {
        true => ("the request has a session but not the header of the page", "X-Duebox-Page"),
        false => ("the request has a session but does not come from the page", "Sec-Fetch-Site"),
    };
    let remedy = "use the page; programs send Authorization: Bearer TOKEN and no cookie";
    Err(Problem::new(FOREIGN, detail, remedy).of(field))
}

/// True if the request states the origin of its own address, or of the proxy in front of it. Listed
/// origins (`server.cors`) do not count.
fn is_own_origin(headers: &HeaderMap, uri: &Uri, public_url: Option<&str>) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    if origin.is_some() && origin == public_url {
        return true;
    }
    let site = origin.and_then(|origin| origin.split_once("://")).map(|(_, site)| site);
    site.is_some() && site == host_of(headers, uri)
}

/// The session cookie of a request's address.
pub(super) struct SessionCookie<'r> {
    headers: &'r HeaderMap,
    /// Its name. Browsers share cookies between ports, so the name contains the port.
    name: String,
    /// Whether the browser uses TLS, to this daemon or to a proxy in front of it.
    is_tls: bool,
}

impl<'r> SessionCookie<'r> {
    pub(super) fn of(server: &ServerState, headers: &'r HeaderMap, uri: &Uri) -> Self {
        let manifest = server.manifest();
        let settings = &manifest.server;
        match &settings.public_url {
            Some(url) => Self::of_address(headers, url, url.starts_with("https://")),
            None => {
                let host = host_of(headers, uri).unwrap_or_default();
                Self::of_address(headers, host, settings.tls.is_some())
            }
        }
    }

    /// The cookie of an address that ends with its port, if it has one.
    fn of_address(headers: &'r HeaderMap, address: &str, is_tls: bool) -> Self {
        let port = address.rsplit_once(':').map_or("", |(_, port)| port);
        let is_port =
            (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
        let start = if is_tls { "__Host-duebox" } else { "duebox" };
        let name = if is_port { format!("{start}-{port}") } else { start.to_owned() };
        Self { headers, name, is_tls }
    }

    /// The session id in the request.
    pub(super) fn sent_id(&self) -> Option<String> {
        let lines = self.headers.get_all(header::COOKIE).into_iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let mut sent = lines.flat_map(Cookie::split_parse).filter_map(Result::ok);
        sent.find(|cookie| cookie.name() == self.name).map(|cookie| cookie.value().to_owned())
    }

    /// The `Set-Cookie` value that stores an id for this time; 0 deletes the cookie.
    pub(super) fn set(&self, id: &str, seconds: i64) -> String {
        let mut cookie = Cookie::build((self.name.as_str(), id))
            .path("/")
            .http_only(true)
            .same_site(SameSite::Strict)
            .max_age(cookie::time::Duration::seconds(seconds));
        if self.is_tls {
            cookie = cookie.secure(true);
        }
        cookie.build().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (header::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_the_page_may_change_things_with_a_cookie() {
        const PAGE: (&str, &str) = (FROM_PAGE, "1");
        const OWN: (&str, &str) = (FETCH_SITE, "same-origin");
        let may = |method: Method, pairs: &[(&'static str, &'static str)]| {
            let headers = headers(&[&[("host", "box:1")], pairs].concat());
            check_page(&method, &headers, &Uri::default(), None).is_ok()
        };
        assert!(
            may(Method::POST, &[PAGE, OWN])
                && may(Method::DELETE, &[PAGE, ("origin", "http://box:1")])
        );
        assert!(
            !may(Method::POST, &[PAGE, ("origin", "http://shop")])
                && !may(Method::POST, &[PAGE, ("origin", "null")])
        );
        assert!(
            !may(Method::POST, &[]) && !may(Method::POST, &[PAGE]) && !may(Method::POST, &[OWN])
        );
        for site in ["cross-site", "same-site", "none", "", "SAME-ORIGIN"] {
            assert!(!may(Method::POST, &[PAGE, (FETCH_SITE, site)]), "{site}");
        }
        assert!(may(Method::GET, &[]) && may(Method::GET, &[(FETCH_SITE, "none")]));
        assert!(!may(Method::GET, &[(FETCH_SITE, "same-site")]));
    }

    #[test]
    fn each_port_has_its_own_cookie() {
        let here = headers(&[("host", "[::1]:7280"), ("cookie", "duebox-1=a; duebox-7280=b ;c")]);
        let plain = SessionCookie::of_address(&here, "[::1]:7280", false);
        assert_eq!(plain.sent_id().as_deref(), Some("b"));
        let tls = SessionCookie::of_address(&here, "[::1]:7280", true);
        assert_eq!(tls.sent_id(), None);
        let set = tls.set("i", 9);
        let mut parts: Vec<&str> = set.split("; ").collect();
        assert_eq!(parts.remove(0), "__Host-duebox-7280=i");
        parts.sort_unstable();
        assert_eq!(parts, ["HttpOnly", "Max-Age=9", "Path=/", "SameSite=Strict", "Secure"]);
        let odd = headers(&[("cookie", "duebox=d")]);
        let odd = SessionCookie::of_address(&odd, "x:7;Path", false);
        assert_eq!(odd.sent_id().as_deref(), Some("d"));
        assert!(!odd.set("i", 9).contains("Secure"));
        let none = HeaderMap::new();
        let proxy = SessionCookie::of_address(&none, "https://box.example", true);
        assert_eq!(proxy.name, "__Host-duebox");
        let proxy = SessionCookie::of_address(&none, "https://box.example:8443", true);
        assert_eq!(proxy.name, "__Host-duebox-8443");
    }

    #[test]
    fn the_origin_of_a_proxy_is_an_own_page() {
        let sent = headers(&[("host", "10.0.0.1:7280"), ("origin", "https://box.example")]);
        let is_own = |url: Option<&str>| is_own_origin(&sent, &Uri::default(), url);
        assert!(is_own(Some("https://box.example")));
        assert!(!is_own(None) && !is_own(Some("https://else.example")));
    }
}
