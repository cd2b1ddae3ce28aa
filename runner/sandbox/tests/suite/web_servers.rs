//! Servers on loopback: an echo server, and servers that send exactly the bytes that a test chooses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, Uri};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// A free port on loopback.
const HERE: &str = "127.0.0.1:0";

/// Listens on a free port on loopback.
pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    listen_at(HERE).await
}

async fn listen_at(address: &str) -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Serves a router, until the test ends.
pub(crate) async fn serve(router: Router) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Responds to every request with the request itself: method and path, headers, an empty line, body.
pub(crate) async fn echo() -> SocketAddr {
    let echo = |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let mut text = format!("{method} {uri}\n").into_bytes();
        for (name, value) in &headers {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.push(b'\n');
        }
        text.push(b'\n');
        text.extend_from_slice(&body);
        text
    };
    serve(Router::new().fallback(echo)).await
}

/// A server that sends raw bytes, and counts its connections.
pub(crate) struct RawServer {
    pub(crate) address: SocketAddr,
    taken: Arc<AtomicUsize>,
}

impl RawServer {
    /// Calls `speak` with each connection after the head of its first request.
    pub(crate) async fn serve<F, S>(speak: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Self::serve_at(HERE, speak).await
    }

    async fn serve_at<F, S>(address: &str, speak: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (listener, address) = listen_at(address).await;
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let speaks = speak_after_head(&mut connection).await;
                if speaks {
                    tokio::spawn(speak(connection));
                }
            }
        });
        Self { address, taken }
    }

    /// Sends these bytes in response to the first request of each connection, then closes it.
    pub(crate) async fn say(bytes: impl Into<Vec<u8>>) -> Self {
        Self::say_at(HERE, bytes).await
    }

    /// The same at this address.
    pub(crate) async fn say_at(address: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes: Arc<[u8]> = bytes.into().into();
        Self::serve_at(address, move |mut connection| {
            let bytes = Arc::clone(&bytes);
            async move {
                // The client may have disconnected.
                let _gone = connection.write_all(&bytes).await;
            }
        })
        .await
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }
}

/// Reads the head of a request. Returns whether there was one.
async fn speak_after_head(connection: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return false,
        }
    }
    true
}
