//! The handle on the queue: one connection, the prefix of its keys, and a cache of the number of
//! shards.

mod limits;
mod shards;

use std::sync::Arc;

use crate::error::QueueError;
use crate::topic::shards::KnownShards;
use crate::wire::connection::{Connection, ConnectionSettings};
use crate::wire::keys::Keys;
use crate::wire::latency::LatencyStats;
use crate::wire::reply::read_time;
use crate::wire::script;

/// The queue on one Redis. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct Queue {
    pub(crate) connection: Connection,
    pub(crate) keys: Keys,
    known_shards: Arc<KnownShards>,
}

impl Queue {
    /// Connects to Redis and loads the scripts. All keys begin with `prefix`, `duebox` by convention.
    ///
    /// # Errors
    /// [`QueueError`] if the address is malformed, or Redis does not answer within 5 s or refuses.
    ///
    /// # Example
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use duebox_queue::{ConnectionSettings, Queue};
    ///
    /// # let server = duebox_harness::RedisServer::start();
    /// # let url = server.url();
    /// let queue = Queue::connect(&ConnectionSettings::new(url), "duebox").await?;
    /// assert!(queue.topics().await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(settings: &ConnectionSettings, prefix: &str) -> Result<Self, QueueError> {
        let connection = Connection::open(settings).await?;
        script::load(&connection).await?;
        Ok(Self { connection, keys: Keys::new(prefix), known_shards: Arc::default() })
    }

    /// How long Redis took to answer this handle and its clones.
    pub fn latency_stats(&self) -> Arc<LatencyStats> {
        Arc::clone(self.connection.latency_stats())
    }

    /// The connection, for commands that are not about jobs (INFO, CONFIG), one by one. The trait belongs
    /// to the redis crate and may change with that crate's version.
    #[cfg(feature = "redis-connection")]
    pub fn redis(&self) -> impl redis::aio::ConnectionLike + Clone + Send + Sync + use<> {
        self.connection.clone()
    }

    /// Waits until the connection was lost and made again, counted from `known`: 0 at first, and set by
    /// each call.
    pub async fn reconnected(&self, known: &mut u64) {
        self.connection.reconnected(known).await;
    }

    /// The clock of Redis, unix ms.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn now_ms(&self) -> Result<u64, QueueError> {
        read_time(script::run_one_safe(&self.connection, redis::cmd("TIME")).await?)
    }
}
