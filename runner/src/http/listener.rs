//! A listening address and its connections. Everything is bounded: the number of connections, the
//! size and time of request heads, and idle time.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::{debug, warn};

/// Maximum number of connections. Further ones wait in the kernel's queue.
const CONNECTIONS_MAX: u32 = 1_024;
/// Time limit for a request's head, and for an idle connection between two requests.
const HEAD_WITHIN: Duration = Duration::from_secs(60);
/// Maximum size of a request's head, in bytes.
const HEAD_MAX: usize = 64 << 10;
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 100;
/// Maximum number of concurrent requests on an HTTP/2 connection.
const STREAMS_MAX: u32 = 128;
/// Interval of HTTP/2 pings to a silent peer, and the time limit for its reply.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for the TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Delay after a failed accept, for example without free file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

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
        app: Router,
        tls: impl Fn() -> Option<Arc<ServerConfig>> + Send,
        mut stops: watch::Receiver<bool>,
        drain: watch::Receiver<Duration>,
    ) -> anyhow::Result<()> {
        let listener = TcpListener::from_std(self.listener).context("the listener")?;
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
        let builder = Arc::new(builder());
        loop {
            let stream = tokio::select! {
                stream = accept(&listener, &permits) => stream,
                _ = stops.wait_for(|stops| *stops) => break,
            };
            let (Some((stream, peer)), Some(permit)) = stream else { continue };
            let (app, builder) = (app.clone(), Arc::clone(&builder));
            let (stops, tls) = (stops.clone(), tls());
            // Responses are sent at once. A failure only delays them.
            drop(stream.set_nodelay(true));
            tokio::spawn(async move {
                match tls {
                    None => serve_one(stream, peer, app, &builder, stops).await,
                    Some(tls) => {
                        match timeout(HANDSHAKE_WITHIN, TlsAcceptor::from(tls).accept(stream)).await
                        {
                            Ok(Ok(stream)) => serve_one(stream, peer, app, &builder, stops).await,
                            Ok(Err(error)) => debug!(%peer, %error, "the TLS handshake failed"),
                            Err(_) => debug!(%peer, "the TLS handshake timed out"),
                        }
                    }
                }
                drop(permit);
            });
        }
        drop(listener);
        let drain = *drain.borrow();
        if timeout(drain, permits.acquire_many(CONNECTIONS_MAX)).await.is_err() {
            warn!("drain_timeout passed with open requests; they are aborted");
        }
        Ok(())
    }
}

type Permit = tokio::sync::OwnedSemaphorePermit;

/// The next connection, once the number of connections allows it.
async fn accept(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
) -> (Option<(TcpStream, SocketAddr)>, Option<Permit>) {
    // The semaphore is never closed.
    let Ok(permit) = Arc::clone(permits).acquire_owned().await else { return (None, None) };
    match listener.accept().await {
        Ok(accepted) => (Some(accepted), Some(permit)),
        Err(error) => {
            debug!(%error, "no connection was accepted");
            tokio::time::sleep(ACCEPT_AGAIN).await;
            (None, None)
        }
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_headers(HEADERS_MAX)
        // This also bounds pending output: with pipeline flush the library would buffer responses
        // without limit for a client that does not read them.
        .max_buf_size(HEAD_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_MAX as u32)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    builder
}

async fn serve_one(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    app: Router,
    builder: &auto::Builder<TokioExecutor>,
    mut stops: watch::Receiver<bool>,
) {
    let began = Instant::now();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        app.clone().oneshot(request)
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stopped = async {
        // The sender is dropped only at the very end.
        drop(stops.wait_for(|stops| *stops).await);
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped => {
            // Requests in progress are completed; no new ones are accepted.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        let held_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        debug!(%peer, %error, held_ms, "the connection failed");
    }
}

/// The peer address of the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);
