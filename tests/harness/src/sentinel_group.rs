//! A primary with replicas, and the sentinels that watch them.

use std::path::Path;

use crate::{CertificateFiles, RedisServer, eventually};

/// Sentinels of a group. Two of them must agree that the primary is down.
const SENTINELS: usize = 3;

/// A primary, its replicas and three sentinels, each on its own loopback port.
#[derive(Debug)]
pub struct SentinelGroup {
    /// The name of the master. Groups of other tests have other names, so no sentinel follows theirs.
    master: String,
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl SentinelGroup {
    /// Starts a primary with two replicas, and waits until the sentinels know them all.
    ///
    /// # Panics
    /// If a server does not start.
    pub fn start() -> Self {
        Self::with_password(None)
    }

    /// The same with further arguments of the primary and its replicas.
    ///
    /// # Panics
    /// If a server does not start.
    pub fn with_args(args: &[&str]) -> Self {
        Self::launch(args, None, None)
    }

    /// The same with a password of the servers, which the sentinels demand too.
    ///
    /// # Panics
    /// If a server does not start.
    pub fn with_password(password: Option<&str>) -> Self {
        Self::launch(&[], password, None)
    }

    /// The same over TLS: the servers and the sentinels show this certificate, which must be for `127.0.0.1`.
    ///
    /// # Panics
    /// If a server does not start.
    pub fn with_tls(authority: &Path, shown: &CertificateFiles) -> Self {
        Self::launch(&[], None, Some((authority, shown)))
    }

    fn launch(
        further: &[&str],
        password: Option<&str>,
        tls: Option<(&Path, &CertificateFiles)>,
    ) -> Self {
        let server = |args: &[&str]| match tls {
            None => RedisServer::with_args(&[further, args].concat()),
            Some((authority, shown)) => {
                let args = [&["--tls-replication", "yes"], further, args].concat();
                RedisServer::with_tls(authority, shown, &args)
            }
        };
        let login: Vec<&str> = password
            .iter()
            .flat_map(|password| ["--requirepass", password, "--masterauth", password])
            .collect();
        let primary = server(&login);
        let of = format!("127.0.0.1 {}", primary.own_port());
        let quick = ["--repl-diskless-sync-delay", "0", "--replicaof", &of];
        let replica = || server(&[&quick[..], &login].concat());
        let master = format!("jobs-{}", primary.own_port());
        let directives = directives(&master, primary.own_port(), password);
        let own = sentinel_args(password, tls);
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let sentinels =
            (0..SENTINELS).map(|_| RedisServer::sentinel(&directives, &own, tls.is_some()));
        let sentinels = sentinels.collect();
        let group = Self { master, sentinels, servers: vec![replica(), replica(), primary] };
        for sentinel in &group.sentinels {
            eventually("the sentinels know all servers", || {
                let primary = sentinel.cli(&["SENTINEL", "MASTER", &group.master]);
                let replicas = sentinel.cli(&["SENTINEL", "REPLICAS", &group.master]);
                count(&primary, "num-other-sentinels", "2") == 1
                    && count(&replicas, "master-link-status", "ok") == 2
            });
        }
        group
    }

    /// The name of the master in the sentinels' configuration.
    pub fn master(&self) -> &str {
        &self.master
    }

    /// The URL of the group, without a login.
    pub fn url(&self) -> String {
        self.url_with("redis-sentinel", RedisServer::port)
    }

    /// The URL of the group over TLS, without a login.
    pub fn tls_url(&self) -> String {
        self.url_with("rediss-sentinel", RedisServer::own_port)
    }

    fn url_with(&self, scheme: &str, port: impl Fn(&RedisServer) -> u16) -> String {
        let at = |sentinel: &RedisServer| format!("127.0.0.1:{}", port(sentinel));
        let hosts: Vec<String> = self.sentinels.iter().map(at).collect();
        format!("{scheme}://{}/{}", hosts.join(","), self.master)
    }

    /// The servers, replicas first.
    pub fn servers(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    /// The sentinels.
    pub fn sentinels(&mut self) -> &mut [RedisServer] {
        &mut self.sentinels
    }

    /// The server that the sentinels name.
    ///
    /// # Panics
    /// If the primary is not in the group.
    pub fn primary(&mut self) -> &mut RedisServer {
        let named =
            self.sentinels.iter().find(|sentinel| sentinel.is_running()).map(|sentinel| {
                sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.master])
            });
        let port = named.as_deref().and_then(|named| named.lines().last()?.parse().ok());
        match self.servers.iter_mut().find(|server| Some(server.own_port()) == port) {
            Some(server) => server,
            None => panic!("no server is the primary: {named:?}"),
        }
    }

    /// Waits until a failover is over: one server is the primary, and all others that run are replicas. Only then is another
    /// primary that shows up the successor.
    ///
    /// # Panics
    /// If that does not happen.
    pub fn wait_until_one_primary(&self) {
        eventually("one server is the primary", || {
            let running = self.servers.iter().filter(|server| server.is_running());
            let roles: Vec<_> = running.map(|server| server.try_cli(&["ROLE"])).collect();
            let is_primary = |role: &&str| role.starts_with("master");
            let known: Vec<&str> = roles.iter().flatten().map(String::as_str).collect();
            known.len() == roles.len() && known.iter().filter(|role| is_primary(role)).count() == 1
        });
    }

    /// Waits until a server other than the one of this port takes writes.
    ///
    /// # Panics
    /// If none does in time.
    pub fn wait_for_successor_of(&self, port: u16) {
        eventually("another server is the primary", || {
            let others = self.servers.iter().filter(|server| server.port() != port);
            others
                .filter(|server| server.is_running())
                // A server closes its connections when its role changes.
                .any(|server| {
                    server.try_cli(&["ROLE"]).is_ok_and(|role| role.starts_with("master"))
                })
        });
    }

    /// Has the sentinels make a replica the primary. The old one keeps running.
    ///
    /// # Panics
    /// If a sentinel refuses.
    pub fn failover(&self) {
        self.sentinels[0].cli(&["SENTINEL", "FAILOVER", &self.master]);
    }
}

/// The arguments of a sentinel. With a certificate it takes TLS, and asks the others over TLS.
fn sentinel_args(password: Option<&str>, tls: Option<(&Path, &CertificateFiles)>) -> Vec<String> {
    let mut args: Vec<String> =
        tls.iter().flat_map(|(authority, shown)| shown.server_args(authority)).collect();
    if tls.is_some() {
        args.extend(["--tls-replication", "yes"].map(str::to_owned));
    }
    args.extend(password.iter().flat_map(|word| ["--requirepass", word].map(str::to_owned)));
    args
}

/// How often a field has this value in the output of redis-cli: names and values alternate.
fn count(output: &str, name: &str, value: &str) -> usize {
    let lines: Vec<&str> = output.lines().collect();
    lines.windows(2).filter(|pair| pair[0] == name && pair[1] == value).count()
}

/// What each sentinel is told. It finds a dead primary after half a second.
fn directives(name: &str, primary: u16, password: Option<&str>) -> String {
    let mut directives = format!(
        "sentinel monitor {name} 127.0.0.1 {primary} 2\nsentinel down-after-milliseconds {name} 500\n\
         sentinel failover-timeout {name} 3000\n"
    );
    if let Some(password) = password {
        directives +=
            &format!("sentinel sentinel-pass {password}\nsentinel auth-pass {name} {password}\n");
    }
    directives
}
