//! A primary with replicas, and the sentinels that watch them.

use crate::{RedisServer, eventually};

/// Sentinels of a group. Two of them must agree that the primary is down.
const SENTINELS: usize = 3;

/// A primary, its replicas and three sentinels, each on its own loopback port.
#[derive(Debug)]
pub struct SentinelGroup {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl SentinelGroup {
    /// The name of the master in the sentinels' configuration.
    pub const MASTER: &str = "jobs-main";

    /// Starts a primary with two replicas, which sync writes to disk, and waits until the sentinels know them all.
    ///
    /// # Panics
    /// If a server does not start.
    pub fn start() -> Self {
        Self::with_password(None)
    }

    /// The same with a password of the servers, which the sentinels demand too.
    ///
    /// # Panics
    /// If a server does not start.
    pub fn with_password(password: Option<&str>) -> Self {
        let login: Vec<&str> = password
            .iter()
            .flat_map(|password| ["--requirepass", password, "--masterauth", password])
            .collect();
        let primary = RedisServer::with_args(&login);
        let of = format!("127.0.0.1 {}", primary.port());
        let quick = ["--repl-diskless-sync-delay", "0", "--replicaof", &of];
        let replica = || RedisServer::with_args(&[&quick[..], &login].concat());
        let directives = directives(primary.port(), password);
        let sentinels = (0..SENTINELS).map(|_| RedisServer::sentinel(&directives, password));
        let group =
            Self { sentinels: sentinels.collect(), servers: vec![replica(), replica(), primary] };
        for sentinel in &group.sentinels {
            eventually("the sentinels know all servers", || {
                let primary = sentinel.cli(&["SENTINEL", "MASTER", Self::MASTER]);
                let replicas = sentinel.cli(&["SENTINEL", "REPLICAS", Self::MASTER]);
                count(&primary, "num-other-sentinels", "2") == 1
                    && count(&replicas, "master-link-status", "ok") == 2
            });
        }
        group
    }

    /// The URL of the group, without a login.
    pub fn url(&self) -> String {
        let at = |sentinel: &RedisServer| format!("127.0.0.1:{}", sentinel.port());
        let hosts: Vec<String> = self.sentinels.iter().map(at).collect();
        format!("redis-sentinel://{}/{}", hosts.join(","), Self::MASTER)
    }

    /// The sentinels.
    pub fn sentinels(&mut self) -> &mut [RedisServer] {
        &mut self.sentinels
    }

    /// The server that the sentinels name.
    ///
    /// # Panics
    /// If it is none of the group.
    pub fn primary(&mut self) -> &mut RedisServer {
        let named =
            self.sentinels.iter().find(|sentinel| sentinel.is_running()).map(|sentinel| {
                sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::MASTER])
            });
        let port = named.as_deref().and_then(|named| named.lines().last()?.parse().ok());
        match self.servers.iter_mut().find(|server| Some(server.port()) == port) {
            Some(server) => server,
            None => panic!("no server is the primary: {named:?}"),
        }
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
        self.sentinels[0].cli(&["SENTINEL", "FAILOVER", Self::MASTER]);
    }
}

/// How often a field has this value in the output of redis-cli: names and values alternate.
fn count(output: &str, name: &str, value: &str) -> usize {
    let lines: Vec<&str> = output.lines().collect();
    lines.windows(2).filter(|pair| pair[0] == name && pair[1] == value).count()
}

/// What each sentinel is told. It finds a dead primary after half a second.
fn directives(primary: u16, password: Option<&str>) -> String {
    let name = SentinelGroup::MASTER;
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
