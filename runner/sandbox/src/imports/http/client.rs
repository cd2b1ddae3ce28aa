//! The client behind `http_send`: it sends what a grant covers, to addresses that the grant lets be dialled,
//! and takes no more in than the grant allows. It works on a runtime of its own choice, so that a guest that
//! computes delays no socket, and it stops as soon as nobody waits for the answer.

use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::Client;
use rustls::pki_types::CertificateDer;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use url::Url;

use super::error::HttpError;
use super::grant::HttpGrant;
use super::headers;
use super::pool::Pool;
use super::request::Request;
use super::resolver::{LookupError, Names};
use super::response::Response;
use super::trust::Trust;
use crate::memory_budget::Share;

/// What hyper says of a head that does not end, or has too many headers; it has no other sign of it.
const HEAD_TOO_LARGE: &str = "message head is too large";
/// Statuses that HTTP has.
const STATUSES: std::ops::Range<u16> = 100..600;

/// Sends requests for all handlers of a daemon. Clones are the same client.
#[derive(Clone)]
pub struct HttpClient(Arc<Inner>);

struct Inner {
    runtime: Handle,
    pool: Pool,
}

/// Where a client looks names up and whom it trusts. The default is the system's ways.
#[derive(Debug, Clone, Default)]
pub struct HttpConfig {
    /// Name servers to ask, and nobody else. Without any, those of the system, after its file of hosts.
    pub name_servers: Vec<SocketAddr>,
    /// Roots that certificates must lead to. Without any, those of the system, or, where it has none, those
    /// that the daemon was built with.
    pub roots: Vec<CertificateDer<'static>>,
}

impl HttpClient {
    /// A client that works on this runtime, which needs its clock and its sockets on. Nothing is read or
    /// dialled before the first request.
    pub fn new(runtime: Handle) -> Self {
        Self::with(runtime, HttpConfig::default())
    }

    /// The same with settings of its own.
    pub fn with(runtime: Handle, config: HttpConfig) -> Self {
        let pool = Pool::new(Names::at(config.name_servers), Trust::of(config.roots));
        Self(Arc::new(Inner { runtime, pool }))
    }

    /// Sends a request and waits for the whole response. `held` is what the request holds of the memory of
    /// all guests. Dropping the future ends the exchange.
    pub(crate) async fn send(
        &self,
        grant: &HttpGrant,
        request: Request,
        held: Share,
    ) -> Result<Response, HttpError> {
        grant.check(&request.url)?;
        let client = self.0.pool.client(grant, &request.url)?;
        let mut exchange = JoinSet::new();
        exchange.spawn_on(within(client, request, held, grant.body_max), &self.0.runtime);
        match exchange.join_next().await {
            Some(Ok(answer)) => answer,
            _ => Err(HttpError::Unavailable("the daemon is stopping".to_owned())),
        }
    }
}

/// The exchange within the time that the guest gave it.
async fn within(
    client: Client,
    request: Request,
    held: Share,
    body_max: usize,
) -> Result<Response, HttpError> {
    let (url, timeout) = (request.url.clone(), request.timeout);
    let exchange = exchange(client, request, held, body_max);
    match timeout {
        None => exchange.await,
        Some(timeout) => match tokio::time::timeout(timeout, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(HttpError::TimedOut(late(&url, timeout))),
        },
    }
}

fn late(url: &Url, timeout: Duration) -> String {
    format!("{} did not answer within {timeout:?}", url.origin().ascii_serialization())
}

async fn exchange(
    client: Client,
    request: Request,
    held: Share,
    body_max: usize,
) -> Result<Response, HttpError> {
    let origin = request.url.origin().ascii_serialization();
    let sent = request.into_sent();
    let answer = client.execute(sent).await.map_err(|error| failed(&origin, error))?;
    let mut coming = held.another();
    drop(held);
    let status = answer.status().as_u16();
    if !STATUSES.contains(&status) {
        let text = format!("{origin} answered with the status {status}, which HTTP does not have");
        return Err(HttpError::Unavailable(text));
    }
    let Some(head) = headers::block(answer.headers()) else {
        let text = format!("the headers of the response of {origin} are over 16 KiB");
        return Err(HttpError::TooLarge(text));
    };
    coming.grow(head.len()).map_err(HttpError::of_memory)?;
    let body = body(&origin, answer, body_max, &mut coming).await?;
    Ok(Response { status, head, body, _held: coming })
}

/// Takes the body in as it comes, and no more of it than may be.
async fn body(
    origin: &str,
    mut answer: reqwest::Response,
    max: usize,
    held: &mut Share,
) -> Result<Bytes, HttpError> {
    let too_large = || {
        HttpError::TooLarge(format!(
            "the response of {origin} is over {max} bytes; http_body of the topic's sandbox raises that"
        ))
    };
    let announced = answer.content_length().unwrap_or(0);
    if announced > max as u64 {
        return Err(too_large());
    }
    let mut whole = BytesMut::new();
    while let Some(part) = answer.chunk().await.map_err(|error| failed(origin, error))? {
        if part.len() > max - whole.len() {
            return Err(too_large());
        }
        held.grow(part.len()).map_err(HttpError::of_memory)?;
        whole.extend_from_slice(&part);
    }
    Ok(whole.freeze())
}

/// What an error of the exchange means: its innermost causes tell.
fn failed(origin: &str, error: reqwest::Error) -> HttpError {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(LookupError::Denied { .. }) = cause.downcast_ref() {
            return HttpError::Denied(cause.to_string());
        }
        if let Some(lookup) = cause.downcast_ref::<LookupError>() {
            return HttpError::Unavailable(lookup.to_string());
        }
        if cause.to_string() == HEAD_TOO_LARGE {
            let text = format!("the head of the response of {origin} is too large");
            return HttpError::TooLarge(text);
        }
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes.dedup();
    let what = if error.is_connect() { "cannot be reached" } else { "gave no whole response" };
    HttpError::Unavailable(format!("{origin} {what}: {}", causes.join(": ")))
}
