//! The connection to Redis: to one server, or to the primaries of a cluster.

#[cfg(feature = "redis-connection")]
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use parking_lot::Mutex;
use redis::{Cmd, Pipeline, Value};

use crate::error::QueueError;
use crate::wire::clock::now;
use crate::wire::cluster::{Cluster, PrimaryAway};
use crate::wire::connection_task::ConnectionTask;
use crate::wire::latency::LatencyStats;
use crate::wire::link::Endpoint;
use crate::wire::reply::{array, text};
use crate::wire::server_connection::ServerConnection;
pub(crate) use crate::wire::server_connection::{RawReplies, Repeat};
use crate::wire::settings::ConnectionSettings;
use crate::wire::stream::TlsSession;
use crate::wire::transport::Transport;

#[derive(Clone)]
pub(crate) struct Connection {
    route: Route,
    settings: Arc<ConnectionSettings>,
    /// Whether the settings demand copies of what is written.
    wants_copies: bool,
    /// When a command last got no reply, or was refused by Redis as a whole.
    failed_at: Arc<Mutex<Option<Instant>>>,
    latency: Arc<LatencyStats>,
    task: Arc<ConnectionTask>,
}

/// Where commands go.
#[derive(Clone)]
enum Route {
    Server(ServerConnection),
    Cluster(Arc<Cluster>),
}

impl Connection {
    /// Connects. Also tells whether Redis has a version of the layout, under this key. In a cluster, commands
    /// without a key go to the server that has the slot of `home`, and the version is not known yet.
    pub(crate) async fn open(
        settings: &ConnectionSettings,
        home: &str,
        layout_key: String,
    ) -> Result<(Self, bool), QueueError> {
        let settings = Arc::new(settings.clone());
        let wants_copies = settings.copies().is_some();
        let (latency, task) = (Arc::default(), Arc::default());
        let seeds = settings.cluster_seeds()?;
        let endpoint = Endpoint { settings: Arc::clone(&settings), layout_key };
        let (route, has_layout) = match seeds {
            None => {
                let endpoint = Arc::new(endpoint);
                let (server, has_layout) =
                    ServerConnection::open(&endpoint, &latency, &task).await?;
                (Route::Server(server), has_layout)
            }
            Some(seeds) => {
                let cluster = Cluster::open(endpoint, &seeds, home, &latency, &task).await?;
                (Route::Cluster(cluster), false)
            }
        };
        let failed_at = Arc::default();
        Ok((Self { route, settings, wants_copies, failed_at, latency, task }, has_layout))
    }

    /// A connection whose commands this transport carries. Nothing connects, and no task keeps it.
    pub(crate) fn over(transport: Arc<dyn Transport>) -> Self {
        let settings = Arc::new(ConnectionSettings::new("redis://simulation"));
        let latency = Arc::default();
        let route = Route::Server(ServerConnection::over(transport, &latency));
        let (failed_at, task) = (Arc::default(), Arc::default());
        Self { route, settings, wants_copies: false, failed_at, latency, task }
    }

    /// Sends commands in one write to each server; returns a value or an error for each.
    pub(crate) async fn send(
        &self,
        commands: &Pipeline,
        repeat: Repeat,
    ) -> Result<RawReplies, QueueError> {
        let replies = match &self.route {
            Route::Server(server) => {
                let replies = server.send(commands, 0..commands.len(), repeat).await;
                replies.map_err(|failed| failed.error)
            }
            Route::Cluster(cluster) => cluster.send(commands, repeat).await,
        };
        match &replies {
            Err(_) => self.record_failure(),
            Ok(replies) if repeat == Repeat::Durably && self.wants_copies => {
                self.settings.copy_stats().saw(replies.missing.as_deref());
            }
            Ok(_) => {}
        }
        replies
    }

    /// Whether keys lie on the servers of a cluster: then a command can name only keys of one slot.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.route, Route::Cluster(_))
    }

    /// How many servers hold keys.
    pub(crate) fn primaries(&self) -> usize {
        match &self.route {
            Route::Server(_) => 1,
            Route::Cluster(cluster) => cluster.primaries(),
        }
    }

    /// Sends commands to the server of this number below [`Self::primaries`].
    pub(crate) async fn send_to(
        &self,
        number: usize,
        commands: &Pipeline,
    ) -> Result<Vec<Value>, QueueError> {
        match &self.route {
            Route::Server(_) => Ok(self.send(commands, Repeat::Always).await?.values),
            Route::Cluster(cluster) => cluster.send_to(number, commands).await,
        }
    }

    /// Sends commands to all servers at once; returns the replies of those that reply, in the order of the servers.
    ///
    /// # Errors
    /// [`QueueError`] of the last one, if none replies.
    pub(crate) async fn send_to_all(&self, commands: &Pipeline) -> Result<Vec<Value>, QueueError> {
        let asked = (0..self.primaries()).map(|server| self.send_to(server, commands));
        let (mut replies, mut lost) = (Vec::new(), None);
        for answer in join_all(asked).await {
            match answer {
                Ok(values) => replies.extend(values),
                Err(error) => lost = Some(error),
            }
        }
        match lost {
            Some(error) if replies.is_empty() => Err(error),
            _ => Ok(replies),
        }
    }

    /// Asks for the time by the clock of the server that has a key. In a cluster each server has its own clock.
    pub(crate) fn clock_of(&self, key: &str) -> Cmd {
        match self.route {
            Route::Server(_) => redis::cmd("TIME"),
            Route::Cluster(_) => {
                let mut clock = redis::cmd("EVAL_RO");
                clock.arg("return redis.call('TIME')").arg(1).arg(key);
                clock
            }
        }
    }

    /// The addresses of the primaries of a cluster; none without one.
    pub(crate) fn cluster_primaries(&self) -> Vec<String> {
        match &self.route {
            Route::Server(_) => Vec::new(),
            Route::Cluster(cluster) => cluster.addresses(),
        }
    }

    /// How many slots each of them has.
    pub(crate) fn cluster_slots(&self) -> Vec<usize> {
        match &self.route {
            Route::Server(_) => Vec::new(),
            Route::Cluster(cluster) => cluster.slots(),
        }
    }

    /// The primaries of a cluster that cannot be reached; none without one.
    pub(crate) fn primaries_away(&self) -> Vec<PrimaryAway> {
        match &self.route {
            Route::Server(_) => Vec::new(),
            Route::Cluster(cluster) => cluster.away(),
        }
    }

    /// The value of a reply, or the error that Redis gave.
    pub(crate) fn check(&self, reply: Value) -> Result<Value, QueueError> {
        let Value::ServerError(error) = reply else { return Ok(reply) };
        let error = redis::RedisError::from(error);
        if error.code() == Some("NOPERM") {
            return Err(self.settings.not_permitted(&error));
        }
        if !self.is_cluster() && matches!(error.code(), Some("MOVED" | "ASK")) {
            self.record_failure();
            return Err(QueueError::IsClusterNode { url: self.settings.public_url() });
        }
        let error = QueueError::of_redis(error);
        if matches!(error, QueueError::Refused(_)) {
            self.record_failure();
        }
        Err(error)
    }

    /// Waits until the connection was lost and made again; at once if that has happened since the last
    /// call. A connection whose task has ended is never made again.
    pub(crate) async fn reconnected(&self, known: &mut u64) {
        match &self.route {
            Route::Server(server) => server.reconnected(known).await,
            Route::Cluster(cluster) => cluster.reconnected(known).await,
        }
    }

    /// The error if the server turns out to be a sentinel.
    pub(crate) async fn sentinel_error(&self) -> Option<QueueError> {
        let mut ask = Pipeline::with_capacity(1);
        ask.cmd("ROLE");
        let role = self.send(&ask, Repeat::Always).await.ok()?.values.pop()?;
        let Value::Array(mut role) = role else { return None };
        let is_sentinel = text(role.first()?) == Ok("sentinel");
        let masters = array(role.pop()?).ok().filter(|_| is_sentinel)?;
        let masters = masters.iter().filter_map(|name| Some(text(name).ok()?.to_owned())).collect();
        Some(QueueError::IsSentinel { url: self.settings().public_url(), masters })
    }

    /// Records that a command got no reply, or that Redis as a whole refused one.
    fn record_failure(&self) {
        *self.failed_at.lock() = Some(now());
    }

    /// When Redis was last known to be out of reach: a command failed, or a lost connection was made again.
    pub(crate) fn unreachable_at(&self) -> Option<Instant> {
        let reconnected_at = match &self.route {
            Route::Server(server) => server.reconnected_at(),
            Route::Cluster(cluster) => cluster.reconnected_at(),
        };
        reconnected_at.max(*self.failed_at.lock())
    }

    pub(crate) fn latency_stats(&self) -> &Arc<LatencyStats> {
        &self.latency
    }

    pub(crate) fn task(&self) -> &Arc<ConnectionTask> {
        &self.task
    }

    pub(crate) fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }

    /// The settings of a subscription. In a cluster it is to any primary.
    pub(crate) fn subscription_settings(&self) -> ConnectionSettings {
        match &self.route {
            Route::Server(_) => ConnectionSettings::clone(&self.settings),
            Route::Cluster(cluster) => cluster.subscription_settings(),
        }
    }

    /// The settings of a subscription to the control channel, if it needs a connection of its own. `PUBLISH` counts
    /// only the listeners of the server that it is sent to.
    pub(crate) fn control_settings(&self) -> Option<ConnectionSettings> {
        match &self.route {
            Route::Server(_) => None,
            Route::Cluster(cluster) => Some(cluster.home_settings()),
        }
    }

    /// What the current connection agreed on, if it uses TLS.
    pub(crate) fn tls_session(&self) -> Option<TlsSession> {
        match &self.route {
            Route::Server(server) => server.tls_session(),
            Route::Cluster(cluster) => cluster.home()?.tls_session(),
        }
    }

    /// What carries the commands in place of Redis, in a simulation.
    pub(crate) fn transport(&self) -> Option<Arc<dyn Transport>> {
        match &self.route {
            Route::Server(server) => server.transport(),
            Route::Cluster(_) => None,
        }
    }

    /// Sends commands of the caller's own; returns these of the replies. In a cluster a transaction goes to the
    /// server of its first command.
    #[cfg(feature = "redis-connection")]
    pub(super) async fn send_for(
        &self,
        commands: &Pipeline,
        wanted: Range<usize>,
    ) -> Result<Vec<Value>, QueueError> {
        let replies = match &self.route {
            Route::Server(server) => server.send(commands, wanted, Repeat::Unsent).await,
            Route::Cluster(cluster) if wanted == (0..commands.len()) => {
                return Ok(cluster.send(commands, Repeat::Unsent).await?.values);
            }
            Route::Cluster(cluster) => cluster.send_whole(commands, wanted).await,
        };
        Ok(replies.map_err(|failed| failed.error)?.values)
    }
}
