//! The Redis of a run: one server, the same over TLS or with a replica, or a cluster.

use anyhow::Context;
use duebox_harness::{Authority, RedisCluster, RedisServer};
use duebox_queue::{ConnectionSettings, Durability};
use tempfile::TempDir;

use crate::redis_load::RedisLoad;

/// What a run's Redis is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// One server with extra arguments, such as `--appendonly yes`.
    Single(&'a [&'a str]),
    /// One server over TLS.
    Tls,
    /// A server that keeps its data on disk with a replica that does, and `redis.durability`.
    Replicated(Durability),
    /// A cluster of so many primaries without replicas.
    Cluster(usize),
}

/// The Redis of a run. Its servers end with it.
pub(crate) struct Servers {
    held: Held,
    settings: ConnectionSettings,
    url: String,
    /// Further lines of `[redis]` in the manifest.
    lines: String,
    /// Certificates.
    _files: Option<TempDir>,
}

enum Held {
    Single(RedisServer),
    Replicated(RedisServer, RedisServer),
    Cluster(RedisCluster),
}

/// A Redis whose confirmed writes are on disk.
const ON_DISK: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];

impl Servers {
    /// Starts the servers.
    pub(crate) fn start(place: Place<'_>) -> anyhow::Result<Self> {
        Ok(match place {
            Place::Single(args) => {
                let server = RedisServer::with_args(args);
                let url = server.url();
                Self::new(Held::Single(server), url, String::new())
            }
            Place::Tls => Self::over_tls()?,
            Place::Replicated(durability) => {
                let primary = RedisServer::with_args(&ON_DISK);
                let replica = primary.replica(&ON_DISK);
                let url = primary.url();
                let lines = format!("durability = \"{}\"\n", durability.word());
                let mut servers = Self::new(Held::Replicated(primary, replica), url, lines);
                servers.settings = servers.settings.with_durability(durability);
                servers
            }
            Place::Cluster(primaries) => {
                let cluster = RedisCluster::start(primaries);
                let url = cluster.url();
                Self::new(Held::Cluster(cluster), url, String::new())
            }
        })
    }

    fn new(held: Held, url: String, lines: String) -> Self {
        let settings = ConnectionSettings::new(url.clone());
        Self { held, settings, url, lines, _files: None }
    }

    fn over_tls() -> anyhow::Result<Self> {
        let files = tempfile::tempdir().context("cannot create a directory for certificates")?;
        let authority = Authority::new();
        let ca = authority.write(&files.path().join("ca.pem"));
        let shown = authority.issue(files.path(), "server", &["localhost"]);
        let server = RedisServer::with_tls(&ca, &shown, &[]);
        let (url, lines) = (server.tls_url(), format!("ca = {:?}\n", ca.display().to_string()));
        let mut servers = Self::new(Held::Single(server), url, lines);
        servers.settings = servers.settings.with_ca(ca);
        servers._files = Some(files);
        Ok(servers)
    }

    /// How a client of the queue connects.
    pub(crate) fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    /// The URL in manifests.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The lines of `[redis]` in manifests.
    pub(crate) fn manifest_lines(&self) -> String {
        format!("url = {:?}\n{}", self.url, self.lines)
    }

    /// The server, or the first of the cluster.
    pub(crate) fn first(&self) -> &RedisServer {
        match &self.held {
            Held::Single(server) | Held::Replicated(server, _) => server,
            Held::Cluster(cluster) => &cluster.initial_primaries()[0],
        }
    }

    /// The CPU time of each server since its start, s: primaries, then the replica.
    pub(crate) async fn cpu_s(&self) -> anyhow::Result<Vec<f64>> {
        let servers: Vec<&RedisServer> = match &self.held {
            Held::Single(server) => vec![server],
            Held::Replicated(primary, replica) => vec![primary, replica],
            Held::Cluster(cluster) => cluster.initial_primaries().iter().collect(),
        };
        let mut spent = Vec::with_capacity(servers.len());
        for server in servers {
            let client = redis::Client::open(server.url())?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            spent.push(RedisLoad::of(&mut connection).await?.cpu_s);
        }
        Ok(spent)
    }
}
