//! The managed Redis (`redis.url = "managed"`): a local redis-server, or valkey-server, that the
//! daemon starts, watches and stops, with its data in one directory and no port open to anybody.
//!
//! Invariants: one daemon at a time owns a directory (a file lock held for as long as the daemon
//! lives); the server listens on a unix socket in it that only this user may open; what it has
//! acknowledged is in its append-only file. A server that a killed daemon left behind is adopted by
//! the next one. A server that dies is started again.

mod data_dir;
mod error;
mod process;
mod socket_client;

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use self::data_dir::socket_url;
pub use self::error::RedisServerError;

use self::data_dir::DataDir;
use self::process::ServerProcess;

const RESTART_PAUSE_MIN: Duration = Duration::from_millis(100);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How often the server brings its append-only file to the disk itself: what a power cut can take.
/// The death of a process loses nothing with any of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// Each second: a power cut loses about the last second.
    #[default]
    Everysec,
    /// Before each answer: a power cut loses nothing that was acknowledged; slow.
    Always,
    /// When the operating system likes to.
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

/// A local Redis that belongs to this daemon. [`ManagedRedis::stop`] ends it cleanly; dropping it
/// ends it too, without anybody hearing how that went.
#[derive(Debug)]
pub struct ManagedRedis {
    url: String,
    stop: oneshot::Sender<()>,
    watch: JoinHandle<Result<(), RedisServerError>>,
}

impl ManagedRedis {
    /// Starts a server on `dir`, which is created with mode 0700 if it is missing, or adopts the
    /// one that a killed daemon left there. Returns when it answers and has its data loaded: after
    /// at most 30 s of silence, or 15 min of loading.
    ///
    /// # Errors
    /// [`RedisServerError`] says what stands in the way and the remedy: a directory that cannot be
    /// written, that another daemon holds or whose path is too long for a socket, no server
    /// program installed, or a server that ends or keeps silent.
    pub async fn start(dir: &Path, fsync: Fsync) -> Result<Self, RedisServerError> {
        let dir = DataDir::open(dir)?;
        let url = dir.url();
        let mut server = ServerProcess::new(dir, fsync);
        server.bring_up().await?;
        let (stop, stopped) = oneshot::channel();
        Ok(Self { url, stop, watch: tokio::spawn(watch(server, stopped)) })
    }

    /// The address of the server, as the redis crate takes it: `redis+unix:///…/redis.sock`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends the server with `SHUTDOWN`, so that its file is written and synced, and waits until it
    /// is gone: at most 10 s, then it is killed.
    ///
    /// # Errors
    /// [`RedisServerError::Stop`] if it did not end by itself. Acknowledged jobs are safe even then.
    pub async fn stop(self) -> Result<(), RedisServerError> {
        if self.stop.send(()).is_err() {
            tracing::debug!("the watch over the managed Redis has ended already");
        }
        match self.watch.await {
            Ok(ended) => ended,
            Err(panicked) => Err(RedisServerError::Stop { why: panicked.to_string() }),
        }
    }
}

/// Keeps the server up until it shall stop (or nobody holds the other end any more).
async fn watch(
    mut server: ServerProcess,
    mut stop: oneshot::Receiver<()>,
) -> Result<(), RedisServerError> {
    loop {
        let died = tokio::select! {
            _ = &mut stop => return server.shut_down().await,
            died = server.ended() => died,
        };
        tracing::error!("the managed Redis ended by itself and is started again: {died}");
        tokio::select! {
            _ = &mut stop => return server.shut_down().await,
            () = bring_back(&mut server) => tracing::info!("the managed Redis is back"),
        }
    }
}

async fn bring_back(server: &mut ServerProcess) {
    let mut pause = RESTART_PAUSE_MIN;
    loop {
        tokio::time::sleep(pause).await;
        match server.bring_up().await {
            Ok(()) => return,
            Err(error) => tracing::error!("the managed Redis does not come back: {error}"),
        }
        pause = (pause * 2).min(RESTART_PAUSE_MAX);
    }
}
