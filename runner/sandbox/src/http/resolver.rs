//! From a name to the addresses that may be dialled. A lookup holds no thread, however long a name server
//! keeps silent, and what is checked here is what is dialled: nobody looks the name up again.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ProtocolConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::read_system_conf;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::may_dial;

/// Questions that may be open at one name server; one more is refused as busy.
const OPEN_MAX: usize = 1_024;

/// Looks names up, for all clients. It is set up at the first name: most daemons never ask for one.
pub(super) struct Names {
    servers: Vec<SocketAddr>,
    resolver: OnceLock<Result<TokioResolver, String>>,
}

impl Names {
    /// Asks these name servers; without any, those of the system, after its file of hosts.
    pub(super) fn at(servers: Vec<SocketAddr>) -> Self {
        Self { servers, resolver: OnceLock::new() }
    }

    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let resolver = self.resolver.get_or_init(|| set_up(&self.servers));
        let resolver = resolver.as_ref().map_err(|error| LookupError::NoResolver(error.clone()))?;
        let found =
            resolver.lookup_ip(name).await.map_err(|error| LookupError::of(name, &error))?;
        Ok(found.iter().collect())
    }
}

fn set_up(servers: &[SocketAddr]) -> Result<TokioResolver, String> {
    let (config, mut options) = match servers {
        [] => read_system_conf().map_err(|error| error.to_string())?,
        servers => {
            let mut options = ResolverOpts::default();
            options.use_hosts_file = ResolveHosts::Never;
            (at_servers(servers), options)
        }
    };
    options.max_active_requests = OPEN_MAX;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.build().map_err(|error| error.to_string())
}

fn at_servers(servers: &[SocketAddr]) -> ResolverConfig {
    let server = |address: &SocketAddr| {
        let connections = [ProtocolConfig::Udp, ProtocolConfig::Tcp].map(|protocol| {
            let mut connection = ConnectionConfig::new(protocol);
            connection.port = address.port();
            connection
        });
        NameServerConfig::new(address.ip(), true, connections.into())
    };
    ResolverConfig::from_name_servers(servers.iter().map(server).collect())
}

/// The resolver of one client: of a name's addresses it gives those that its policy lets be dialled.
pub(super) struct Checked {
    pub(super) names: Arc<Names>,
    pub(super) private: Arc<[IpNet]>,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let (names, private) = (Arc::clone(&self.names), Arc::clone(&self.private));
        Box::pin(async move {
            let found = names.addresses(name.as_str()).await?;
            let mut allowed = found.clone();
            allowed.retain(|address| may_dial(*address, &private));
            if allowed.is_empty() {
                return Err(LookupError::denied(name.as_str(), &found).into());
            }
            let addresses = allowed.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// Why a name led nowhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum LookupError {
    /// It has addresses, and none may be dialled.
    #[error(
        "{name} has no address but {} here, which is not public; http_private of the topic's sandbox grants such ones",
        list(addresses)
    )]
    Denied { name: String, addresses: Vec<IpAddr> },
    /// There is no such name, or nothing under it.
    #[error("{0} has no address")]
    Unknown(String),
    /// No answer came from the name servers.
    #[error("{name} cannot be looked up: {why}")]
    Failed { name: String, why: String },
    /// This machine names no name server.
    #[error(
        "names cannot be looked up on this machine: {0}; it needs a name server in /etc/resolv.conf"
    )]
    NoResolver(String),
}

impl LookupError {
    fn of(name: &str, error: &NetError) -> Self {
        let name = name.to_owned();
        match error.is_nx_domain() || error.is_no_records_found() {
            true => Self::Unknown(name),
            false => Self::Failed { name, why: error.to_string() },
        }
    }

    fn denied(name: &str, addresses: &[IpAddr]) -> Self {
        match addresses {
            [] => Self::Unknown(name.to_owned()),
            addresses => Self::Denied { name: name.to_owned(), addresses: addresses.to_vec() },
        }
    }
}

/// The first few of them; a name can have hundreds.
fn list(addresses: &[IpAddr]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = addresses.iter().take(SHOWN).map(IpAddr::to_string).collect();
    let more = if addresses.len() > SHOWN { " and others" } else { "" };
    format!("{}{more}", shown.join(", "))
}
