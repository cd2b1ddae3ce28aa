//! The handle on the queue: one connection, the prefix of its keys, and what is known of topics.

mod limits;
mod shards;

use std::sync::Arc;

use crate::error::QueueError;
use crate::topic::shards::KnownShards;
use crate::wire::connection::{Connection, ConnectionSettings};
use crate::wire::keys::Keys;
use crate::wire::latency::Traffic;
use crate::wire::reply::read_time;
use crate::wire::script;

/// A handle on the queue: cheap to clone, and shared by all who use one Redis.
#[derive(Clone)]
pub struct Queue {
    pub(crate) connection: Connection,
    pub(crate) keys: Keys,
    known_shards: Arc<KnownShards>,
}

impl Queue {
    /// Connects to Redis and loads the scripts.
    ///
    /// # Errors
    /// [`QueueError`] if the address is malformed, or Redis does not answer within 5 s or refuses.
    pub async fn connect(settings: &ConnectionSettings, prefix: &str) -> Result<Self, QueueError> {
        let connection = Connection::open(settings).await?;
        script::load(&connection).await?;
        Ok(Self { connection, keys: Keys::new(prefix), known_shards: Arc::default() })
    }

    /// What this handle and its clones asked of Redis so far, and how long the answers took.
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(self.connection.traffic())
    }

    /// The connection itself, for questions that are not about jobs (INFO, CONFIG).
    pub fn redis(&self) -> redis::aio::ConnectionManager {
        self.connection.manager()
    }

    /// Redis' clock, unix ms.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn now_ms(&self) -> Result<u64, QueueError> {
        read_time(script::run_one(&self.connection, redis::cmd("TIME")).await?)
    }
}
