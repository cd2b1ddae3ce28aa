//! A Redis Cluster on loopback ports.

use std::path::Path;

use crate::port::free_port;
use crate::{CertificateFiles, RedisServer, eventually};

/// Slots of every cluster.
const SLOTS: usize = 16_384;
/// How long a server may be silent until its replica takes its place, ms.
const QUICK_MS: &str = "1000";
/// The same in a cluster whose servers are stopped and frozen together, and on a busy machine.
const CALM_MS: &str = "15000";

/// Primaries that share the slots, and a replica of each, if wanted.
#[derive(Debug)]
pub struct RedisCluster {
    servers: Vec<RedisServer>,
    primaries: usize,
    is_calm: bool,
}

impl RedisCluster {
    /// Starts primaries and waits until they serve all slots.
    ///
    /// # Panics
    /// If a server does not start, or refuses a command.
    pub fn start(primaries: usize) -> Self {
        Self::launch([primaries, 0], &[], None)
    }

    /// The same with a replica of each primary, which takes its place about two seconds after its death.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn with_replicas(primaries: usize) -> Self {
        Self::launch([primaries, primaries], &[], None)
    }

    /// Primaries with a replica each and further arguments of all, which are stopped and frozen only together: no
    /// replica takes the place of a primary.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn calm(primaries: usize, args: &[&str]) -> Self {
        let mut cluster = Self::launch([primaries, primaries], args, None);
        cluster.is_calm = true;
        cluster.calm_down();
        cluster
    }

    /// As [`Self::with_replicas`], with further arguments of each server.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn with_replicas_and_args(primaries: usize, args: &[&str]) -> Self {
        Self::launch([primaries, primaries], args, None)
    }

    /// Primaries with a replica each that take TLS, also among each other. They show this certificate.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn with_tls(primaries: usize, authority: &Path, shown: &CertificateFiles) -> Self {
        Self::launch([primaries, primaries], &[], Some((authority, shown)))
    }

    fn launch(
        [primaries, replicas]: [usize; 2],
        args: &[&str],
        tls: Option<(&Path, &CertificateFiles)>,
    ) -> Self {
        let servers: Vec<(RedisServer, u16)> =
            (0..primaries + replicas).map(|_| node(args, tls)).collect();
        for (number, (server, _)) in servers.iter().enumerate() {
            server.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]);
        }
        introduce(&servers);
        for (number, (server, _)) in servers.iter().enumerate().take(primaries) {
            let first = number * SLOTS / primaries;
            let last = (number + 1) * SLOTS / primaries - 1;
            let range = [first.to_string(), last.to_string()];
            server.cli(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]);
        }
        for number in 0..replicas {
            let id = servers[number].0.cli(&["CLUSTER", "MYID"]);
            let (replica, _) = &servers[primaries + number];
            eventually("the replica knows its primary", || {
                replica.cli(&["CLUSTER", "NODES"]).contains(&id)
            });
            replica.cli(&["CLUSTER", "REPLICATE", &id]);
            eventually("the replica follows its primary", || follows(replica));
        }
        let servers: Vec<RedisServer> = servers.into_iter().map(|(server, _)| server).collect();
        let cluster = Self { servers, primaries, is_calm: false };
        cluster.wait_until_it_serves();
        cluster
    }

    /// Kills all servers that run, starts them again, and waits until they serve.
    ///
    /// # Panics
    /// If a server does not start.
    pub fn restart(&mut self) {
        self.servers.iter_mut().for_each(RedisServer::stop);
        self.servers.iter_mut().for_each(RedisServer::restart);
        if self.is_calm {
            self.calm_down();
        }
        self.wait_until_it_serves();
        for replica in &self.servers[self.primaries..] {
            eventually("the replica follows its primary", || follows(replica));
        }
    }

    fn calm_down(&self) {
        for server in &self.servers {
            server.cli(&["CONFIG", "SET", "cluster-node-timeout", CALM_MS]);
        }
    }

    fn wait_until_it_serves(&self) {
        for server in &self.servers {
            eventually("the cluster serves", || {
                let info = info(server);
                info.contains("cluster_state:ok") && info.contains("cluster_slots_assigned:16384")
            });
        }
    }

    /// The URL of the cluster by two of its servers.
    pub fn url(&self) -> String {
        self.url_at("127.0.0.1", "redis-cluster", RedisServer::port)
    }

    /// The URL of the cluster over TLS, by two of its servers under this name.
    pub fn tls_url(&self, host: &str) -> String {
        self.url_at(host, "rediss-cluster", RedisServer::own_port)
    }

    fn url_at(&self, host: &str, scheme: &str, port: impl Fn(&RedisServer) -> u16) -> String {
        let at = |server: &RedisServer| format!("{host}:{}", port(server));
        let hosts: Vec<String> = self.servers.iter().take(2).map(at).collect();
        format!("{scheme}://{}", hosts.join(","))
    }

    /// All servers.
    pub fn servers(&mut self) -> &mut [RedisServer] {
        &mut self.servers
    }

    pub(crate) fn all(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The servers that began as primaries, to look at.
    pub fn initial_primaries(&self) -> &[RedisServer] {
        &self.servers[..self.primaries]
    }

    /// The servers that began as primaries.
    pub fn primaries(&mut self) -> &mut [RedisServer] {
        &mut self.servers[..self.primaries]
    }

    /// The servers that began as replicas, in the order of their primaries.
    pub fn replicas(&mut self) -> &mut [RedisServer] {
        &mut self.servers[self.primaries..]
    }

    /// Waits until the replica of this primary, which is dead, accepts writes.
    ///
    /// # Panics
    /// If it does not in time.
    pub fn wait_for_successor_of(&self, primary: usize) {
        let replica = &self.servers[self.primaries + primary];
        eventually("the replica accepts writes", || {
            // A server closes its connections when its role changes.
            let asked = |words: &[&str]| replica.try_cli(words).unwrap_or_default();
            asked(&["ROLE"]).starts_with("master")
                && asked(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
        });
    }

    /// The number of the first primary that has the slot of this key.
    ///
    /// # Panics
    /// If no server answers.
    pub fn primary_of(&self, key: &str) -> usize {
        let slot = self.servers[0].cli(&["CLUSTER", "KEYSLOT", key]);
        // The first slot of a primary is rounded down.
        let rounded = |slot: usize| (slot * self.primaries + self.primaries - 1) / SLOTS;
        slot.parse().map_or(0, rounded)
    }
}

fn info(server: &RedisServer) -> String {
    server.cli(&["CLUSTER", "INFO"])
}

fn follows(replica: &RedisServer) -> bool {
    replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
}

/// Makes all servers known to each other through the first one. A handshake that takes longer than the node timeout is
/// forgotten, as on a busy machine: then they meet again.
fn introduce(servers: &[(RedisServer, u16)]) {
    let known = format!("cluster_known_nodes:{}", servers.len());
    let (first, _) = &servers[0];
    eventually("the servers know each other", || {
        let met = first.cli(&["CLUSTER", "NODES"]);
        for (server, bus) in servers {
            if !met.contains(&format!("@{bus}")) {
                let port = server.own_port().to_string();
                first.cli(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus.to_string()]);
            }
        }
        servers.iter().all(|(server, _)| info(server).contains(&known))
    });
}

/// A server in cluster mode, and the port of its bus.
fn node(args: &[&str], tls: Option<(&Path, &CertificateFiles)>) -> (RedisServer, u16) {
    let bus = free_port();
    let port = bus.to_string();
    let cluster = ["--cluster-enabled", "yes", "--cluster-port", &port];
    let quick = ["--cluster-node-timeout", QUICK_MS, "--repl-diskless-sync-delay", "0"];
    let args = [&cluster[..], &quick, args].concat();
    let server = match tls {
        None => RedisServer::with_args(&args),
        Some((authority, shown)) => {
            let tls = ["--tls-cluster", "yes", "--tls-replication", "yes"];
            RedisServer::with_tls(authority, shown, &[&args[..], &tls].concat())
        }
    };
    (server, bus)
}
