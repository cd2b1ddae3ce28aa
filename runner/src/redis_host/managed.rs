//! The managed Redis (`redis.url = "managed"`): a local redis-server or valkey-server that the daemon
//! starts, watches and stops. Its data is in one directory, and it opens no port.
//!
//! Invariants: one daemon at a time owns a directory, by a file lock. The server listens on a Unix socket in
//! the directory, which only this user can open. Every acknowledged write is in its append-only file. A
//! daemon adopts the server that a killed daemon left behind, and restarts a server that dies.

mod data_dir;
mod error;
mod process;
mod socket_client;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};

pub use self::data_dir::socket_url;
pub use self::error::RedisServerError;
pub use self::process::is_installed;

use self::data_dir::DataDir;
use self::process::ServerProcess;

const RESTART_PAUSE_MIN: Duration = Duration::from_millis(100);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);

/// When the server syncs its append-only file to the disk, which bounds what a power failure can lose. The
/// death of a process loses nothing with any of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// Every second. A power failure loses about the last second.
    #[default]
    Everysec,
    /// Before each reply. A power failure loses no acknowledged write; slow.
    Always,
    /// When the operating system decides.
    No,
}

impl Fsync {
    /// The name in the manifest and in Redis.
    pub fn name(self) -> &'static str {
        match self {
            Self::Everysec => "everysec",
            Self::Always => "always",
            Self::No => "no",
        }
    }
}

/// A local Redis that this daemon owns. [`ManagedRedis::stop`] ends it and reports the result; dropping it
/// ends it without a report.
#[derive(Debug)]
pub struct ManagedRedis {
    url: String,
    stop: watch::Sender<bool>,
    server: Arc<Mutex<ServerProcess>>,
}

/// Watches a managed Redis. Clones watch the same one.
#[derive(Debug, Clone)]
pub struct Watcher {
    server: Arc<Mutex<ServerProcess>>,
    stopped: watch::Receiver<bool>,
}

impl ManagedRedis {
    /// Starts a server on `dir`, or adopts the one that a killed daemon left there. A missing `dir` is
    /// created with mode 0700. Returns when the server has loaded its data. Gives up after 30 s without a
    /// reply, or after 15 minutes of loading.
    ///
    /// # Errors
    /// [`RedisServerError`] with the remedy: the directory cannot be written, another daemon holds it, its
    /// path is too long for a socket, no server program is installed, or the server ends or does not reply.
    pub async fn start(dir: &Path, fsync: Fsync) -> Result<Self, RedisServerError> {
        let dir = DataDir::open(dir)?;
        let url = dir.url();
        let mut server = ServerProcess::new(dir, fsync);
        server.bring_up().await?;
        Ok(Self { url, stop: watch::Sender::new(false), server: Arc::new(Mutex::new(server)) })
    }

    /// The URL of the server for the redis crate: `redis+unix:///…/redis.sock`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What restarts the server whenever it dies.
    pub fn watcher(&self) -> Watcher {
        Watcher { server: Arc::clone(&self.server), stopped: self.stop.subscribe() }
    }

    /// Ends the server with `SHUTDOWN`, which writes and syncs its file. Kills it after 10 s.
    ///
    /// # Errors
    /// [`RedisServerError::Stop`] if it was killed. Acknowledged jobs are safe even then.
    pub async fn stop(self) -> Result<(), RedisServerError> {
        self.stop.send_replace(true);
        self.server.lock().await.shut_down().await
    }
}

impl Watcher {
    /// Restarts the server whenever it dies, until it is stopped.
    pub fn watch(&self) -> impl Future<Output = ()> + Send + use<> {
        let Self { server, mut stopped } = self.clone();
        async move {
            let mut server = server.lock().await;
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => {}
                () = restart_whenever_it_dies(&mut server) => {}
            }
        }
    }
}

async fn restart_whenever_it_dies(server: &mut ServerProcess) {
    loop {
        let died = server.ended().await;
        tracing::error!("the managed Redis ended unexpectedly and is restarted: {died}");
        restart(server).await;
        tracing::info!("the managed Redis is back");
    }
}

async fn restart(server: &mut ServerProcess) {
    let mut pause = RESTART_PAUSE_MIN;
    loop {
        tokio::time::sleep(pause).await;
        match server.bring_up().await {
            Ok(()) => return,
            Err(error) => tracing::error!("cannot restart the managed Redis: {error}"),
        }
        pause = (pause * 2).min(RESTART_PAUSE_MAX);
    }
}
