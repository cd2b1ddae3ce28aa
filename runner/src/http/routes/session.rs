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
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::sessions::LIFE;
use crate::auth::tokens::{Scope, Token, Tokens};
use crate::http::access::{Caller, host_of, unauthorized};
use crate::http::body::{self, RequestBody};
use crate::http::problem::{FOREIGN, INTERNAL, Problem};
use crate::http::state::ServerState;

/// Maximum size of the body that opens a session, in bytes. Anyone can send one.
const LOGIN_MAX: usize = 4 << 10;
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
        && Cookie::of(&server, &headers, &uri).sent_id().is_some();
    Json(SessionResponse::of(&caller, is_session))
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
        return Ok(Json(SessionResponse::of(&Caller::Open, false)).into_response());
    };
    let known = tokens.tokens.find(token.trim());
    let known = known.ok_or_else(|| unauthorized("the token is unknown").of("token"))?;
    let opened = server.sessions.open(known.clone(), Instant::now());
    let id = opened.map_err(|error| {
        let detail = format!("no session was opened: no random bytes: {error}");
        Problem::new(INTERNAL, detail, "check /dev/urandom on the daemon's machine")
    })?;
    let cookie = Cookie::of(&server, &headers, &uri).set(&id, LIFE.as_secs());
    let answer = SessionResponse::of(&Caller::Known(known), true);
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
    let cookie = Cookie::of(&server, &headers, &uri);
    if let Some(id) = cookie.sent_id() {
        server.sessions.close(id);
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
    let sent = Cookie::of(server, headers, request.uri()).sent_id();
    let Some(id) = sent else { return Ok(Caller::Anonymous) };
    let Some(token) = server.sessions.find(id, tokens, Instant::now()) else {
        return Ok(Caller::Anonymous);
    };
    check_page(request.method(), headers, request.uri())?;
    Ok(Caller::Known(token))
}

/// Refuses a request with a session cookie that the page did not send.
fn check_page(method: &Method, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    let is_reading = method == Method::GET || method == Method::HEAD;
    let is_own_page = match site {
        Some(site) => site == b"same-origin" || (is_reading && site == b"none"),
        None => is_reading || is_own_origin(headers, uri),
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

/// True if the request states the origin of its own address. Listed origins (`server.cors`) do not
/// count.
fn is_own_origin(headers: &HeaderMap, uri: &Uri) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let site = origin.and_then(|origin| origin.split_once("://")).map(|(_, site)| site);
    site.is_some() && site == host_of(headers, uri)
}

/// The session cookie of a request's address.
struct Cookie<'r> {
    headers: &'r HeaderMap,
    uri: &'r Uri,
    is_tls: bool,
}

impl<'r> Cookie<'r> {
    fn of(server: &ServerState, headers: &'r HeaderMap, uri: &'r Uri) -> Self {
        Self { headers, uri, is_tls: server.manifest().server.tls.is_some() }
    }

    /// Name of the cookie. Browsers share cookies between ports, so the name contains the port.
    fn name(&self) -> String {
        let host = host_of(self.headers, self.uri).unwrap_or_default();
        let port = host.rsplit_once(':').map_or("", |(_, port)| port);
        let is_port =
            (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
        let start = if self.is_tls { "__Host-duebox" } else { "duebox" };
        if is_port { format!("{start}-{port}") } else { start.to_owned() }
    }

    /// The session id in the request.
    fn sent_id(&self) -> Option<&'r str> {
        let name = self.name();
        let lines = self.headers.get_all(header::COOKIE).into_iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let mut pairs =
            lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
        pairs.find(|(found, _)| found.trim() == name).map(|(_, id)| id.trim())
    }

    /// The `Set-Cookie` value that stores an id for this time; 0 deletes the cookie.
    fn set(&self, id: &str, seconds: u64) -> String {
        let secure = if self.is_tls { "; Secure" } else { "" };
        let name = self.name();
        format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
    }
}

impl SessionResponse {
    fn of(caller: &Caller, session: bool) -> Self {
        match caller {
            Caller::Open => Self {
                login: false,
                session: false,
                name: None,
                scopes: vec![Scope::Admin.word()],
                topics: vec!["*".to_owned()],
            },
            Caller::Known(token) => Self::of_token(token, session),
            Caller::Anonymous => Self {
                login: true,
                session: false,
                name: None,
                scopes: Vec::new(),
                topics: Vec::new(),
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
            check_page(&method, &headers, &Uri::default()).is_ok()
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
        let uri = Uri::default();
        let here = headers(&[("host", "[::1]:7280"), ("cookie", "duebox-1=a; duebox-7280=b ;c")]);
        let plain = Cookie { headers: &here, uri: &uri, is_tls: false };
        assert_eq!(plain.sent_id(), Some("b"));
        let tls = Cookie { headers: &here, uri: &uri, is_tls: true };
        assert_eq!(tls.sent_id(), None);
        let expected = "__Host-duebox-7280=i; Path=/; HttpOnly; SameSite=Strict; Max-Age=9; Secure";
        assert_eq!(tls.set("i", 9), expected);
        let odd = headers(&[("host", "x:7;Path"), ("cookie", "duebox=d")]);
        assert_eq!(Cookie { headers: &odd, uri: &uri, is_tls: false }.sent_id(), Some("d"));
        let uri = Uri::from_static("https://box:8443/session");
        let second = HeaderMap::new();
        let of_http2 = Cookie { headers: &second, uri: &uri, is_tls: true };
        assert_eq!(of_http2.name(), "__Host-duebox-8443");
    }
}
