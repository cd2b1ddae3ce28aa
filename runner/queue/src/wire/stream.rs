//! The bytes of one connection to Redis: over TCP, TLS or a Unix socket.
//!
//! They are counted, so that a caller without a reply knows whether its command can have reached Redis.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::TlsProblem;
use crate::wire::address::NodeAddress;
use crate::wire::certificate::not_after;
use crate::wire::tls::{self, TlsFiles};

/// How long the server may be silent, or leave data unacknowledged, before the connection is dropped.
const PEER_SILENCE_MAX: Duration = Duration::from_secs(10);
/// Interval of keepalive probes on a silent connection.
const PEER_ASK_EVERY: Duration = Duration::from_secs(3);

/// Why a node cannot be connected to.
pub(crate) enum DialError {
    Io(io::Error),
    Tls(TlsProblem),
}

/// Bytes that passed so far, and the failure of TLS that ended them.
#[derive(Default)]
pub(crate) struct Traffic {
    written: AtomicU64,
    read: AtomicU64,
    /// Calls that wait for a reply.
    awaited: AtomicUsize,
    /// Calls that the server answers late on purpose, and nothing before.
    blocking: AtomicUsize,
    failure: OnceLock<TlsProblem>,
    session: Option<TlsSession>,
}

/// What a connection over TLS agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSession {
    /// The version of TLS, such as `TLSv1_3`.
    pub version: String,
    /// The cipher suite.
    pub cipher: String,
    /// When the server's certificate expires, as RFC 3339.
    pub certificate_expires: Option<String>,
}

impl Traffic {
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Acquire)
    }

    /// Counts a call that waits for its reply, until the returned value is dropped.
    pub(crate) fn await_reply(&self) -> AwaitedReply<'_> {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        AwaitedReply(self)
    }

    /// Whether a reply is due that the server does not delay on purpose.
    pub(crate) fn awaits_replies(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0 && self.blocking.load(Ordering::Relaxed) == 0
    }

    /// Counts a call that the server answers late on purpose, and no other before it, until the returned value is
    /// dropped.
    pub(crate) fn block(&self) -> BlockingCall<'_> {
        self.blocking.fetch_add(1, Ordering::Relaxed);
        BlockingCall(self)
    }

    pub(crate) fn session(&self) -> Option<&TlsSession> {
        self.session.as_ref()
    }

    /// The failure of TLS after its handshake. With TLS 1.3 a server refuses a client's certificate then.
    pub(crate) fn failure(&self) -> Option<TlsProblem> {
        self.failure.get().cloned()
    }
}

/// A call that waits for its reply.
pub(crate) struct AwaitedReply<'t>(&'t Traffic);

impl Drop for AwaitedReply<'_> {
    fn drop(&mut self) {
        self.0.awaited.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call that the server answers late on purpose.
pub(crate) struct BlockingCall<'t>(&'t Traffic);

impl Drop for BlockingCall<'_> {
    fn drop(&mut self) {
        self.0.blocking.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream whose bytes are counted.
pub(crate) struct Stream {
    kind: Kind,
    traffic: Arc<Traffic>,
}

enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>, ServerName<'static>),
}

impl Stream {
    /// Connects, with the certificates as they are on disk now. Does not take longer than `deadline`.
    pub(crate) async fn open(
        node: &NodeAddress,
        files: &TlsFiles,
        deadline: Instant,
    ) -> Result<Self, DialError> {
        let kind = match node {
            NodeAddress::Unix(path) => {
                Kind::Unix(within(deadline, UnixStream::connect(path)).await?)
            }
            NodeAddress::Tcp { host, port, tls } => {
                let connect = TcpStream::connect((host.as_str(), *port));
                let stream = within(deadline, connect).await?;
                set_options(&stream).map_err(DialError::Io)?;
                match tls {
                    None => Kind::Tcp(stream),
                    Some(name) => {
                        let secured = secure(stream, name, files, deadline).await;
                        Kind::Tls(Box::new(secured.map_err(DialError::Tls)?), name.clone())
                    }
                }
            }
        };
        let session = match &kind {
            Kind::Tls(stream, _) => Some(session_of(stream.get_ref().1)),
            Kind::Tcp(_) | Kind::Unix(_) => None,
        };
        Ok(Self { kind, traffic: Arc::new(Traffic { session, ..Traffic::default() }) })
    }

    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Records a failure of TLS and hands the error on.
    fn check<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let (Poll::Ready(Err(error)), Kind::Tls(_, name)) = (&result, &self.kind)
            && let Some(problem) = tls::problem_of(error, name)
        {
            self.traffic.failure.get_or_init(|| problem);
        }
        result
    }
}

fn session_of(session: &rustls::ClientConnection) -> TlsSession {
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    TlsSession {
        version: session.protocol_version().map_or_else(String::new, |it| format!("{it:?}")),
        cipher: session
            .negotiated_cipher_suite()
            .map_or_else(String::new, |it| format!("{:?}", it.suite())),
        certificate_expires: certificate.and_then(|certificate| not_after(certificate)),
    }
}

async fn within<T>(
    deadline: Instant,
    connect: impl Future<Output = io::Result<T>>,
) -> Result<T, DialError> {
    match timeout_at(deadline, connect).await {
        Ok(connected) => connected.map_err(DialError::Io),
        Err(_) => Err(DialError::Io(io::Error::new(
            io::ErrorKind::TimedOut,
            "the connection was not accepted in time",
        ))),
    }
}

/// The TLS handshake as a client.
async fn secure(
    stream: TcpStream,
    name: &ServerName<'static>,
    files: &TlsFiles,
    deadline: Instant,
) -> Result<TlsStream<TcpStream>, TlsProblem> {
    let connector = TlsConnector::from(Arc::new(files.client_config()?));
    match timeout_at(deadline, connector.connect(name.clone(), stream)).await {
        Err(_) => Err(TlsProblem::Silent),
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(tls::problem_of(&error, name)
            .unwrap_or_else(|| TlsProblem::Closed { reason: error.to_string() })),
    }
}

/// Sends without delay, and notices a vanished server within seconds.
fn set_options(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(PEER_SILENCE_MAX).with_interval(PEER_ASK_EVERY);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(PEER_SILENCE_MAX))?;
    Ok(())
}

/// Calls a method of whichever stream it is.
macro_rules! each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match &mut $stream.kind {
            Kind::Tcp($inner) => $call,
            Kind::Unix($inner) => $call,
            Kind::Tls($inner, _) => $call,
        }
    };
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = each!(self, stream => Pin::new(stream).poll_write(cx, bytes));
        if let Poll::Ready(Ok(count)) = &written {
            self.traffic.written.fetch_add(*count as u64, Ordering::Release);
        }
        self.check(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = each!(self, stream => Pin::new(stream).poll_flush(cx));
        self.check(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = each!(self, stream => Pin::new(stream).poll_read(cx, buffer));
        let count = buffer.filled().len() - before;
        self.traffic.read.fetch_add(count as u64, Ordering::Release);
        self.check(read)
    }
}
