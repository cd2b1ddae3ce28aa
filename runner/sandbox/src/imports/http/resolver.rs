//! Name resolution under the SSRF check: it returns only the addresses that a grant allows.
//!
//! A lookup occupies no thread, however long a name server takes. The host connects to exactly the addresses
//! that were checked here; the name is not resolved a second time.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ProtocolConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup_ip::LookupIp;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name as DnsName, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};
use ipnet::IpNet;
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::may_connect;

/// How many queries may wait for one name server. A further one fails as busy.
const QUERIES_MAX: usize = 1_024;
const DNS_PORT: u16 = 53;
/// How often the system's files are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The name server if no file names one, as in the system's resolver.
const LOCAL_NAME_SERVER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Resolves names for all clients. The resolver is created by the first lookup, because most daemons make
/// none. It is created again when the files that configure it change.
pub(super) struct Names {
    source: Source,
    resolver: Mutex<Option<Cached>>,
}

/// Where the configuration comes from.
enum Source {
    Servers(Vec<SocketAddr>),
    /// The system's files: the list of name servers, and the hosts file, which has precedence.
    Files {
        servers: PathBuf,
        hosts: PathBuf,
    },
}

/// The resolver, when its files were checked, and their modification times when it was created.
struct Cached {
    resolver: Arc<Resolver>,
    checked_at: Instant,
    modified: [Option<SystemTime>; 2],
}

/// The hosts file, and the resolver for all other names.
struct Resolver {
    hosts: Hosts,
    dns: TokioResolver,
}

impl Names {
    /// Uses these name servers, or the system's hosts file and name servers if the list is empty.
    pub(super) fn new(servers: Vec<SocketAddr>) -> Self {
        match servers.is_empty() {
            true => Self::of_files("/etc/resolv.conf".into(), "/etc/hosts".into()),
            false => Self::of(Source::Servers(servers)),
        }
    }

    fn of_files(servers: PathBuf, hosts: PathBuf) -> Self {
        Self::of(Source::Files { servers, hosts })
    }

    fn of(source: Source) -> Self {
        Self { source, resolver: Mutex::default() }
    }

    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let failed = |error: NetError| LookupError::of(name, &error);
        let resolver = self.resolver(Instant::now()).map_err(failed)?;
        let found = resolver.in_hosts_file(name);
        if !found.is_empty() {
            return Ok(found);
        }
        Ok(resolver.dns.lookup_ip(name).await.map_err(failed)?.iter().collect())
    }

    fn resolver(&self, now: Instant) -> Result<Arc<Resolver>, NetError> {
        let mut cached = self.resolver.lock();
        let is_recent = |cached: &&Cached| now < cached.checked_at + CHECK_INTERVAL;
        if let Some(recent) = cached.as_ref().filter(is_recent) {
            return Ok(Arc::clone(&recent.resolver));
        }
        let modified = self.source.modified();
        let resolver = match cached.take() {
            Some(before) if before.modified == modified => before.resolver,
            _ => Arc::new(self.source.build()?),
        };
        *cached = Some(Cached { resolver: Arc::clone(&resolver), checked_at: now, modified });
        Ok(resolver)
    }
}

impl Resolver {
    /// The addresses of a name in the hosts file. If the file has an address of one family only, the other
    /// family is not looked up elsewhere: its name server may be unreachable.
    fn in_hosts_file(&self, name: &str) -> Vec<IpAddr> {
        let Ok(name) = DnsName::from_str(name) else { return Vec::new() };
        let families = [RecordType::A, RecordType::AAAA].into_iter();
        let found = families
            .filter_map(|kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind)));
        found.flat_map(|found| LookupIp::from(found).iter().collect::<Vec<_>>()).collect()
    }
}

impl Source {
    /// When the files were last modified. `None` for a file that does not exist.
    fn modified(&self) -> [Option<SystemTime>; 2] {
        let Self::Files { servers, hosts } = self else { return [None; 2] };
        [servers, hosts].map(|file| fs::metadata(file).and_then(|about| about.modified()).ok())
    }

    fn build(&self) -> Result<Resolver, NetError> {
        let ((config, mut options), mut hosts) = (self.config(), Hosts::default());
        options.use_hosts_file = ResolveHosts::Never;
        options.max_active_requests = QUERIES_MAX;
        if let Self::Files { hosts: path, .. } = self
            && let Ok(file) = File::open(path)
            && let Err(error) = hosts.read_hosts_conf(file)
        {
            tracing::warn!("{} cannot be read completely: {error}", path.display());
        }
        let mut builder =
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        Ok(Resolver { hosts, dns: builder.build()? })
    }

    fn config(&self) -> (ResolverConfig, ResolverOpts) {
        let file = match self {
            Self::Servers(servers) => return (with_servers(servers), ResolverOpts::default()),
            Self::Files { servers, .. } => servers,
        };
        name_servers(file).unwrap_or_else(|error| {
            tracing::warn!("{} contains no usable name server: {error}", file.display());
            let local = SocketAddr::new(LOCAL_NAME_SERVER, DNS_PORT);
            (with_servers(&[local]), ResolverOpts::default())
        })
    }
}

/// What the system's file of name servers says. On macOS that file is not the configuration: the system is asked.
fn name_servers(file: &Path) -> Result<(ResolverConfig, ResolverOpts), NetError> {
    #[cfg(target_vendor = "apple")]
    {
        let _ = file;
        system_conf::read_system_conf().map_err(NetError::from)
    }
    #[cfg(not(target_vendor = "apple"))]
    fs::read(file).map_err(NetError::from).and_then(system_conf::parse_resolv_conf)
}

fn with_servers(servers: &[SocketAddr]) -> ResolverConfig {
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

/// The resolver of one client. It returns only the addresses that the client's grant allows.
pub(super) struct PolicyResolver {
    pub(super) names: Arc<Names>,
    pub(super) private: Arc<[IpNet]>,
}

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (names, private) = (Arc::clone(&self.names), Arc::clone(&self.private));
        Box::pin(async move {
            let found = names.addresses(name.as_str()).await?;
            let mut allowed = found.clone();
            allowed.retain(|address| may_connect(*address, &private));
            if allowed.is_empty() {
                return Err(LookupError::denied(name.as_str(), &found).into());
            }
            let addresses = allowed.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(addresses) as Addrs)
        })
    }
}

/// Why a name has no address to connect to.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LookupError {
    /// All addresses of the name are denied.
    #[error(
        "all addresses of {name} ({}) are not public; add them to `http_private` of the topic's sandbox to allow them",
        list(addresses)
    )]
    Denied { name: String, addresses: Vec<IpAddr> },
    /// The name does not exist, or has no address.
    #[error("{0} has no address")]
    Unknown(String),
    /// No name server answered.
    #[error("{name} cannot be resolved: {reason}")]
    Failed { name: String, reason: String },
}

impl LookupError {
    fn of(name: &str, error: &NetError) -> Self {
        let name = name.to_owned();
        match error.is_nx_domain() || error.is_no_records_found() {
            true => Self::Unknown(name),
            false => Self::Failed { name, reason: error.to_string() },
        }
    }

    fn denied(name: &str, addresses: &[IpAddr]) -> Self {
        match addresses {
            [] => Self::Unknown(name.to_owned()),
            addresses => Self::Denied { name: name.to_owned(), addresses: addresses.to_vec() },
        }
    }
}

/// The first 4 addresses; a name can have hundreds.
fn list(addresses: &[IpAddr]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = addresses.iter().take(SHOWN).map(IpAddr::to_string).collect();
    let more = if addresses.len() > SHOWN { " and others" } else { "" };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_changed_hosts_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (servers, hosts) = (folder.path().join("resolv.conf"), folder.path().join("hosts"));
        let write = |address: &str, age: u64| {
            fs::write(&hosts, format!("# hosts\n{address} shop.test\n")).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 - age);
            File::options().write(true).open(&hosts).unwrap().set_modified(at).unwrap();
        };
        // There is no name server: names in the hosts file need none.
        let (names, begun) = (Names::of_files(servers, hosts.clone()), Instant::now());
        let later = begun + CHECK_INTERVAL * 100;
        write("192.0.2.1", 2);
        let one: [IpAddr; 1] = ["192.0.2.1".parse().unwrap()];
        assert_eq!(names.addresses("shop.test").await.unwrap(), one);
        write("192.0.2.2", 1);
        let before = names.resolver(begun).unwrap();
        assert_eq!(before.in_hosts_file("shop.test"), one);
        let after = names.resolver(later).unwrap();
        assert_eq!(after.in_hosts_file("shop.test"), ["192.0.2.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(after.in_hosts_file("other.test"), [] as [IpAddr; 0]);
        // While the files are unchanged, the resolver and its cache are kept.
        assert!(Arc::ptr_eq(&after, &names.resolver(later + CHECK_INTERVAL).unwrap()));
    }
}
