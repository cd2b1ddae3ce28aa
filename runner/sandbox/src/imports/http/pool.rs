//! The pool of HTTP clients, one for each grant. A connection that one grant allows is never used for
//! another. The number of clients is bounded, and so are the connections that each keeps open.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use parking_lot::Mutex;
use reqwest::{Client, redirect, retry};
use url::{Position, Url};

use super::error::HttpError;
use super::resolver::{Names, PolicyResolver};
use super::tls::TrustedRoots;
use crate::grants::{HttpGrant, Origin};

/// How many clients are kept. The least recently used one is dropped.
const CLIENTS_MAX: usize = 64;
/// How many origins one client contacts before it is replaced, so that its idle connections are bounded.
const ORIGINS_MAX: usize = 128;
/// How many idle connections one client keeps to all its origins together.
const IDLE_MAX: usize = 1024;
/// How many of them to one origin. A topic with a high concurrency needs as many as run at once: the others are closed
/// after a request and dialled again for the next one.
const IDLE_OF_ORIGIN_MAX: usize = 256;
/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit to connect, including TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How many headers a response of HTTP/1 may have.
const HEADERS_MAX: usize = 128;
/// The flow-control window of one HTTP/2 stream, in bytes.
const STREAM_WINDOW: u32 = 256 << 10;
/// The flow-control window of one HTTP/2 connection, in bytes.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Bytes of the headers of an HTTP/2 response.
const HEADER_BYTES_MAX: u32 = 64 << 10;

/// The clients.
pub(super) struct ClientPool {
    names: Arc<Names>,
    roots: TrustedRoots,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    pooled: Vec<PooledClient>,
    /// Counts the requests.
    uses: u64,
}

/// A client, the grant that it serves, and the origins that it has contacted.
struct PooledClient {
    allow: Vec<Origin>,
    private: Vec<IpNet>,
    client: Client,
    origins: HashSet<String>,
    /// The number of the last request.
    used: u64,
}

impl ClientPool {
    pub(super) fn new(names: Names, roots: TrustedRoots) -> Self {
        Self { names: Arc::new(names), roots, clients: Mutex::default() }
    }

    /// The client of a grant, for a request to this URL.
    pub(super) fn client(&self, grant: &HttpGrant, url: &Url) -> Result<Client, HttpError> {
        let mut clients = self.clients.lock();
        let origin = &url[..Position::BeforePath];
        clients.uses += 1;
        let used = clients.uses;
        let known = clients.pooled.iter().position(|pooled| pooled.serves(grant));
        if let Some(at) = known
            && let pooled = &mut clients.pooled[at]
            && (pooled.origins.contains(origin) || pooled.origins.len() < ORIGINS_MAX)
        {
            if !pooled.origins.contains(origin) {
                pooled.origins.insert(origin.to_owned());
            }
            pooled.used = used;
            return Ok(pooled.client.clone());
        }
        let mut built = self.build(grant)?;
        built.origins.insert(origin.to_owned());
        built.used = used;
        let client = built.client.clone();
        match known {
            Some(at) => clients.pooled[at] = built,
            None => clients.add(built),
        }
        Ok(client)
    }

    fn build(&self, grant: &HttpGrant) -> Result<PooledClient, HttpError> {
        let (names, private) = (Arc::clone(&self.names), grant.private.as_slice().into());
        let client = Client::builder()
            .tls_backend_preconfigured(self.roots.client_config()?)
            .dns_resolver(Arc::new(PolicyResolver { names, private }))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(idle_of_origin(grant))
            .http1_max_headers(HEADERS_MAX)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .http2_max_header_list_size(HEADER_BYTES_MAX)
            .user_agent(concat!("duebox/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(HttpError::Client)?;
        let (allow, private) = (grant.allow.clone(), grant.private.clone());
        Ok(PooledClient { allow, private, client, origins: HashSet::new(), used: 0 })
    }
}

/// The idle connections that a client keeps to each origin of a grant, which may cover at most [`ORIGINS_MAX`].
fn idle_of_origin(grant: &HttpGrant) -> usize {
    let origins = grant.origins().map_or(ORIGINS_MAX, |origins| origins.clamp(1, ORIGINS_MAX));
    (IDLE_MAX / origins).min(IDLE_OF_ORIGIN_MAX)
}

impl Clients {
    /// Adds a client; the least recently used one makes room.
    fn add(&mut self, client: PooledClient) {
        let oldest = self.pooled.iter().enumerate().min_by_key(|(_, pooled)| pooled.used);
        match oldest.map(|(at, _)| at) {
            Some(at) if self.pooled.len() >= CLIENTS_MAX => self.pooled[at] = client,
            _ => self.pooled.push(client),
        }
    }
}

impl PooledClient {
    fn serves(&self, grant: &HttpGrant) -> bool {
        self.allow == grant.allow && self.private == grant.private
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;

    use super::*;

    fn pool() -> ClientPool {
        // An invalid root avoids reading the roots of the system.
        ClientPool::new(
            Names::new(Vec::new()),
            TrustedRoots::new(vec![CertificateDer::from(vec![0])]),
        )
    }

    fn url(number: usize) -> Url {
        format!("https://host-{number}.test/").parse().unwrap()
    }

    #[test]
    fn the_most_recently_used_clients_are_kept() {
        let pool = pool();
        let grant = |number: usize| HttpGrant {
            allow: vec![format!("host-{number}.test").parse().unwrap()],
            ..HttpGrant::default()
        };
        for number in 0..CLIENTS_MAX {
            pool.client(&grant(number), &url(number)).unwrap();
        }
        pool.client(&grant(0), &url(0)).unwrap();
        // The limit of a response does not affect connections.
        let other = HttpGrant { body_max: 1, ..grant(0) };
        pool.client(&other, &url(0)).unwrap();
        pool.client(&grant(CLIENTS_MAX), &url(0)).unwrap();
        let clients = &pool.clients.lock().pooled;
        assert_eq!(clients.len(), CLIENTS_MAX);
        assert!(clients.iter().any(|pooled| pooled.serves(&grant(0))));
        assert!(!clients.iter().any(|pooled| pooled.serves(&grant(1))));
    }

    #[test]
    fn the_idle_connections_of_all_origins_are_bounded() {
        let idle = |allow: &[&str]| {
            let allow = allow.iter().map(|origin| origin.parse().unwrap()).collect();
            idle_of_origin(&HttpGrant { allow, ..HttpGrant::default() })
        };
        assert_eq!(idle(&["https://a.example"]), 256);
        assert_eq!(idle(&["a.example", "https://b.example:8443", "http://c.example"]), 256);
        assert_eq!(idle(&["a.example"; 8]), 64, "http and https each");
        for many in ["*", "*.a.example", "https://a.example:*"] {
            assert_eq!(idle(&[many]), 8, "{many}");
        }
    }

    #[test]
    fn a_client_that_contacted_many_origins_is_replaced() {
        let (pool, grant) = (pool(), HttpGrant::default());
        let contacted = || {
            let clients = pool.clients.lock();
            clients.pooled.iter().map(|pooled| pooled.origins.len()).sum::<usize>()
        };
        for number in 0..ORIGINS_MAX {
            pool.client(&grant, &url(number)).unwrap();
        }
        pool.client(&grant, &url(0)).unwrap();
        assert_eq!(contacted(), ORIGINS_MAX);
        pool.client(&grant, &url(ORIGINS_MAX)).unwrap();
        assert_eq!(contacted(), 1);
    }
}
