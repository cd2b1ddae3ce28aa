//! The address of Redis as a URL.

use std::fmt;
use std::path::PathBuf;

use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo};
use rustls::pki_types::ServerName;

/// The port of a sentinel if the URL names none.
const SENTINEL_PORT: u16 = 26_379;
/// The port of a server if the URL names none.
const PORT: u16 = 6_379;
/// How many servers or sentinels a URL names at most.
const HOSTS_MAX: usize = 16;

/// Where Redis is, and what it is told at the login.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) target: Target,
    /// The user, the password of the URL and the database.
    pub(crate) login: RedisConnectionInfo,
}

/// What an address leads to.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Server(NodeAddress),
    /// The primary that these sentinels name.
    Sentinels(Sentinels),
    /// The primaries of the cluster to which these servers belong.
    Cluster(Vec<NodeAddress>),
}

/// The sentinels that watch a primary and its replicas.
#[derive(Debug, Clone)]
pub(crate) struct Sentinels {
    pub(crate) nodes: Vec<NodeAddress>,
    /// The name that they have for the primary and its replicas.
    pub(crate) master: String,
}

/// The address of one server of Redis: a server, a sentinel or a node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeAddress {
    Unix(PathBuf),
    Tcp {
        host: String,
        port: u16,
        /// The name for which the certificate must be; `None` without TLS.
        tls: Option<ServerName<'static>>,
    },
}

impl Address {
    /// Reads a URL; the error says what is wrong, without its password.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or("it has no scheme")?;
        // The redis crate is built without TLS and does not know these schemes.
        let (plain, is_tls) = match scheme {
            "redis-sentinel" => return Self::of_sentinels(rest, "redis"),
            "rediss-sentinel" => return Self::of_sentinels(rest, "rediss"),
            "redis-cluster" => return Self::of_cluster(rest, "redis"),
            "rediss-cluster" => return Self::of_cluster(rest, "rediss"),
            "rediss" | "valkeys" => (format!("redis://{rest}"), true),
            "redis" | "valkey" | "unix" | "redis+unix" | "valkey+unix" => (url.to_owned(), false),
            other => return Err(format!("{other}:// is not a scheme of Redis")),
        };
        if is_tls && rest.contains('#') {
            return Err(
                "it ends with # and an option, and certificates are always checked".to_owned()
            );
        }
        let unreadable = |error: redis::RedisError| match error.detail() {
            Some(detail) => detail.to_owned(),
            None => "it cannot be read".to_owned(),
        };
        let info = plain.into_connection_info().map_err(unreadable)?;
        let node = match info.addr() {
            ConnectionAddr::Unix(path) => NodeAddress::Unix(path.clone()),
            ConnectionAddr::Tcp(host, port) => NodeAddress::tcp(host.clone(), *port, is_tls)?,
            other => return Err(format!("{other} is not supported")),
        };
        // That call needs a permission, and its refusal would fill the server's ACL log.
        let login = info.redis_settings().clone().set_skip_set_lib_name();
        Ok(Self { target: Target::Server(node), login })
    }

    /// Reads `[user:password@]host[:port],host[:port]/master[/database]`.
    fn of_sentinels(text: &str, scheme: &str) -> Result<Self, String> {
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        let (master, database) = path.split_once('/').unwrap_or((path, ""));
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if master.is_empty() || !master.chars().all(is_allowed) {
            return Err(
                "it does not end with /NAME, the name of the master that the sentinels watch"
                    .to_owned(),
            );
        }
        let (nodes, login) = Self::hosts(authority, scheme, SENTINEL_PORT, database)?;
        let sentinels = Sentinels { nodes, master: master.to_owned() };
        Ok(Self { target: Target::Sentinels(sentinels), login })
    }

    /// Reads `[user:password@]host[:port],host[:port]`.
    fn of_cluster(text: &str, scheme: &str) -> Result<Self, String> {
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        if !matches!(path, "" | "0") {
            return Err(
                "a cluster has database 0 only, and something else follows the hosts".to_owned()
            );
        }
        let (nodes, login) = Self::hosts(authority, scheme, PORT, "")?;
        Ok(Self { target: Target::Cluster(nodes), login })
    }

    /// Reads `[user:password@]host[:port],host[:port]`; the login is for this database.
    fn hosts(
        authority: &str,
        scheme: &str,
        port: u16,
        database: &str,
    ) -> Result<(Vec<NodeAddress>, RedisConnectionInfo), String> {
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let mut nodes = Vec::new();
        let mut login = RedisConnectionInfo::default();
        for host in hosts.split(',') {
            if nodes.len() == HOSTS_MAX {
                return Err(format!("it names more than {HOSTS_MAX} hosts"));
            }
            let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = if has_port { String::new() } else { format!(":{port}") };
            let each = Self::parse(&format!("{scheme}://{user}{host}{port}/{database}"))?;
            let Target::Server(node) = each.target else { continue };
            nodes.push(node);
            login = each.login;
        }
        Ok((nodes, login))
    }

    pub(crate) fn uses_tls(&self) -> bool {
        let node = match &self.target {
            Target::Server(node) => Some(node),
            Target::Sentinels(sentinels) => sentinels.nodes.first(),
            Target::Cluster(seeds) => seeds.first(),
        };
        node.is_some_and(NodeAddress::uses_tls)
    }
}

impl NodeAddress {
    pub(crate) fn tcp(host: String, port: u16, is_tls: bool) -> Result<Self, String> {
        let tls = is_tls.then(|| server_name(&host)).transpose()?;
        Ok(Self::Tcp { host, port, tls })
    }

    pub(crate) fn uses_tls(&self) -> bool {
        matches!(self, Self::Tcp { tls: Some(_), .. })
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("no certificate can be for the host {host:?}"))
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp { host, port, .. } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node_of(address: &Address) -> String {
        match &address.target {
            Target::Server(node) => node.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn forms_of_sentinels() {
        for (url, master, db, nodes) in [
            ("redis-sentinel://a/main", "main", 0, "a:26379"),
            (
                "redis-sentinel://u:s%3Ac@a:1,b,[::1]:2,[::2]/my.main-1/3",
                "my.main-1",
                3,
                "a:1 b:26379 ::1:2 ::2:26379",
            ),
            ("rediss-sentinel://u:s%3Ac@a:1/main", "main", 0, "a:1"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.uses_tls(), url.starts_with("rediss"), "{url}");
            let password = url.contains('@').then_some("s:c");
            assert_eq!((address.login.password(), address.login.db()), (password, db), "{url}");
            let Target::Sentinels(sentinels) = address.target else { panic!("{url}") };
            let found: Vec<String> = sentinels.nodes.iter().map(NodeAddress::to_string).collect();
            assert_eq!((sentinels.master.as_str(), found.join(" ").as_str()), (master, nodes));
        }
    }

    #[test]
    fn forms_of_managed_providers() {
        let address = Address::parse("rediss://default:s%3Ac@cache.example:25061/3").unwrap();
        assert_eq!(address.login.username(), Some("default"));
        assert_eq!((address.login.password(), address.login.db()), (Some("s:c"), 3));
        assert!(address.uses_tls());
        assert_eq!(node_of(&address), "cache.example:25061");
        for (url, node) in [
            ("rediss://cache.example", "cache.example:6379"),
            ("rediss://10.0.0.1:6380/0", "10.0.0.1:6380"),
            ("rediss://[::1]:6380", "::1:6380"),
            ("redis://:secret@h:1", "h:1"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(node_of(&address), node, "{url}");
            assert_eq!(address.uses_tls(), url.starts_with("rediss"), "{url}");
        }
    }

    #[test]
    fn forms_of_clusters() {
        let address = Address::parse("rediss-cluster://u:s%3Ac@a:1,b/0").unwrap();
        assert_eq!((address.login.password(), address.uses_tls()), (Some("s:c"), true));
        let Target::Cluster(seeds) = address.target else { panic!("{:?}", address.target) };
        let found: Vec<String> = seeds.iter().map(NodeAddress::to_string).collect();
        assert_eq!(found, ["a:1", "b:6379"]);
    }

    #[test]
    fn what_is_refused() {
        for (url, words) in [
            ("cache.example:6379", "no scheme"),
            ("http://cache.example", "http:// is not a scheme"),
            ("rediss://cache.example#insecure", "always checked"),
            ("rediss://", ""),
            ("redis://h:port/x", ""),
            ("redis://h/x", "cannot be read"),
            ("redis-sentinel://a:26379,b:26379", "name of the master"),
            ("redis-sentinel://a/0?x", "name of the master"),
            ("redis-sentinel:///main", ""),
            ("redis-sentinel://a,,b/main", ""),
            ("redis-sentinel://a/main/x", "cannot be read"),
            (&format!("redis-sentinel://{}a/main", "a,".repeat(16)), "more than 16"),
            ("redis-cluster://a,b/1", "database 0"),
            ("redis-cluster://", ""),
        ] {
            let reason = Address::parse(url).unwrap_err();
            assert!(reason.contains(words), "{url}: {reason}");
        }
    }
}
