//! The address of Redis, the login and the certificates, as the program states them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, Value};

use crate::error::{QueueError, TlsProblem};
use crate::wire::address::{Address, NodeAddress, Sentinels, Target};
use crate::wire::copy_waits::CopyStats;
use crate::wire::durability::{Copies, Durability};
use crate::wire::node_addresses::NodeAddresses;
use crate::wire::small_file;
use crate::wire::stream::{DialError, Traffic};
use crate::wire::tls::TlsFiles;

/// The largest password, in bytes.
const PASSWORD_BYTES_MAX: u64 = 4096;

/// The address of Redis, the login, and the certificates for TLS.
///
/// Files are read anew for each connection, so that what is rotated on disk serves the next one.
///
/// ```
/// use duebox_queue::ConnectionSettings;
///
/// let settings = ConnectionSettings::new("rediss://mailer@cache.example:6380/0")
///     .with_password_file("/run/secrets/redis")
///     .with_ca("/etc/ssl/redis-ca.pem")
///     .with_client_certificate("mailer.pem", "mailer.key");
/// assert!(settings.uses_tls());
/// ```
#[derive(Clone)]
pub struct ConnectionSettings {
    url: String,
    password: Option<Password>,
    pub(crate) tls: TlsFiles,
    /// One server of those that the URL leads to.
    node: Option<NodeAddress>,
    node_addresses: NodeAddresses,
    durability: Durability,
    copy_stats: Arc<CopyStats>,
}

#[derive(Clone)]
enum Password {
    Text(String),
    File(PathBuf),
}

impl fmt::Debug for ConnectionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSettings")
            .field("url", &self.public_url())
            .finish_non_exhaustive()
    }
}

impl ConnectionSettings {
    /// The settings for `redis://[user:password@]host[:port][/database]`, the same with `rediss://` for TLS,
    /// `unix:///path/to.sock`, or `redis-sentinel://[user:password@]host[:port],…/master[/database]` for the
    /// primary that Redis Sentinel names (`rediss-sentinel://` for TLS).
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            password: None,
            tls: TlsFiles::default(),
            node: None,
            node_addresses: NodeAddresses::default(),
            durability: Durability::default(),
            copy_stats: Arc::default(),
        }
    }

    /// The password; it replaces one in the URL.
    #[must_use]
    pub fn with_password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(Password::Text(password.into()));
        self
    }

    /// A file with the password, which replaces one in the URL. Its final line ending is ignored.
    #[must_use]
    pub fn with_password_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.password = Some(Password::File(file.into()));
        self
    }

    /// A PEM file of the authorities that sign the server's certificate, in place of the system's.
    #[must_use]
    pub fn with_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.tls.ca = Some(file.into());
        self
    }

    /// PEM files of the certificate chain that the server demands of its clients, and of its key.
    #[must_use]
    pub fn with_client_certificate(
        mut self,
        cert: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Self {
        (self.tls.cert, self.tls.key) = (Some(cert.into()), Some(key.into()));
        self
    }

    /// Other addresses for servers that a cluster or a sentinel names, each `host:port`: the announced one, and the
    /// one to use in its node. The certificate must be for the latter.
    ///
    /// # Errors
    /// [`QueueError::Address`] for what is no `host:port`.
    pub fn with_node_addresses(
        mut self,
        pairs: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, QueueError> {
        self.node_addresses = NodeAddresses::read(pairs).map_err(|url| QueueError::Address {
            url,
            reason: "an address of a server is host:port".to_owned(),
        })?;
        Ok(self)
    }

    /// The addresses for servers that others name.
    pub(crate) fn node_addresses(&self) -> &NodeAddresses {
        &self.node_addresses
    }

    /// What a push and a settlement survive once they are confirmed. The default is [`Durability::Async`].
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// What a confirmed write survives.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// How waits for copies ended, on all connections with these settings and their clones.
    pub fn copy_stats(&self) -> Arc<CopyStats> {
        Arc::clone(&self.copy_stats)
    }

    /// The copies that a write must have before it is confirmed.
    pub(crate) fn copies(&self) -> Option<Copies> {
        let address = Address::parse(&self.url).ok();
        let is_single = |address: &Address| matches!(address.target, Target::Server(_));
        Copies::of(self.durability, !address.as_ref().is_some_and(is_single))
    }

    /// Checks the URL and every file, and connects to nothing.
    ///
    /// # Errors
    /// [`QueueError::Address`], [`QueueError::PasswordFile`] or [`QueueError::Tls`].
    pub fn check(&self) -> Result<(), QueueError> {
        let address = self.address()?;
        self.tls.check(address.uses_tls()).map_err(|problem| self.tls_fails(problem))
    }

    /// True if the connection uses TLS.
    pub fn uses_tls(&self) -> bool {
        Address::parse(&self.url).is_ok_and(|address| address.uses_tls())
    }

    /// True if the URL contains a password.
    pub fn has_password_in_url(&self) -> bool {
        Address::parse(&self.url).is_ok_and(|address| address.login.password().is_some())
    }

    /// The user of the URL; the `default` user without one.
    pub fn user(&self) -> String {
        let address = Address::parse(&self.url).ok();
        let user = address.as_ref().and_then(|address| address.login.username());
        user.unwrap_or("default").to_owned()
    }

    /// The address without what stands before its `@`, so that it can be logged.
    pub fn public_url(&self) -> String {
        match (self.url.find("://"), self.url.rfind('@')) {
            (Some(scheme), Some(at)) if at > scheme => {
                format!("{}…{}", &self.url[..scheme + 3], &self.url[at..])
            }
            _ => self.url.clone(),
        }
    }

    /// The address with the current password.
    pub(crate) fn address(&self) -> Result<Address, QueueError> {
        let mut address = Address::parse(&self.url)
            .map_err(|reason| QueueError::Address { url: self.public_url(), reason })?;
        if let Some(password) = self.password()? {
            address.login = address.login.set_password(password);
        }
        if let Some(node) = &self.node {
            address.target = Target::Server(node.clone());
        }
        Ok(address)
    }

    /// The sentinels of the address, if it has some.
    pub(crate) fn sentinels(&self) -> Result<Option<Sentinels>, QueueError> {
        Ok(match self.address()?.target {
            Target::Server(_) | Target::Cluster(_) => None,
            Target::Sentinels(sentinels) => Some(sentinels),
        })
    }

    /// The servers of the URL, if it is one of a cluster.
    pub(crate) fn cluster_seeds(&self) -> Result<Option<Vec<NodeAddress>>, QueueError> {
        Ok(match self.address()?.target {
            Target::Cluster(seeds) => Some(seeds),
            Target::Server(_) | Target::Sentinels(_) => None,
        })
    }

    /// The same settings for one server of a cluster.
    pub(crate) fn at(&self, node: NodeAddress) -> Self {
        Self { node: Some(node), ..self.clone() }
    }

    /// True if the URL is one of a cluster.
    pub fn is_cluster(&self) -> bool {
        Address::parse(&self.url).is_ok_and(|address| matches!(address.target, Target::Cluster(_)))
    }

    /// True if the URL names one server, and these settings are not those of a cluster's.
    pub(crate) fn is_of_one_server(&self) -> bool {
        let is_server =
            |address: Address| matches!(address.target, Target::Server(_)) && self.node.is_none();
        Address::parse(&self.url).is_ok_and(is_server)
    }

    /// The error for a server that answers this when it is asked for the slots of its cluster.
    pub(crate) fn no_cluster(&self, reply: Value) -> QueueError {
        let url = self.public_url();
        let Value::ServerError(error) = reply else {
            let reason = "it answers CLUSTER SLOTS in an unknown form".to_owned();
            return QueueError::Cluster { url, reason };
        };
        let error = RedisError::from(error);
        match error.code() {
            Some("NOPERM") => self.not_permitted(&error),
            _ => {
                let reason = error.detail().unwrap_or("it refuses CLUSTER SLOTS").to_owned();
                QueueError::Cluster { url, reason }
            }
        }
    }

    /// The error for a server that sentinels named and that is a replica.
    pub(crate) fn no_primary(&self, node: &NodeAddress) -> QueueError {
        self.unreachable(format!("the sentinels name {node} as the primary, and it is a replica"))
    }

    /// The error for a node that cannot be connected to.
    pub(crate) fn dial_failed(&self, error: DialError) -> QueueError {
        match error {
            DialError::Tls(problem) => self.tls_fails(problem),
            DialError::Io(error) => self.unreachable(error.to_string()),
        }
    }

    /// The error for a connection on which the login failed.
    pub(crate) fn login_failed(&self, error: &RedisError, traffic: &Traffic) -> QueueError {
        if let Some(problem) = traffic.failure() {
            return self.tls_fails(problem);
        }
        let (url, reason) = (self.public_url(), error.to_string());
        match error.code() {
            Some("NOPERM") => self.not_permitted(error),
            _ if error.is_timeout() => self.no_reply(),
            _ if is_refused_login(error) => QueueError::Login { url, reason },
            _ if error.is_connection_dropped() && traffic.read() == 0 && !self.uses_tls() => {
                QueueError::ClosedWithoutReply { url }
            }
            _ => QueueError::Unreachable { url, reason },
        }
    }

    /// The error for a user that may not run a command.
    pub(crate) fn not_permitted(&self, error: &RedisError) -> QueueError {
        let reason = error.detail().map_or_else(|| error.to_string(), str::to_owned);
        QueueError::NotPermitted { user: self.user(), reason }
    }

    /// The error for a server that accepts connections and answers nothing.
    pub(crate) fn no_reply(&self) -> QueueError {
        self.unreachable("it accepted the connection and did not answer in time".to_owned())
    }

    fn unreachable(&self, reason: String) -> QueueError {
        QueueError::Unreachable { url: self.public_url(), reason }
    }

    fn tls_fails(&self, problem: TlsProblem) -> QueueError {
        QueueError::Tls { url: self.public_url(), problem }
    }

    fn password(&self) -> Result<Option<String>, QueueError> {
        let path = match &self.password {
            None => return Ok(None),
            Some(Password::Text(text)) => return Ok(Some(text.clone())),
            Some(Password::File(path)) => path,
        };
        let refused = |reason: String| QueueError::PasswordFile {
            reason: format!("{}: {reason}", path.display()),
        };
        let bytes =
            small_file::read(path, PASSWORD_BYTES_MAX).map_err(|e| refused(e.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| refused("it is not UTF-8".to_owned()))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(refused("it is empty".to_owned())),
            password => Ok(Some(password.to_owned())),
        }
    }
}

/// True if Redis refuses the user or what it may do.
pub(crate) fn is_refused_login(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let settings = ConnectionSettings::new;
        assert_eq!(settings("redis://u:secret@h:1/0").public_url(), "redis://…@h:1/0");
        assert_eq!(settings("redis://h:1").public_url(), "redis://h:1");
        assert!(!format!("{:?}", settings("redis://:secret@h")).contains("secret"));
        assert!(!format!("{:?}", settings("redis://h").with_password("secret")).contains("secret"));
    }

    #[test]
    fn a_password_file_is_read_at_each_use() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let settings = ConnectionSettings::new("redis://u:old@h").with_password_file(&file);
        let password = || settings.address().map(|a| a.login.password().map(str::to_owned));
        assert!(settings.check().unwrap_err().to_string().contains("password"));
        for (text, read) in [("first\r\n", "first"), ("second", "second")] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(password().unwrap().as_deref(), Some(read));
        }
        for bad in [&b"\n"[..], b"\xff", &[b'x'; 5000]] {
            std::fs::write(&file, bad).unwrap();
            assert!(matches!(password(), Err(QueueError::PasswordFile { .. })), "{bad:?}");
        }
    }
}
