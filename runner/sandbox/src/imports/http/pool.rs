//! The clients, one for each policy: a connection that one policy let be dialled is never used by another.
//! How many there are is bounded, and so is what each keeps open.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ipnet::IpNet;
use reqwest::{Client, redirect, retry};
use url::Url;

use super::error::HttpError;
use super::grant::{HttpGrant, Origin};
use super::resolver::{Checked, Names};
use super::trust::Trust;

/// Policies that have a client; with one more, that which was used longest ago loses its.
const CLIENTS_MAX: usize = 64;
/// Origins that one client asks before a new one takes its place. With the next it bounds what stays open.
const ORIGINS_MAX: usize = 128;
/// Connections to one origin that are kept for the next request.
const IDLE_MAX: usize = 8;
/// How long they are kept.
const IDLE: Duration = Duration::from_secs(30);
/// How long a connection may take to be made, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// Headers that a response of HTTP/1 may have.
const HEADERS_MAX: usize = 128;
/// What may be on its way to us unread, in bytes, of one exchange of HTTP/2 and of a connection.
const WINDOW: u32 = 256 << 10;
const WINDOW_OF_ALL: u32 = 1 << 20;
/// What the headers of a response of HTTP/2 may take, in bytes.
const HEADER_BYTES_MAX: u32 = 64 << 10;

/// The clients there are, the one used last at the end.
pub(super) struct Pool {
    names: Arc<Names>,
    trust: Trust,
    made: Mutex<Vec<Made>>,
}

/// A client, the policy it is for, and the origins it has met.
struct Made {
    allow: Vec<Origin>,
    private: Vec<IpNet>,
    client: Client,
    origins: HashSet<String>,
}

impl Pool {
    pub(super) fn new(names: Names, trust: Trust) -> Self {
        Self { names: Arc::new(names), trust, made: Mutex::default() }
    }

    /// The client for a policy, about to ask an origin.
    pub(super) fn client(&self, grant: &HttpGrant, url: &Url) -> Result<Client, HttpError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = url.origin().ascii_serialization();
        let known = made.iter().position(|made| made.is_for(grant)).map(|at| made.remove(at));
        let mut client = match known {
            Some(known) if known.origins.len() < ORIGINS_MAX || known.origins.contains(&origin) => {
                known
            }
            _ => self.make(grant)?,
        };
        client.origins.insert(origin);
        let answer = client.client.clone();
        if made.len() >= CLIENTS_MAX {
            made.remove(0);
        }
        made.push(client);
        Ok(answer)
    }

    fn make(&self, grant: &HttpGrant) -> Result<Made, HttpError> {
        let (names, private) = (Arc::clone(&self.names), grant.private.as_slice().into());
        let tls = self.trust.config().map_err(unavailable)?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .dns_resolver(Arc::new(Checked { names, private }))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_MAX)
            .http1_max_headers(HEADERS_MAX)
            .http2_initial_stream_window_size(WINDOW)
            .http2_initial_connection_window_size(WINDOW_OF_ALL)
            .http2_max_header_list_size(HEADER_BYTES_MAX)
            .user_agent(concat!("duebox/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| unavailable(error.to_string()))?;
        let (allow, private) = (grant.allow.clone(), grant.private.clone());
        Ok(Made { allow, private, client, origins: HashSet::new() })
    }
}

impl Made {
    fn is_for(&self, grant: &HttpGrant) -> bool {
        self.allow == grant.allow && self.private == grant.private
    }
}

fn unavailable(why: String) -> HttpError {
    HttpError::Unavailable(format!("the client of HTTP does not start: {why}"))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;

    use super::*;

    fn pool() -> Pool {
        // A root that is none: the system's would be read for nothing.
        Pool::new(Names::at(Vec::new()), Trust::of(vec![CertificateDer::from(vec![0])]))
    }

    fn url(number: usize) -> Url {
        format!("https://host-{number}.test/").parse().unwrap()
    }

    #[test]
    fn clients_are_few_and_those_used_last_stay() {
        let pool = pool();
        let grant = |number: usize| HttpGrant {
            allow: vec![format!("host-{number}.test").parse().unwrap()],
            ..HttpGrant::default()
        };
        for number in 0..CLIENTS_MAX {
            pool.client(&grant(number), &url(number)).unwrap();
        }
        pool.client(&grant(0), &url(0)).unwrap();
        // What a response may have is no part of what may be dialled.
        let other = HttpGrant { body_max: 1, ..grant(0) };
        pool.client(&other, &url(0)).unwrap();
        pool.client(&grant(CLIENTS_MAX), &url(0)).unwrap();
        let made = pool.made.lock().unwrap();
        assert_eq!(made.len(), CLIENTS_MAX);
        assert!(made.iter().any(|made| made.is_for(&grant(0))));
        assert!(!made.iter().any(|made| made.is_for(&grant(1))));
    }

    #[test]
    fn a_client_that_has_met_many_origins_makes_room_for_a_new_one() {
        let (pool, grant) = (pool(), HttpGrant::default());
        let met = || pool.made.lock().unwrap().iter().map(|made| made.origins.len()).sum::<usize>();
        for number in 0..ORIGINS_MAX {
            pool.client(&grant, &url(number)).unwrap();
        }
        pool.client(&grant, &url(0)).unwrap();
        assert_eq!(met(), ORIGINS_MAX);
        pool.client(&grant, &url(ORIGINS_MAX)).unwrap();
        assert_eq!(met(), 1);
    }
}
