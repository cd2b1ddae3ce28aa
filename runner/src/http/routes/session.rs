//! `/session`: from a token to a session of the page, and what the session may.
//!
//! The token comes in the body of one request and goes back to nobody: what the browser keeps is a cookie
//! with a random id that no script can read and no other site has sent along. Whatever such a cookie stands
//! for must also look like the page itself: a header that forms and foreign pages cannot send, and a browser
//! that says that page and request are of one origin.

use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::sessions::LIFE;
use crate::auth::tokens::{Scope, Token, Tokens};
use crate::http::access::{Caller, host_of, unauthorized};
use crate::http::body;
use crate::http::problem::{FOREIGN, INTERNAL, Problem};
use crate::http::state::ServerState;

/// What the page sends with everything that changes something.
const FROM_PAGE: &str = "x-duebox-page";
/// Where a browser says whose page asks.
const FETCH_SITE: &str = "sec-fetch-site";

/// A token, to be shown once.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    /// The token, as `duebox token new` printed it.
    #[schema(example = "duebox_…")]
    token: String,
}

/// Who asks, and what they may.
#[derive(Serialize, ToSchema)]
pub(super) struct SessionAnswer {
    /// True if a token is asked for, and this request came without one and without a session.
    login: bool,
    /// True if this is a session that can be ended.
    session: bool,
    /// The token's name; none where nobody is asked for one.
    name: Option<String>,
    /// What is allowed: `push`, `consume`, `admin` (everything).
    scopes: Vec<&'static str>,
    /// For which topics: names, and prefixes with `*` at their ends.
    topics: Vec<String>,
}

/// Who am I?
///
/// What the request may do by its token, by its session, or where no token is asked for.
#[utoipa::path(get, path = "/session", tag = "session", responses((status = 200, body = SessionAnswer)))]
pub(super) async fn show(
    State(server): State<ServerState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    uri: Uri,
) -> Json<SessionAnswer> {
    let is_session = !headers.contains_key(header::AUTHORIZATION)
        && Cookie::of(&server, &headers, &uri).sent_id().is_some();
    Json(SessionAnswer::of(&caller, is_session))
}

/// Open a session of the page with a token
///
/// Answers a cookie that stands for the token for twelve hours. With it, whatever is no GET must carry the
/// header `X-Duebox-Page` and come from a page of this very address.
#[utoipa::path(
    post,
    path = "/session",
    tag = "session",
    request_body = Login,
    responses((status = 200, body = SessionAnswer)),
)]
pub(super) async fn open(
    State(server): State<ServerState>,
    headers: HeaderMap,
    uri: Uri,
    body: Body,
) -> Result<Response, Problem> {
    let Login { token } = body::json(&server, &headers, body).await?;
    let manifest = server.manifest();
    let Some(tokens) = &manifest.server.tokens else {
        return Ok(Json(SessionAnswer::of(&Caller::Anybody, false)).into_response());
    };
    let known = tokens.tokens.find(token.trim());
    let known = known.ok_or_else(|| unauthorized("this is no token that is known").of("token"))?;
    let opened = server.sessions.open(known.clone(), Instant::now());
    let id = opened.map_err(|error| {
        let detail = format!("no session was opened: the machine gave no random bytes: {error}");
        Problem::new(INTERNAL, detail, "look at /dev/urandom of the daemon's machine")
    })?;
    let cookie = Cookie::of(&server, &headers, &uri).set(&id, LIFE.as_secs());
    let answer = SessionAnswer::of(&Caller::Known(known), true);
    Ok(([(header::SET_COOKIE, cookie)], Json(answer)).into_response())
}

/// End the session
#[utoipa::path(
    delete,
    path = "/session",
    tag = "session",
    responses((status = 204, description = "There is no session now, and the cookie is taken back")),
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

/// Who sends a request without a token, where tokens are asked for: the holder of a session, or nobody.
///
/// # Errors
/// If it comes with a session and not from the page.
pub(in crate::http) fn caller(
    server: &ServerState,
    tokens: &Tokens,
    request: &Request,
) -> Result<Caller, Problem> {
    let headers = request.headers();
    let sent = Cookie::of(server, headers, request.uri()).sent_id();
    let Some(id) = sent else { return Ok(Caller::Nobody) };
    let Some(token) = server.sessions.find(id, tokens, Instant::now()) else {
        return Ok(Caller::Nobody);
    };
    check_page(request.method(), headers, request.uri())?;
    Ok(Caller::Known(token))
}

/// Refuses what a session's cookie came with although the page has not sent it.
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
        true => ("the request has a session and not the header of the page", "X-Duebox-Page"),
        false => ("the request has a session and does not come from the page", "Sec-Fetch-Site"),
    };
    let remedy = "use the page; programs send Authorization: Bearer TOKEN and no cookie";
    Err(Problem::new(FOREIGN, detail, remedy).of(field))
}

/// True if the request says it comes from a page of the address that it is sent to. Pages of listed origins
/// (`server.cors`) are none.
fn is_own_origin(headers: &HeaderMap, uri: &Uri) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let site = origin.and_then(|origin| origin.split_once("://")).map(|(_, site)| site);
    site.is_some() && site == host_of(headers, uri)
}

/// The cookie of a request's address.
struct Cookie<'r> {
    headers: &'r HeaderMap,
    uri: &'r Uri,
    is_tls: bool,
}

impl<'r> Cookie<'r> {
    fn of(server: &ServerState, headers: &'r HeaderMap, uri: &'r Uri) -> Self {
        Self { headers, uri, is_tls: server.manifest().server.tls.is_some() }
    }

    /// What it is called. Cookies know no ports, so each port has a name of its own.
    fn name(&self) -> String {
        let host = host_of(self.headers, self.uri).unwrap_or_default();
        let port = host.rsplit_once(':').map_or("", |(_, port)| port);
        let is_port =
            (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
        let start = if self.is_tls { "__Host-duebox" } else { "duebox" };
        if is_port { format!("{start}-{port}") } else { start.to_owned() }
    }

    /// The id of the session that the request names.
    fn sent_id(&self) -> Option<&'r str> {
        let name = self.name();
        let lines = self.headers.get_all(header::COOKIE).into_iter();
        let lines = lines.filter_map(|line| line.to_str().ok());
        let mut pairs =
            lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
        pairs.find(|(found, _)| found.trim() == name).map(|(_, id)| id.trim())
    }

    /// What has the browser keep an id for so long; 0 takes it back.
    fn set(&self, id: &str, seconds: u64) -> String {
        let secure = if self.is_tls { "; Secure" } else { "" };
        let name = self.name();
        format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
    }
}

impl SessionAnswer {
    fn of(caller: &Caller, session: bool) -> Self {
        match caller {
            Caller::Anybody => Self {
                login: false,
                session: false,
                name: None,
                scopes: vec![Scope::Admin.word()],
                topics: vec!["*".to_owned()],
            },
            Caller::Known(token) => Self::of_token(token, session),
            Caller::Nobody => Self {
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
    fn only_the_page_itself_changes_things_by_a_cookie() {
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
    fn each_port_has_a_cookie_of_its_own_which_is_found_among_others() {
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
