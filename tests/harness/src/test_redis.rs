//! The Redis of a test: one server, or a cluster where the tests run on one.

use crate::{RedisCluster, RedisServer, Topology};

/// Primaries of the cluster, each with a replica.
const PRIMARIES: usize = 3;

/// A Redis of the topology that [`Topology::of_run`] names. Dropping it ends its servers.
#[derive(Debug)]
pub enum TestRedis {
    /// One server.
    Single(RedisServer),
    /// A cluster of three primaries with a replica each.
    Cluster(RedisCluster),
}

impl TestRedis {
    /// Starts it without persistence and waits until it serves.
    ///
    /// # Panics
    /// If a server does not start.
    pub fn start() -> Self {
        Self::with_args(&[])
    }

    /// Starts it with further arguments of each server.
    ///
    /// # Panics
    /// If a server does not start.
    pub fn with_args(args: &[&str]) -> Self {
        match Topology::of_run() {
            Topology::Single => Self::Single(RedisServer::with_args(args)),
            Topology::Cluster => Self::Cluster(RedisCluster::calm(PRIMARIES, args)),
        }
    }

    /// The URL for the manifest.
    pub fn url(&self) -> String {
        match self {
            Self::Single(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// The URL with a login.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url().replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// The only server.
    ///
    /// # Panics
    /// If it is a cluster: the test lacks `only_on_one_server!`.
    pub fn server(&self) -> &RedisServer {
        match self {
            Self::Single(server) => server,
            Self::Cluster(_) => {
                panic!("this test needs one server; begin it with only_on_one_server!")
            }
        }
    }

    /// The servers that hold the keys.
    pub fn primaries(&self) -> &[RedisServer] {
        match self {
            Self::Single(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => cluster.initial_primaries(),
        }
    }

    /// The port of the server that has the slot of this key.
    pub fn port_of(&self, key: &str) -> u16 {
        match self {
            Self::Single(server) => server.port(),
            Self::Cluster(cluster) => cluster.initial_primaries()[cluster.primary_of(key)].port(),
        }
    }

    /// Whether it has been started and not stopped.
    pub fn is_running(&self) -> bool {
        self.primaries()[0].is_running()
    }

    /// Kills all servers.
    pub fn stop(&mut self) {
        match self {
            Self::Single(server) => server.stop(),
            Self::Cluster(cluster) => cluster.servers().iter_mut().for_each(RedisServer::stop),
        }
    }

    /// Kills all servers that run, starts them again, and waits until they serve.
    ///
    /// # Panics
    /// If a server does not start.
    pub fn restart(&mut self) {
        match self {
            Self::Single(server) => server.restart(),
            Self::Cluster(cluster) => cluster.restart(),
        }
    }

    /// All servers have this user, too, when they are started again.
    pub fn keep_user(&mut self, name: &str, rules: &[String]) {
        match self {
            Self::Single(server) => server.keep_user(name, rules),
            Self::Cluster(cluster) => {
                cluster.servers().iter_mut().for_each(|server| server.keep_user(name, rules));
            }
        }
    }

    /// Freezes all servers.
    ///
    /// # Panics
    /// If one does not run.
    pub fn pause(&self) {
        self.all().iter().for_each(RedisServer::pause);
    }

    /// Resumes all servers.
    ///
    /// # Panics
    /// If one does not run.
    pub fn resume(&self) {
        self.all().iter().for_each(RedisServer::resume);
    }

    /// Runs one command with `redis-cli` and returns its output. In a cluster a command about the server goes to all.
    ///
    /// # Panics
    /// If a server replies with an error.
    pub fn cli(&self, args: &[&str]) -> String {
        match self {
            Self::Single(server) => server.cli(args),
            Self::Cluster(cluster) => cluster.cli(args),
        }
    }

    /// Runs commands with `redis-cli`, one per line, and returns the lines of its output. In a cluster each command,
    /// or transaction, goes to the server of its first key.
    ///
    /// # Panics
    /// If a server replies with an error.
    pub fn pipe(&self, commands: &str) -> Vec<String> {
        match self {
            Self::Single(server) => server.pipe(commands),
            Self::Cluster(cluster) => cluster.pipe(commands),
        }
    }

    fn all(&self) -> &[RedisServer] {
        match self {
            Self::Single(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => cluster.all(),
        }
    }
}

/// A server of the test's own, in a run on one server.
impl From<RedisServer> for TestRedis {
    fn from(server: RedisServer) -> Self {
        assert!(
            Topology::of_run() == Topology::Single,
            "a test with a server of its own begins with only_on_one_server!, which says why"
        );
        Self::Single(server)
    }
}
