//! The handle on the queue: one connection, the prefix of its keys, and a cache of the number of
//! shards.

mod limits;
pub(crate) mod push_lines;
mod shards;

use std::sync::Arc;

use self::push_lines::PushLines;
use crate::error::QueueError;
use crate::topic::announced::AnnouncedTopics;
use crate::topic::clocks::KnownClocks;
use crate::topic::shards::KnownShards;
use crate::wire::callers::Callers;
use crate::wire::cluster::PrimaryAway;
use crate::wire::connection::Connection;
use crate::wire::connection_task::ConnectionTask;
use crate::wire::copy_waits::CopyStats;
use crate::wire::keys::Keys;
use crate::wire::latency::LatencyStats;
#[cfg(feature = "redis-connection")]
use crate::wire::redis_connection::Primary;
use crate::wire::reply::read_time_us;
use crate::wire::script;
use crate::wire::settings::ConnectionSettings;
use crate::wire::stream::TlsSession;
use crate::wire::transport::Transport;

/// The queue on one Redis. Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct Queue {
    pub(crate) connection: Connection,
    pub(crate) keys: Keys,
    known_shards: Arc<KnownShards>,
    pub(crate) known_clocks: Arc<KnownClocks>,
    /// The callers of pushes.
    pub(crate) push_callers: Arc<Callers>,
    /// The pushes that share calls.
    pub(crate) push_lines: Arc<PushLines>,
    pub(crate) announced_topics: Arc<AnnouncedTopics>,
}

impl Queue {
    /// Connects to Redis and loads the scripts. All keys begin with `prefix`, `duebox` by convention.
    ///
    /// # Errors
    /// [`QueueError`] if the address is malformed, or Redis does not answer within 5 s or refuses, or has a
    /// layout of the queue that this version does not know.
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
        let (queue, has_layout) = Self::open(settings, prefix).await?;
        if !has_layout && let Err(error @ QueueError::Layout { .. }) = queue.find_layout().await {
            return Err(error);
        }
        Ok(queue)
    }

    /// The same without a write: no key is stored. A program that then decides to use this Redis calls
    /// [`Self::declare_layout`].
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_without_writing(
        settings: &ConnectionSettings,
        prefix: &str,
    ) -> Result<Self, QueueError> {
        Ok(Self::open(settings, prefix).await?.0)
    }

    /// Connects and loads the scripts. Also tells whether Redis has a version of the layout.
    async fn open(settings: &ConnectionSettings, prefix: &str) -> Result<(Self, bool), QueueError> {
        let keys = Keys::new(prefix);
        let (connection, has_layout) =
            Connection::open(settings, &keys.control_channel(), keys.layout_key()).await?;
        if let Err(error) = script::load(&connection).await {
            return Err(connection.sentinel_error().await.unwrap_or(error));
        }
        Ok((Self::on(connection, keys), has_layout))
    }

    /// The queue on what a transport reaches, for simulations. The scripts are loaded when the first
    /// call finds them missing.
    #[doc(hidden)]
    pub fn over(transport: Arc<dyn Transport>, prefix: &str) -> Self {
        Self::on(Connection::over(transport), Keys::new(prefix))
    }

    fn on(connection: Connection, keys: Keys) -> Self {
        Self {
            connection,
            keys,
            known_shards: Arc::default(),
            known_clocks: Arc::default(),
            push_callers: Arc::default(),
            push_lines: Arc::default(),
            announced_topics: Arc::default(),
        }
    }

    /// How long Redis took to answer this handle and its clones.
    pub fn latency_stats(&self) -> Arc<LatencyStats> {
        Arc::clone(self.connection.latency_stats())
    }

    /// How waits for copies of writes ended, on all connections with the settings of this one.
    pub fn copy_stats(&self) -> Arc<CopyStats> {
        self.connection.settings().copy_stats()
    }

    /// What became of the task that keeps the connection.
    pub fn connection_task(&self) -> Arc<ConnectionTask> {
        Arc::clone(self.connection.task())
    }

    /// The connection, for commands that are not about jobs (INFO, CONFIG), one by one. The trait belongs
    /// to the redis crate and may change with that crate's version.
    #[cfg(feature = "redis-connection")]
    pub fn redis(&self) -> impl redis::aio::ConnectionLike + Clone + Send + Sync + use<> {
        self.connection.clone()
    }

    /// A connection to each server that holds keys, with its address: to each primary of a cluster, or to the single
    /// server, which has no address here. They are for commands about the server, which may be sent twice.
    #[cfg(feature = "redis-connection")]
    pub fn redis_of_each(
        &self,
    ) -> Vec<(Option<String>, impl redis::aio::ConnectionLike + Clone + Send + Sync + use<>)> {
        let addresses = self.cluster_primaries();
        let all = (0..self.connection.primaries()).map(|number| {
            let connection = self.connection.clone();
            (addresses.get(number).cloned(), Primary { connection, number })
        });
        all.collect()
    }

    /// The addresses of the primaries of a cluster; none if Redis is a single server.
    pub fn cluster_primaries(&self) -> Vec<String> {
        self.connection.cluster_primaries()
    }

    /// How many slots each primary of [`Self::cluster_primaries`] has.
    pub fn cluster_slots(&self) -> Vec<usize> {
        self.connection.cluster_slots()
    }

    /// The primaries of a cluster whose connection is lost and could not be made again yet.
    pub fn primaries_away(&self) -> Vec<PrimaryAway> {
        self.connection.primaries_away()
    }

    /// What the current connection agreed on, if it uses TLS.
    pub fn tls_session(&self) -> Option<TlsSession> {
        self.connection.tls_session()
    }

    /// Waits until the connection was lost and made again, counted from `known`: 0 at first, and set by
    /// each call.
    pub async fn reconnected(&self, known: &mut u64) {
        self.connection.reconnected(known).await;
    }

    /// The clock of Redis, unix ms.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn now_ms(&self) -> Result<u64, QueueError> {
        Ok(self.now_us().await? / 1_000)
    }

    /// The same in µs.
    ///
    /// # Errors
    /// As for [`Self::now_ms`].
    pub async fn now_us(&self) -> Result<u64, QueueError> {
        read_time_us(script::run_one_idempotent(&self.connection, redis::cmd("TIME")).await?)
    }
}
