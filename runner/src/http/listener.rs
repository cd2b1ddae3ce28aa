//! A listening address and its connections, whose number is bounded in total and from one peer.
//!
//! A connection beyond the number gets only the probes, and 503 for everything else. So the probes
//! answer whatever other clients do.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::connection::Lane;
use super::connection_slots::ConnectionSlots;
use crate::observe::supervision::{Supervision, TaskKind, TaskName};

/// Delay after a failed accept, for example without free file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// Maximum number of connections beyond the slots, and how long each lasts. A new one replaces the oldest that
/// has no answer yet.
const EXTRA_MAX: usize = 256;
const EXTRA_WITHIN: Duration = Duration::from_secs(5);

/// What a listener serves.
pub(super) struct ServedRoutes {
    /// The routes.
    pub(super) app: Router,
    /// The routes of a connection for which there is no slot: the probes.
    pub(super) extra: Router,
}

/// The settings of a new connection.
pub(super) struct ConnectionSetup {
    /// Its TLS, if it has any.
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// Maximum number of connections from one peer.
    pub(super) peer_max: usize,
}

/// Why an address cannot be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    /// Another process listens there.
    #[error(
        "HTTP cannot be served on {address}: another process, possibly another duebox, listens there"
    )]
    InUse {
        /// The address.
        address: SocketAddr,
        /// The key of the manifest that sets it.
        key: &'static str,
    },
    /// The system refuses the address.
    #[error("HTTP cannot be served on {address}: {error}")]
    Failed {
        /// The address.
        address: SocketAddr,
        /// The key of the manifest that sets it.
        key: &'static str,
        /// What the system said.
        error: std::io::Error,
    },
}

impl BindError {
    /// What to do about it.
    pub(crate) fn remedy(&self) -> String {
        let (Self::InUse { key, .. } | Self::Failed { key, .. }) = self;
        format!("set another address in {key}, or \"\" for none")
    }
}

/// A bound address that is not served yet.
pub(crate) struct Listening {
    listener: StdListener,
    address: SocketAddr,
}

impl Listening {
    /// Binds an address.
    ///
    /// # Errors
    /// [`BindError`] if it is in use or not local.
    pub(crate) fn bind(address: SocketAddr, key: &'static str) -> Result<Self, BindError> {
        let bound = StdListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        });
        bound.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => BindError::InUse { address, key },
            _ => BindError::Failed { address, key, error },
        })
    }

    /// The address with the port that was bound.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stops` is true, then waits up to `drain` for open connections.
    pub(super) async fn serve(
        self,
        served: ServedRoutes,
        setup: impl Fn() -> ConnectionSetup + Send + Sync,
        (stops, drain): (watch::Receiver<bool>, watch::Receiver<Duration>),
        supervision: Supervision,
    ) -> anyhow::Result<()> {
        let task = TaskName::of(TaskKind::HttpListener, self.address);
        let acceptor = Acceptor {
            listener: TcpListener::from_std(self.listener).context("the listener")?,
            slots: ConnectionSlots::default(),
            app: Arc::new(Lane::of(served.app, true)),
            extra: Arc::new(Lane::of(served.extra, false)),
            setup,
            supervision: &supervision,
        };
        supervision.keep(task, || acceptor.accept_until(stops.clone())).await;
        let Acceptor { listener, slots, .. } = acceptor;
        drop(listener);
        let drain = *drain.borrow();
        if timeout(drain, slots.all_free()).await.is_err() {
            warn!("drain_timeout passed with open requests; they are aborted");
        }
        Ok(())
    }
}

/// Accepts the connections of a listener. It keeps its listener and its slots when accepting panics.
struct Acceptor<'a, S> {
    listener: TcpListener,
    slots: ConnectionSlots,
    app: Arc<Lane>,
    extra: Arc<Lane>,
    setup: S,
    supervision: &'a Supervision,
}

impl<S: Fn() -> ConnectionSetup> Acceptor<'_, S> {
    async fn accept_until(&self, mut stops: watch::Receiver<bool>) {
        let mut extras = VecDeque::<AbortHandle>::new();
        loop {
            let accepted = tokio::select! {
                accepted = accept(&self.listener) => accepted,
                _ = stops.wait_for(|stops| *stops) => return,
            };
            let Some((stream, peer)) = accepted else { continue };
            let ConnectionSetup { tls, peer_max } = (self.setup)();
            let (stops, supervision) = (stops.clone(), self.supervision.clone());
            // Responses are sent at once. A failure only delays them.
            drop(stream.set_nodelay(true));
            if let Some(slot) = self.slots.take(peer.ip(), peer_max) {
                let lane = Arc::clone(&self.app);
                tokio::spawn(async move {
                    let connection = lane.connection(stream, peer, tls, stops);
                    supervision.contain(TaskKind::HttpConnection, connection).await;
                    drop(slot);
                });
                continue;
            }
            let lane = Arc::clone(&self.extra);
            let connection = tokio::spawn(async move {
                let connection = lane.connection(stream, peer, tls, stops);
                let connection = supervision.contain(TaskKind::HttpConnection, connection);
                drop(timeout(EXTRA_WITHIN, connection).await);
            });
            if extras.len() == EXTRA_MAX {
                extras.retain(|extra| !extra.is_finished());
            }
            if extras.len() == EXTRA_MAX
                && let Some(oldest) = extras.pop_front()
            {
                oldest.abort();
            }
            extras.push_back(connection.abort_handle());
            // Those before it are answered before more come.
            tokio::task::yield_now().await;
        }
    }
}

/// The next connection.
async fn accept(listener: &TcpListener) -> Option<(TcpStream, SocketAddr)> {
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            debug!(%error, "no connection was accepted");
            tokio::time::sleep(ACCEPT_AGAIN).await;
            None
        }
    }
}
