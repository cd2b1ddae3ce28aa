//! `/session`: exchanges a token for a session of the page.
//!
//! The token is sent once, in a request body, and never returned. The browser keeps a cookie with a
//! random id, which no script can read and no other site can send. A request with the cookie must
//! also come from the page: it needs a header that forms and foreign pages cannot send, and the
//! browser must state the same origin.

use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use cookie::{Cookie, SameSite};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::sessions::LIFE;
use crate::auth::tokens::{Scope, Token, Tokens};
use crate::http::access::{Caller, RequiredScope, host_of, unauthorized};
use crate::http::body::{self, RequestBody};
use crate::http::problem::{FOREIGN, INTERNAL, Problem};
use crate::http::state::ServerState;

/// Maximum size of the body that opens a session, in bytes. Anyone can send one.
const LOGIN_MAX: usize = 4 << 10;
/// The lifetime of the cookie, in seconds.
const LIFE_S: i64 = LIFE.as_secs() as i64;
/// The header that the page sends with every change.
const FROM_PAGE: &str = "x-duebox-page";
/// The header in which a browser states the site of the page.
const FETCH_SITE: &str = "sec-fetch-site";

/// A token.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    /// The token, as `duebox token new` printed it.
    #[schema(example = "duebox_…")]
    token: String,
}

/// The caller and its permissions.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionResponse {
    /// True if a token is required, and this request has neither a token nor a session.
    login: bool,
    /// True if the request has a session, which can be closed.
    session: bool,
    /// Name of the token; null if no tokens are required.
    name: Option<String>,
    /// Allowed scopes: `push`, `consume`, `admin` (everything).
    scopes: Vec<&'static str>,
    /// Allowed topics: names, and prefixes with a final `*`.
    topics: Vec<String>,
    /// True if this daemon keeps events, and the caller may read them (`/v1/events`).
    events: bool,
}

/// Get the caller's permissions
///
/// The permissions of the request's token or session; everything if no tokens are required.
#[utoipa::path(get, path = "/session", tag = "session", responses((status = 200, body = SessionResponse)))]
pub(super) async fn show(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    uri: Uri,
) -> Json<SessionResponse> {
    let is_session = !headers.contains_key(header::AUTHORIZATION)
        && SessionCookie::of(&server, &headers, &uri).sent_id().is_some();
    Json(SessionResponse::of(&server, &caller, is_session))
}

/// Open a session of the page with a token
///
/// Sets a cookie that replaces the token for twelve hours. With it, every request other than GET
/// needs the header `X-Duebox-Page` and must come from a page of the same address.
#[utoipa::path(
    post,
    path = "/session",
    tag = "session",
    request_body = Login,
    responses((status = 200, body = SessionResponse)),
)]
pub(super) async fn open(
    State(server): State<ServerState>,
    headers: HeaderMap,
    uri: Uri,
    body: RequestBody,
) -> Result<Response, Problem> {
    let json = body::json_bytes(&headers, body, LOGIN_MAX).await?;
    let Login { token } = body::read(&json)?;
    let manifest = server.manifest();
    let Some(tokens) = &manifest.server.tokens else {
        return Ok(Json(SessionResponse::of(&server, &Caller::Open, false)).into_response());
    };
    let known = tokens.tokens.find(token.trim());
    let known = known.ok_or_else(|| unauthorized("the token is unknown").of("token"))?;
    let opened = server.sessions.open(known.clone(), Instant::now());
    let id = opened.map_err(|error| {
        let detail = format!("no session was opened: no random bytes: {error}");
        Problem::new(INTERNAL, detail, "check getrandom(2) on the daemon's machine")
    })?;
    let cookie = SessionCookie::of(&server, &headers, &uri).set(&id, LIFE_S);
    let answer = SessionResponse::of(&server, &Caller::Known(known), true);
    Ok(([(header::SET_COOKIE, cookie)], Json(answer)).into_response())
}

/// Close the session
#[utoipa::path(
    delete,
    path = "/session",
    tag = "session",
    responses((status = 204, description = "The session is closed, and the cookie is deleted")),
)]
pub(super) async fn close(
    State(server): State<ServerState>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let cookie = SessionCookie::of(&server, &headers, &uri);
    if let Some(id) = cookie.sent_id() {
        server.sessions.close(&id);
    }
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie.set("", 0))]).into_response()
}

/// The caller of a request without a token where tokens are required: the holder of a session, or
/// anonymous.
///
/// # Errors
/// If it has a session but does not come from the page.
pub(in crate::http) fn caller(
    server: &ServerState,
    tokens: &Tokens,
    request: &Request,
) -> Result<Caller, Problem> {
    let headers = request.headers();
    let sent = SessionCookie::of(server, headers, request.uri()).sent_id();
    let Some(id) = sent else { return Ok(Caller::Anonymous) };
    let Some(token) = server.sessions.find(&id, tokens, Instant::now()) else {
        return Ok(Caller::Anonymous);
    };
    let public = server.manifest().server.public_url.clone();
    check_page(request.method(), headers, request.uri(), public.as_deref())?;
    Ok(Caller::Known(token))
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
struct SessionCookie<'r> {
    headers: &'r HeaderMap,
    /// Its name. Browsers share cookies between ports, so the name contains the port.
    name: String,
    /// Whether the browser uses TLS, to this daemon or to a proxy in front of it.
    is_tls: bool,
}

impl<'r> SessionCookie<'r> {
    fn of(server: &ServerState, headers: &'r HeaderMap, uri: &Uri) -> Self {
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
    fn sent_id(&self) -> Option<String> {
        let lines = self.headers.get_all(header::COOKIE).into_iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let mut sent = lines.flat_map(Cookie::split_parse).filter_map(Result::ok);
        sent.find(|cookie| cookie.name() == self.name).map(|cookie| cookie.value().to_owned())
    }

    /// The `Set-Cookie` value that stores an id for this time; 0 deletes the cookie.
    fn set(&self, id: &str, seconds: i64) -> String {
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

impl SessionResponse {
    fn of(server: &ServerState, caller: &Caller, session: bool) -> Self {
        let may_read = caller.check(RequiredScope::One(Scope::Consume), None).is_ok();
        let events = may_read && server.manifest().runner.events > 0;
        Self { events, ..Self::of_caller(caller, session) }
    }

    fn of_caller(caller: &Caller, session: bool) -> Self {
        match caller {
            Caller::Open => Self {
                login: false,
                session: false,
                name: None,
                scopes: vec![Scope::Admin.word()],
                topics: vec!["*".to_owned()],
                events: false,
            },
            Caller::Known(token) => Self::of_token(token, session),
            Caller::Anonymous => Self {
                login: true,
                session: false,
                name: None,
                scopes: Vec::new(),
                topics: Vec::new(),
                events: false,
            },
        }
    }

    fn of_token(token: &Token, session: bool) -> Self {
        Self {
            login: false,
            session,
            name: Some(token.name.clone()),
            scopes: token.scopes().iter().map(|scope| scope.word()).collect(),
            topics: token.topics(),
            events: false,
        }
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
