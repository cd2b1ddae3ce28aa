//! `redis.url`: the server to use.

use std::fmt;
use std::path::PathBuf;

use crate::redis_host::managed::Fsync;

/// The Redis server to use.
#[derive(Clone, PartialEq, Eq)]
pub enum RedisUrl {
    /// An existing server: `redis://…`, `rediss://…`, `redis-sentinel://…`, `rediss-sentinel://…` or `unix://…`.
    Url(String),
    /// A server that the daemon starts and owns.
    Managed {
        /// The directory of its data, socket and log.
        dir: PathBuf,
        /// When its append-only file is synced to the disk.
        fsync: Fsync,
    },
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for RedisUrl {
    /// The URL with its password masked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Managed { dir, .. } => write!(f, "managed in {}", dir.display()),
            Self::Url(url) => match (url.split_once("://"), url.rsplit_once('@')) {
                (Some((scheme, _)), Some((_, host))) => write!(f, "{scheme}://…@{host}"),
                _ => f.write_str(url),
            },
        }
    }
}
