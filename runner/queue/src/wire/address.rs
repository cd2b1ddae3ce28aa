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
    Server(Place),
    /// The primary that these sentinels name.
    Sentinels(Sentinels),
    /// The primaries of the cluster to which these servers belong.
    Cluster(Vec<Place>),
}

/// The sentinels that watch a primary and its replicas.
#[derive(Debug, Clone)]
pub(crate) struct Sentinels {
    pub(crate) places: Vec<Place>,
    /// The name that they have for the primary and its replicas.
    pub(crate) master: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
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
            return Err("certificates are always checked; remove what begins with #".to_owned());
        }
        let unreadable = |error: redis::RedisError| match error.detail() {
            Some(detail) => detail.to_owned(),
            None => "it cannot be read".to_owned(),
        };
        let info = plain.into_connection_info().map_err(unreadable)?;
        let place = match info.addr() {
            ConnectionAddr::Unix(path) => Place::Unix(path.clone()),
            ConnectionAddr::Tcp(host, port) => Place::tcp(host.clone(), *port, is_tls)?,
            other => return Err(format!("{other} is not supported")),
        };
        // That call needs a permission, and its refusal would fill the server's ACL log.
        let login = info.redis_settings().clone().set_skip_set_lib_name();
        Ok(Self { target: Target::Server(place), login })
    }

    /// Reads `[user:password@]host[:port],host[:port]/master[/database]`.
    fn of_sentinels(text: &str, scheme: &str) -> Result<Self, String> {
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        let (master, database) = path.split_once('/').unwrap_or((path, ""));
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if master.is_empty() || !master.chars().all(is_allowed) {
            return Err("it must end with the name of the master that the sentinels watch: \
                        redis-sentinel://host:port/NAME"
                .to_owned());
        }
        let (places, login) = Self::hosts(authority, scheme, SENTINEL_PORT, database)?;
        let sentinels = Sentinels { places, master: master.to_owned() };
        Ok(Self { target: Target::Sentinels(sentinels), login })
    }

    /// Reads `[user:password@]host[:port],host[:port]`.
    fn of_cluster(text: &str, scheme: &str) -> Result<Self, String> {
        let (authority, path) = text.split_once('/').unwrap_or((text, ""));
        if !matches!(path, "" | "0") {
            return Err("a cluster has database 0 only; remove what follows the hosts".to_owned());
        }
        let (places, login) = Self::hosts(authority, scheme, PORT, "")?;
        Ok(Self { target: Target::Cluster(places), login })
    }

    /// Reads `[user:password@]host[:port],host[:port]`; the login is for this database.
    fn hosts(
        authority: &str,
        scheme: &str,
        port: u16,
        database: &str,
    ) -> Result<(Vec<Place>, RedisConnectionInfo), String> {
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let mut places = Vec::new();
        let mut login = RedisConnectionInfo::default();
        for host in hosts.split(',') {
            if places.len() == HOSTS_MAX {
                return Err(format!("it names more than {HOSTS_MAX} hosts"));
            }
            let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = if has_port { String::new() } else { format!(":{port}") };
            let each = Self::parse(&format!("{scheme}://{user}{host}{port}/{database}"))?;
            let Target::Server(place) = each.target else { continue };
            places.push(place);
            login = each.login;
        }
        Ok((places, login))
    }

    pub(crate) fn uses_tls(&self) -> bool {
        let place = match &self.target {
            Target::Server(place) => Some(place),
            Target::Sentinels(sentinels) => sentinels.places.first(),
            Target::Cluster(seeds) => seeds.first(),
        };
        place.is_some_and(Place::uses_tls)
    }
}

impl Place {
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

impl fmt::Display for Place {
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

    fn place_of(address: &Address) -> String {
        match &address.target {
            Target::Server(place) => place.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn forms_of_sentinels() {
        for (url, master, db, places) in [
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
            let found: Vec<String> = sentinels.places.iter().map(Place::to_string).collect();
            assert_eq!((sentinels.master.as_str(), found.join(" ").as_str()), (master, places));
        }
    }

    #[test]
    fn forms_of_managed_providers() {
        let address = Address::parse("rediss://default:s%3Ac@cache.example:25061/3").unwrap();
        assert_eq!(address.login.username(), Some("default"));
        assert_eq!((address.login.password(), address.login.db()), (Some("s:c"), 3));
        assert!(address.uses_tls());
        assert_eq!(place_of(&address), "cache.example:25061");
        for (url, place) in [
            ("rediss://cache.example", "cache.example:6379"),
            ("rediss://10.0.0.1:6380/0", "10.0.0.1:6380"),
            ("rediss://[::1]:6380", "::1:6380"),
            ("redis://:secret@h:1", "h:1"),
            ("unix:///run/redis.sock", "/run/redis.sock"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(place_of(&address), place, "{url}");
            assert_eq!(address.uses_tls(), url.starts_with("rediss"), "{url}");
        }
    }

    #[test]
    fn forms_of_clusters() {
        let address = Address::parse("rediss-cluster://u:s%3Ac@a:1,b/0").unwrap();
        assert_eq!((address.login.password(), address.uses_tls()), (Some("s:c"), true));
        let Target::Cluster(seeds) = address.target else { panic!("{:?}", address.target) };
        let found: Vec<String> = seeds.iter().map(Place::to_string).collect();
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
