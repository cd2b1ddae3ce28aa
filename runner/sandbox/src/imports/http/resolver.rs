//! From a name to the addresses that may be dialled. A lookup holds no thread, however long a name server
//! keeps silent, and what is checked here is what is dialled: nobody looks the name up again.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ProtocolConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup_ip::LookupIp;
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name as DnsName, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, TokioResolver};
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::may_dial;

/// Questions that may be open at one name server; one more is refused as busy.
const OPEN_MAX: usize = 1_024;
/// Where a name server listens.
const DNS_PORT: u16 = 53;
/// How soon a change of the system's files is seen.
const LOOK: Duration = Duration::from_secs(5);
/// Who is asked where no file names anybody, as the system's own library does.
const THIS_MACHINE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Looks names up, for all clients. It is set up at the first name, most daemons never ask for one, and anew
/// when the files change that it was set up from.
pub(super) struct Names {
    source: Source,
    set_up: Mutex<Option<SetUp>>,
}

/// Who knows the addresses.
enum Source {
    Servers(Vec<SocketAddr>),
    /// Those that a file names, after a file of hosts.
    Files {
        servers: PathBuf,
        hosts: PathBuf,
    },
}

/// What is asked, when its files were looked at, and how they were when it was set up.
struct SetUp {
    known: Arc<Known>,
    looked: Instant,
    changed: [Option<SystemTime>; 2],
}

/// The file of hosts, and who is asked for what it does not have.
struct Known {
    hosts: Hosts,
    resolver: TokioResolver,
}

impl Names {
    /// Asks these name servers; without any, those of the system, after its file of hosts.
    pub(super) fn at(servers: Vec<SocketAddr>) -> Self {
        match servers.is_empty() {
            true => Self::of_files("/etc/resolv.conf".into(), "/etc/hosts".into()),
            false => Self::of(Source::Servers(servers)),
        }
    }

    fn of_files(servers: PathBuf, hosts: PathBuf) -> Self {
        Self::of(Source::Files { servers, hosts })
    }

    fn of(source: Source) -> Self {
        Self { source, set_up: Mutex::default() }
    }

    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let failed = |error: NetError| LookupError::of(name, &error);
        let known = self.known(Instant::now()).map_err(failed)?;
        let found = known.in_hosts(name);
        if !found.is_empty() {
            return Ok(found);
        }
        Ok(known.resolver.lookup_ip(name).await.map_err(failed)?.iter().collect())
    }

    fn known(&self, now: Instant) -> Result<Arc<Known>, NetError> {
        let mut set_up = self.set_up.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = set_up.as_ref().filter(|before| now < before.looked + LOOK) {
            return Ok(Arc::clone(&before.known));
        }
        let changed = self.source.changed();
        let known = match set_up.take() {
            Some(before) if before.changed == changed => before.known,
            _ => Arc::new(self.source.set_up()?),
        };
        *set_up = Some(SetUp { known: Arc::clone(&known), looked: now, changed });
        Ok(known)
    }
}

impl Known {
    /// The addresses that the file of hosts has for a name. With one of either kind nobody is asked for the
    /// other, who may not be there at all.
    fn in_hosts(&self, name: &str) -> Vec<IpAddr> {
        let Ok(name) = DnsName::from_str(name) else { return Vec::new() };
        let kinds = [RecordType::A, RecordType::AAAA].into_iter();
        let found = kinds
            .filter_map(|kind| self.hosts.lookup_static_host(&Query::query(name.clone(), kind)));
        found.flat_map(|found| LookupIp::from(found).iter().collect::<Vec<_>>()).collect()
    }
}

impl Source {
    /// When its files were last changed; nothing of one that is not there.
    fn changed(&self) -> [Option<SystemTime>; 2] {
        let Self::Files { servers, hosts } = self else { return [None; 2] };
        [servers, hosts].map(|file| fs::metadata(file).and_then(|about| about.modified()).ok())
    }

    fn set_up(&self) -> Result<Known, NetError> {
        let ((config, mut options), mut listed) = (self.settings(), Hosts::default());
        options.use_hosts_file = ResolveHosts::Never;
        options.max_active_requests = OPEN_MAX;
        if let Self::Files { hosts, .. } = self
            && let Ok(file) = File::open(hosts)
            && let Err(error) = listed.read_hosts_conf(file)
        {
            tracing::warn!("{} cannot be read to its end: {error}", hosts.display());
        }
        let mut builder =
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        Ok(Known { hosts: listed, resolver: builder.build()? })
    }

    fn settings(&self) -> (ResolverConfig, ResolverOpts) {
        let file = match self {
            Self::Servers(servers) => return (at_servers(servers), ResolverOpts::default()),
            Self::Files { servers, .. } => servers,
        };
        let read = fs::read(file).map_err(NetError::from).and_then(parse_resolv_conf);
        read.unwrap_or_else(|error| {
            tracing::warn!("no name server is known from {}: {error}", file.display());
            (at_servers(&[SocketAddr::new(THIS_MACHINE, DNS_PORT)]), ResolverOpts::default())
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_changed_file_of_hosts_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (servers, hosts) = (folder.path().join("resolv.conf"), folder.path().join("hosts"));
        let write = |address: &str, age: u64| {
            fs::write(&hosts, format!("# hosts\n{address} shop.test\n")).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 - age);
            File::options().write(true).open(&hosts).unwrap().set_modified(at).unwrap();
        };
        // Nobody is asked for what the file has: no name server is there.
        let (names, begun) = (Names::of_files(servers, hosts.clone()), Instant::now());
        let later = begun + LOOK * 100;
        write("192.0.2.1", 2);
        let one: [IpAddr; 1] = ["192.0.2.1".parse().unwrap()];
        assert_eq!(names.addresses("shop.test").await.unwrap(), one);
        write("192.0.2.2", 1);
        let before = names.known(begun).unwrap();
        assert_eq!(before.in_hosts("shop.test"), one);
        let after = names.known(later).unwrap();
        assert_eq!(after.in_hosts("shop.test"), ["192.0.2.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(after.in_hosts("other.test"), [] as [IpAddr; 0]);
        // Files that stay as they are keep the resolver, and what it remembers.
        assert!(Arc::ptr_eq(&after, &names.known(later + LOOK).unwrap()));
    }
}
