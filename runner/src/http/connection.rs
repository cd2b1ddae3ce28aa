//! One connection. Everything is bounded: the size and time of request heads, idle time, and the time
//! for which a client takes no response.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;
use tracing::debug;

use super::activity::{Activity, Limits, NotedBody};
use crate::millis::millis;

/// How long nothing may happen on a connection.
const LIMITS: Limits = Limits {
    first: Duration::from_secs(10),
    write: Duration::from_secs(30),
    idle: Duration::from_secs(60),
};
/// Time limit for the head of a request of HTTP/1.
const HEAD_WITHIN: Duration = Duration::from_secs(60);
/// Maximum size of a request's head, in bytes.
const HEAD_MAX: usize = 64 << 10;
/// Maximum number of headers of a request.
const HEADERS_MAX: usize = 100;
/// Maximum number of concurrent requests on an HTTP/2 connection.
const STREAMS_MAX: u32 = 128;
/// Bytes of bodies that a client may send on an HTTP/2 connection before they are read: of one request,
/// and of all. They are buffered before anything is known about the client.
const STREAM_WINDOW: u32 = 128 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Bytes of each response that HTTP/2 buffers for its client. They do not count in the memory of responses.
const SEND_BUFFER: usize = 32 << 10;
/// Interval of HTTP/2 pings to a silent peer, and the time limit for its reply.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for the TLS handshake.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Time for a client to notice that its connection ends.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// How connections are served.
pub(super) struct Lane {
    app: Router,
    builder: auto::Builder<TokioExecutor>,
    limits: Limits,
}

fn builder(keeps_alive: bool) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .keep_alive(keeps_alive)
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
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN);
    builder
}

impl Lane {
    pub(super) fn of(app: Router, keeps_alive: bool) -> Self {
        Self { app, builder: builder(keeps_alive), limits: LIMITS }
    }

    /// Serves a connection to its end.
    pub(super) async fn connection(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        stops: watch::Receiver<bool>,
    ) {
        let Some(tls) = tls else { return self.serve(stream, peer, stops).await };
        match timeout(HANDSHAKE_WITHIN, TlsAcceptor::from(tls).accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream, peer, stops).await,
            Ok(Err(error)) => debug!(%peer, %error, "the TLS handshake failed"),
            Err(_) => debug!(%peer, "the TLS handshake timed out"),
        }
    }

    /// Serves a stream without TLS to its end.
    pub(super) async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: SocketAddr,
        mut stops: watch::Receiver<bool>,
    ) {
        let began = Instant::now();
        let activity = Activity::new(self.limits);
        let service = service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            let (app, activity) = (self.app.clone(), Arc::clone(&activity));
            async move {
                let work = activity.work();
                let answer = app.oneshot(request).await;
                let answer = answer.map(|answer| answer.map(|body| NotedBody::new(activity, body)));
                drop(work);
                answer
            }
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let stopped = async {
            // The sender is dropped only at the very end.
            drop(stops.wait_for(|stops| *stops).await);
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stopped => {
                // Requests in progress are completed; no new ones are accepted.
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = activity.expired() => Ok(()),
                }
            }
            () = activity.expired() => {
                debug!(%peer, "the connection is closed: nothing happens on it");
                connection.as_mut().graceful_shutdown();
                timeout(CLOSE_WITHIN, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            let held_ms = millis(began.elapsed());
            debug!(%peer, %error, held_ms, "the connection failed");
        }
    }
}

/// The peer address of the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0duebox..";
    /// HEADERS of stream 1: GET, http, /large, END_STREAM and END_HEADERS.
    const GET_LARGE: &[u8] = b"\0\0\x0a\x01\x05\0\0\0\x01\x82\x86\x44\x06/large";
    const LARGE: usize = 4 << 20;

    fn lane() -> Lane {
        let slow = async || {
            tokio::time::sleep(SECOND).await;
            "slow"
        };
        let app = Router::new()
            .route("/large", get(async || vec![b'x'; LARGE]))
            .route("/slow", get(slow));
        let short = Duration::from_millis(200);
        Lane { limits: Limits { first: short, write: short, idle: short }, ..Lane::of(app, true) }
    }

    /// Serves one end of a pipe while `client` has the other; returns once the server has closed it.
    fn serve<F: Future<Output = ()> + Send + 'static>(
        client: impl FnOnce(DuplexStream) -> F + Send + 'static,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (here, there) = tokio::io::duplex(1 << 10);
            let (_stop, stops) = watch::channel(false);
            let client = tokio::spawn(client(there));
            let peer = SocketAddr::from(([127, 0, 0, 1], 1));
            let served = timeout(60 * SECOND, lane().serve(here, peer, stops)).await;
            assert!(served.is_ok(), "the connection is held");
            // A client that holds its end never returns.
            if let Ok(ended) = timeout(SECOND / 2, client).await {
                ended.unwrap();
            }
        });
    }

    /// Sends these bytes, and takes nothing.
    async fn send_and_hold(mut stream: DuplexStream, bytes: &'static [u8]) {
        stream.write_all(bytes).await.unwrap();
        std::future::pending::<()>().await;
    }

    #[test]
    fn a_connection_that_does_nothing_is_closed() {
        for start in [&b""[..], b"PRI * HT", b"GET /slow HTTP/1.1\r\nhost", PREFACE] {
            serve(move |stream| send_and_hold(stream, start));
        }
    }

    #[test]
    fn pings_do_not_keep_a_connection() {
        serve(|mut stream| async move {
            stream.write_all(PREFACE).await.unwrap();
            let mut bytes = [0; 256];
            while stream.write_all(PING).await.is_ok() {
                if matches!(stream.read(&mut bytes).await, Ok(0) | Err(_)) {
                    return;
                }
            }
        });
    }

    #[test]
    fn a_response_that_nobody_takes_closes_the_connection() {
        serve(|stream| send_and_hold(stream, b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n"));
        // Over HTTP/2 the client answers pings and reads frames, but opens no window.
        serve(|mut stream| async move {
            stream.write_all(&[PREFACE, GET_LARGE].concat()).await.unwrap();
            let mut bytes = [0; 4 << 10];
            while matches!(stream.read(&mut bytes).await, Ok(1..))
                && stream.write_all(PING).await.is_ok()
            {}
        });
    }

    #[test]
    fn slow_work_and_slow_readers_keep_their_connection() {
        serve(|mut stream| async move {
            let asks = b"GET /slow HTTP/1.1\r\nhost: a\r\n\r\n\
                         GET /large HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
            stream.write_all(asks).await.unwrap();
            let (mut bytes, mut taken) = (vec![0; 256 << 10], 0);
            loop {
                let mut some = 0;
                while some < bytes.len() {
                    match stream.read(&mut bytes[some..]).await.unwrap() {
                        0 => break,
                        read => some += read,
                    }
                }
                taken += some;
                if some == 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            assert!(taken > LARGE, "{taken}");
        });
    }
}
