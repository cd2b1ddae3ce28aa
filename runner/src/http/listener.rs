//! An address that is listened on, and the connections that come in there. All is bounded: how many there
//! are at once, how long their headers may be and may take, and how long one may idle.

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

/// Connections at once. Those beyond wait in the kernel's queue.
const CONNECTIONS_MAX: u32 = 1_024;
/// How long a request's head may take; so long, too, may a connection idle between two.
const HEAD_WITHIN: Duration = Duration::from_secs(60);
/// The longest head of a request, in bytes.
const HEAD_MAX: usize = 64 << 10;
/// Headers of a request.
const HEADERS_MAX: usize = 100;
/// Requests at once on one connection of HTTP/2.
const STREAMS_MAX: u32 = 128;
/// How often a silent peer of HTTP/2 is asked whether it is there, and how soon it must answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// How long it may take to agree on TLS.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// The wait after the machine gave no connection, as when files are short.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// An address that is taken, before anybody is served there.
pub(crate) struct Listening {
    listener: StdListener,
    address: SocketAddr,
}

impl Listening {
    /// Takes an address.
    ///
    /// # Errors
    /// For people, if it is in use or not this machine's.
    pub(crate) fn bind(address: SocketAddr, key: &str) -> anyhow::Result<Self> {
        let taken = StdListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok(Self { listener, address })
        });
        let remedy = format!("choose another one for {key}, or \"\" for none");
        taken.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => anyhow::anyhow!(
                "HTTP cannot be served on {address}: another process listens there, maybe another duebox; {remedy}"
            ),
            _ => anyhow::anyhow!("HTTP cannot be served on {address}: {error}; {remedy}"),
        })
    }

    /// The address, with its port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is told to stop, and then what has begun, until `drain` is over.
    pub(super) async fn serve(
        self,
        app: Router,
        tls: impl Fn() -> Option<Arc<ServerConfig>> + Send,
        mut stops: watch::Receiver<bool>,
        drain: watch::Receiver<Duration>,
    ) -> anyhow::Result<()> {
        let listener = TcpListener::from_std(self.listener).context("the listener")?;
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX as usize));
        let builder = Arc::new(builder());
        loop {
            let stream = tokio::select! {
                stream = accept(&listener, &room) => stream,
                _ = stops.wait_for(|stops| *stops) => break,
            };
            let (Some((stream, peer)), Some(place)) = stream else { continue };
            let (app, builder) = (app.clone(), Arc::clone(&builder));
            let (stops, tls) = (stops.clone(), tls());
            // An answer leaves at once. Where that cannot be had it is only later.
            drop(stream.set_nodelay(true));
            tokio::spawn(async move {
                match tls {
                    None => serve_one(stream, peer, app, &builder, stops).await,
                    Some(tls) => {
                        match timeout(HANDSHAKE_WITHIN, TlsAcceptor::from(tls).accept(stream)).await
                        {
                            Ok(Ok(stream)) => serve_one(stream, peer, app, &builder, stops).await,
                            Ok(Err(error)) => debug!(%peer, %error, "no TLS was agreed on"),
                            Err(_) => debug!(%peer, "no TLS was agreed on in time"),
                        }
                    }
                }
                drop(place);
            });
        }
        drop(listener);
        let drain = *drain.borrow();
        if timeout(drain, room.acquire_many(CONNECTIONS_MAX)).await.is_err() {
            warn!("requests were still being served when drain_timeout was over; they are cut off");
        }
        Ok(())
    }
}

type Place = tokio::sync::OwnedSemaphorePermit;

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (Option<(TcpStream, SocketAddr)>, Option<Place>) {
    // The semaphore is never closed.
    let Ok(place) = Arc::clone(room).acquire_owned().await else { return (None, None) };
    match listener.accept().await {
        Ok(accepted) => (Some(accepted), Some(place)),
        Err(error) => {
            debug!(%error, "no connection");
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
        // Bounds what waits to be written, too; with its flushing of pipelines the library would hold answers
        // without end for who does not read them.
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
        // The sender is gone only when all is over.
        drop(stops.wait_for(|stops| *stops).await);
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped => {
            // What has begun is answered; the next request finds no connection.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        let held_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        debug!(%peer, %error, held_ms, "the connection broke off");
    }
}

/// Who is at the other end of the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);
