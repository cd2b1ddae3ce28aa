//! The client behind `http_send`.
//!
//! It sends only what a grant covers, connects only to addresses that the grant allows, and reads no more
//! than the grant's limits. It runs on its own runtime, so a guest that computes delays no socket. It stops
//! as soon as the guest no longer waits for the response.

use std::error::Error as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use reqwest::Client;
use rustls::pki_types::CertificateDer;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use url::{Host, Url};

use super::address::may_connect;
use super::error::HttpError;
use super::headers;
use super::pool::ClientPool;
use super::request::Request;
use super::resolver::{LookupError, Names};
use super::response::Response;
use super::tls::TrustedRoots;
use crate::grants::HttpGrant;
use crate::memory_budget::MemoryReservation;

/// The text of hyper for a head that is too long or has too many headers. The error has no other mark.
const HEAD_TOO_LARGE: &str = "message head is too large";
/// The statuses of HTTP.
const STATUSES: std::ops::Range<u16> = 100..600;

/// Sends requests of all handlers of a daemon. Clones are the same client.
#[derive(Clone)]
pub struct HttpClient(Arc<SharedClient>);

struct SharedClient {
    runtime: Handle,
    pool: ClientPool,
}

/// How a client resolves names, and which certificates it trusts. The default is the system's configuration.
#[derive(Debug, Clone, Default)]
pub struct HttpConfig {
    /// The only name servers to use. If empty, the system's hosts file and name servers.
    pub name_servers: Vec<SocketAddr>,
    /// The trusted root certificates. If empty, those of the system, or the compiled-in ones if the system
    /// has none.
    pub roots: Vec<CertificateDer<'static>>,
}

impl HttpClient {
    /// A client on this runtime, which must have time and I/O enabled. It reads no file and opens no
    /// connection before the first request.
    pub fn new(runtime: Handle) -> Self {
        Self::with(runtime, HttpConfig::default())
    }

    /// A client with its own configuration.
    pub fn with(runtime: Handle, config: HttpConfig) -> Self {
        let (names, roots) = (Names::new(config.name_servers), TrustedRoots::new(config.roots));
        Self(Arc::new(SharedClient { runtime, pool: ClientPool::new(names, roots) }))
    }

    /// Sends a request and waits for the complete response. `memory` is what the request holds of the memory
    /// budget. Dropping the future ends the exchange.
    pub(crate) async fn send(
        &self,
        grant: &HttpGrant,
        request: Request,
        memory: MemoryReservation,
    ) -> Result<Response, HttpError> {
        check_grant(grant, &request.url)?;
        let client = self.0.pool.client(grant, &request.url)?;
        let mut tasks = JoinSet::new();
        tasks.spawn_on(exchange_in_time(client, request, memory, grant.body_max), &self.0.runtime);
        match tasks.join_next().await {
            Some(Ok(response)) => response,
            _ => Err(HttpError::Stopping),
        }
    }
}

/// Checks that a grant covers the URL and, if the URL has an address instead of a name, that it allows the
/// address. The addresses of a name are checked when it is resolved.
pub(super) fn check_grant(grant: &HttpGrant, url: &Url) -> Result<(), HttpError> {
    if !grant.covers(url) {
        return Err(HttpError::Origin { origin: origin(url) });
    }
    let address = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    match may_connect(address, &grant.private) {
        true => Ok(()),
        false => Err(HttpError::PrivateAddress(address)),
    }
}

/// The exchange within the time limit of the request.
async fn exchange_in_time(
    client: Client,
    request: Request,
    memory: MemoryReservation,
    body_max: usize,
) -> Result<Response, HttpError> {
    let (url, timeout) = (request.url.clone(), request.timeout);
    let exchange = exchange(client, request, &url, memory, body_max);
    let Some(timeout) = timeout else { return exchange.await };
    let ended = tokio::time::timeout(timeout, exchange).await;
    ended.unwrap_or_else(|_| Err(HttpError::Timeout { origin: origin(&url), timeout }))
}

async fn exchange(
    client: Client,
    request: Request,
    url: &Url,
    request_memory: MemoryReservation,
    body_max: usize,
) -> Result<Response, HttpError> {
    let response = client.execute(request.into_reqwest()).await;
    let response = response.map_err(|error| failed(url, error))?;
    let mut memory = request_memory.another();
    drop(request_memory);
    let status = response.status().as_u16();
    if !STATUSES.contains(&status) {
        return Err(HttpError::Status { origin: origin(url), status });
    }
    let Some(head) = headers::block(response.headers()) else {
        return Err(HttpError::ResponseHeaders { origin: origin(url) });
    };
    memory.grow(head.len())?;
    let body = read_body(url, response, body_max, &mut memory).await?;
    Ok(Response { status, head, body, _memory: memory })
}

/// The origin of a URL, as errors show it.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Reads the body as it arrives, and at most `max` bytes of it.
async fn read_body(
    url: &Url,
    mut response: reqwest::Response,
    max: usize,
    memory: &mut MemoryReservation,
) -> Result<Bytes, HttpError> {
    let too_large = || HttpError::ResponseBody { origin: origin(url), max };
    if response.content_length().unwrap_or(0) > max as u64 {
        return Err(too_large());
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(url, error))? {
        if chunk.len() > max - body.len() {
            return Err(too_large());
        }
        memory.grow(chunk.len())?;
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The error of an exchange. Its innermost causes determine what it means.
fn failed(url: &Url, error: reqwest::Error) -> HttpError {
    let origin = origin(url);
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        if let Some(lookup) = cause.downcast_ref::<LookupError>() {
            return HttpError::Lookup(lookup.clone());
        }
        let text = cause.to_string();
        if text == HEAD_TOO_LARGE {
            return HttpError::ResponseHead { origin };
        }
        causes.push(text);
        next = cause.source();
    }
    causes.dedup();
    let causes = causes.join(": ");
    match error.is_connect() {
        true => HttpError::Connect { origin, causes },
        false => HttpError::Exchange { origin, causes },
    }
}
