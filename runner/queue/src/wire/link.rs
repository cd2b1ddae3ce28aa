//! One connection to Redis, from its handshake until it closes.
//!
//! It counts the bytes that pass, so that a caller without a reply knows whether its command can have
//! reached Redis.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::SockRef;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, ErrorKind, Pipeline, RedisError, Value,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;

/// The longest wait for an answer: shorter than a lease, longer than a fork of Redis takes.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long a link may receive nothing before it is probed.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// A way to send commands over one connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    /// Counts the links of one [`Connection`](super::connection::Connection).
    pub(crate) number: u64,
    commands: MultiplexedConnection,
    traffic: Arc<Traffic>,
}

/// A link and the task that moves its bytes; dropping it closes the connection.
pub(crate) struct OpenLink {
    pub(crate) link: Link,
    driver: JoinHandle<()>,
}

/// Why a link gave no answer.
pub(crate) struct Failed {
    pub(crate) error: RedisError,
    /// The connection is closed.
    pub(crate) is_closed: bool,
    /// Redis cannot have received anything of the commands.
    pub(crate) is_unsent: bool,
}

/// Bytes that passed so far.
#[derive(Default)]
struct Traffic {
    written: AtomicU64,
    read: AtomicU64,
}

impl Link {
    /// Sends commands in one write.
    pub(crate) async fn send(
        &mut self,
        commands: &Pipeline,
        answers: Range<usize>,
    ) -> Result<Vec<Value>, Failed> {
        let before = self.traffic.written.load(Ordering::Acquire);
        let answers =
            self.commands.send_packed_commands(commands, answers.start, answers.len()).await;
        answers.map_err(|error| Failed {
            is_closed: error.is_unrecoverable_error(),
            // Commands of other callers count too: then it is unknown which of them were written.
            is_unsent: error.is_connection_dropped()
                && self.traffic.written.load(Ordering::Acquire) == before,
            error,
        })
    }
}

impl OpenLink {
    /// Connects and logs in.
    pub(crate) async fn open(info: &ConnectionInfo, number: u64) -> Result<Self, RedisError> {
        match info.addr() {
            ConnectionAddr::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                apply(info.tcp_settings(), &stream)?;
                Self::over(stream, info, number).await
            }
            ConnectionAddr::Unix(path) => {
                Self::over(UnixStream::connect(path).await?, info, number).await
            }
            other => Err(RedisError::from((
                ErrorKind::InvalidClientConfig,
                "unsupported kind of address",
                other.to_string(),
            ))),
        }
    }

    /// Logs in over a stream.
    async fn over<S>(stream: S, info: &ConnectionInfo, number: u64) -> Result<Self, RedisError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let traffic = Arc::<Traffic>::default();
        let stream = Counted { stream, traffic: Arc::clone(&traffic) };
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_MAX));
        let (commands, driver) =
            MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await?;
        let link = Link { number, commands, traffic };
        Ok(Self { link, driver: tokio::spawn(driver) })
    }

    /// Waits until the connection closes, or does not answer a probe any more. Probes also keep an idle
    /// connection alive.
    pub(crate) async fn closed(&mut self) {
        tokio::select! {
            _ = &mut self.driver => {}
            () = silent(self.link.clone()) => {}
        }
    }
}

impl Drop for OpenLink {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Returns when the server has been silent and answers no probe.
async fn silent(mut link: Link) {
    loop {
        let before = link.traffic.read.load(Ordering::Acquire);
        tokio::time::sleep(SILENCE_MAX).await;
        if link.traffic.read.load(Ordering::Acquire) != before {
            continue;
        }
        let mut ping = Pipeline::with_capacity(1);
        ping.cmd("PING");
        if link.send(&ping, 0..ping.len()).await.is_err() {
            return;
        }
    }
}

fn apply(settings: &TcpSettings, stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(settings.nodelay())?;
    if let Some(keepalive) = settings.keepalive() {
        socket.set_tcp_keepalive(keepalive)?;
    }
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(settings.user_timeout())?;
    Ok(())
}

/// A stream whose bytes are counted.
struct Counted<S> {
    stream: S,
    traffic: Arc<Traffic>,
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(count)) = &written {
            self.traffic.written.fetch_add(*count as u64, Ordering::Release);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let count = buffer.filled().len() - before;
        self.traffic.read.fetch_add(count as u64, Ordering::Release);
        read
    }
}
