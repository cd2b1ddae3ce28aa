//! Authentication and authorization of requests.
//!
//! Every request is checked before its route runs: an invalid token is refused, and so is a request
//! that a browser sends for another site. Each route then sets the scope it requires, and its path
//! names the topic.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawPathParams, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use duebox_job::TopicName;
use utoipa_axum::router::OpenApiRouter;

use super::origin::check_origin;
use super::probes::Withheld;
use super::problem::{FORBIDDEN, Problem, UNAUTHORIZED};
use super::state::ServerState;
use super::{cors, path, session_cookie};
use crate::auth::tokens::{Scope, Token, Tokens};

/// The sender of a request.
#[derive(Debug, Clone)]
pub(super) enum Caller {
    /// No tokens are configured.
    Open,
    /// The holder of a token.
    Known(Arc<Token>),
    /// A request without a token, where one is required.
    Anonymous,
}

/// The scope that a route requires.
#[derive(Debug, Clone, Copy)]
pub(super) enum RequiredScope {
    /// Any scope, with a token that covers the topic.
    Any,
    /// This scope.
    One(Scope),
}

impl Caller {
    /// The name shown as the holder of a job.
    pub(super) fn name(&self, peer: SocketAddr) -> String {
        match self {
            Self::Known(token) => token.name.clone(),
            Self::Open | Self::Anonymous => format!("http-{}", peer.ip().to_canonical()),
        }
    }

    /// Whether the caller may use any of the API.
    pub(super) fn is_known(&self) -> bool {
        !matches!(self, Self::Anonymous)
    }

    /// The name of the caller's token.
    pub(super) fn token_name(&self) -> Option<&str> {
        match self {
            Self::Known(token) => Some(&token.name),
            Self::Open | Self::Anonymous => None,
        }
    }

    /// Whether the caller is still authorized under these tokens.
    pub(super) fn holds(&self, tokens: Option<&Tokens>) -> bool {
        match (self, tokens) {
            (Self::Open, tokens) => tokens.is_none(),
            (Self::Known(token), Some(tokens)) => tokens.have(token),
            (Self::Known(_), None) => true,
            (Self::Anonymous, _) => false,
        }
    }

    /// Whether the caller sees this topic in lists.
    pub(super) fn sees(&self, topic: &TopicName) -> bool {
        match self {
            Self::Open => true,
            Self::Known(token) => token.covers(topic),
            Self::Anonymous => false,
        }
    }

    /// Whether the caller sees every topic in lists.
    pub(super) fn sees_all(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Known(token) => token.topics().iter().any(|range| range == "*"),
            Self::Anonymous => false,
        }
    }

    /// Refuses what the caller may not do.
    pub(super) fn check(
        &self,
        required: RequiredScope,
        topic: Option<&TopicName>,
    ) -> Result<(), Problem> {
        let token = match self {
            Self::Open => return Ok(()),
            Self::Anonymous => return Err(unauthorized("no token was sent")),
            Self::Known(token) => token,
        };
        if let RequiredScope::One(scope) = required
            && !token.has(scope)
        {
            let detail = format!("token {} lacks scope {scope}", token.name);
            let remedy =
                format!("add {scope} to its scopes in the file of tokens, or use another token");
            return Err(Problem::new(FORBIDDEN, detail, remedy).of("Authorization"));
        }
        match topic.filter(|topic| !token.covers(topic)) {
            None => Ok(()),
            Some(topic) => Err(Problem::new(
                FORBIDDEN,
                format!("token {} does not cover topic {topic}", token.name),
                "add the topic to the token in the file of tokens, or use another token",
            )
            .of("Authorization")),
        }
    }
}

#[cfg(test)]
impl Caller {
    /// The holder of a token of this name, for all topics.
    pub(super) fn with_token(name: &str) -> Self {
        let (token, hash) = crate::auth::tokens::make().unwrap();
        let rest = "scopes = [\"push\"]\ntopics = [\"*\"]";
        let tokens = Tokens::parse(&format!("[{name}]\nsha256 = {hash:?}\n{rest}\n")).unwrap();
        Self::Known(tokens.find(&token).unwrap())
    }
}

/// The error for a request without a valid token.
pub(super) fn unauthorized(why: &str) -> Problem {
    let remedy = "send Authorization: Bearer TOKEN, with a token from duebox token new";
    Problem::new(UNAUTHORIZED, why, remedy).of("Authorization")
}

/// Determines the sender of a request.
pub(super) async fn authenticate(
    State(server): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Response {
    let manifest = server.manifest();
    let is_local_only = manifest.server.tokens.is_none()
        && manifest.server.listen.is_some_and(|listen| listen.ip().to_canonical().is_loopback());
    let is_listed = cors::is_listed(&manifest.server.cors, request.headers())
        || cors::is_listed(manifest.server.public_url.as_slice(), request.headers());
    if let Err(problem) = check_origin(&request, is_listed, is_local_only) {
        return problem.into_response();
    }
    let caller = match (&manifest.server.tokens, sent_token(request.headers())) {
        (None, _) => Caller::Open,
        (Some(tokens), None) => match session_cookie::token_of(&server, &tokens.tokens, &request) {
            Ok(Some(token)) => Caller::Known(token),
            Ok(None) => Caller::Anonymous,
            Err(problem) => return problem.into_response(),
        },
        (Some(tokens), Some(sent)) => match tokens.tokens.find(sent) {
            Some(token) => Caller::Known(token),
            None => return challenged(unauthorized("the token is unknown")),
        },
    };
    request.extensions_mut().insert(caller);
    let answer = next.run(request).await;
    match answer.status() {
        axum::http::StatusCode::UNAUTHORIZED => with_challenge(answer),
        _ => answer,
    }
}

fn challenged(problem: Problem) -> Response {
    with_challenge(problem.into_response())
}

fn with_challenge(mut answer: Response) -> Response {
    let challenge = HeaderValue::from_static("Bearer realm=\"duebox\"");
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    answer
}

/// Marks a request to the probes that may not see their details.
pub(super) async fn withhold(
    State(server): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(problem) = check_metrics(&server, request.headers()) {
        request.extensions_mut().insert(Withheld(problem));
    }
    let answer = next.run(request).await;
    match answer.status() {
        axum::http::StatusCode::UNAUTHORIZED => with_challenge(answer),
        _ => answer,
    }
}

/// Whether a request may see the metrics and the details of the probes at the API's address.
fn check_metrics(server: &ServerState, headers: &HeaderMap) -> Result<(), Problem> {
    let manifest = server.manifest();
    let Some(tokens) = manifest.server.tokens.as_ref().filter(|_| !manifest.server.open_metrics)
    else {
        return Ok(());
    };
    let caller = match sent_token(headers) {
        None => Caller::Anonymous,
        Some(sent) => tokens.tokens.find(sent).map_or(Caller::Anonymous, Caller::Known),
    };
    caller.check(RequiredScope::One(Scope::Metrics), None)
}

/// The token of the `Authorization` header. The scheme is case-insensitive.
fn sent_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Routes that require this scope.
pub(super) fn requiring(
    required: RequiredScope,
    routes: OpenApiRouter<ServerState>,
) -> OpenApiRouter<ServerState> {
    let check = move |Extension(caller): Extension<Caller>,
                      params: RawPathParams,
                      request: Request,
                      next: Next| async move {
        let topic = match params.iter().any(|(name, _)| name == "topic") {
            true => Some(path::topic(&params)?),
            false => None,
        };
        caller.check(required, topic.as_ref())?;
        Ok::<_, Problem>(next.run(request).await)
    };
    routes.route_layer(middleware::from_fn(check))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_requires_the_bearer_scheme() {
        let sent = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            sent_token(&headers).map(str::to_owned)
        };
        assert_eq!(sent("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(sent("bearer  abc").as_deref(), Some("abc"));
        assert_eq!((sent("Basic abc"), sent("abc")), (None, None));
    }
}
