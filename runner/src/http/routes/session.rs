//! `/session`: exchanges a token for a session of the page.
//!
//! The token is sent once, in a request body, and never returned. The browser keeps a cookie
//! (`session_cookie.rs`) instead.

use std::time::Instant;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::sessions::LIFE;
use crate::auth::tokens::{Scope, Token};
use crate::http::access::{Caller, RequiredScope, unauthorized};
use crate::http::body::{self, RequestBody};
use crate::http::problem::{INTERNAL, Problem};
use crate::http::session_cookie::SessionCookie;
use crate::http::state::ServerState;

/// Maximum size of the body that opens a session, in bytes. Anyone can send one.
const LOGIN_MAX: usize = 4 << 10;
/// The lifetime of the cookie, in seconds.
const LIFE_S: i64 = LIFE.as_secs() as i64;

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
