//! HTTPS: which certificates a client trusts, and HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use duebox_sandbox::HttpConfig;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::http_guest::{HttpGuest, client, grant};
use crate::name_server::NameServer;
use crate::web_servers::{self, RawServer};

const NAME: &str = "tls.test";

/// A certificate authority.
struct Authority {
    root: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().der().clone();
        Self { root, issuer: Issuer::new(params, key) }
    }

    /// The settings of a server with a certificate for this name, valid until this year.
    fn server(&self, name: &str, until: i32, protocol: &[u8]) -> TlsAcceptor {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        config.alpn_protocols = vec![protocol.to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Sends one response for each connection, in HTTP/1.1.
async fn serve(tls: TlsAcceptor) -> SocketAddr {
    let (listener, address) = web_servers::listen().await;
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            // A client that does not trust the certificate disconnects.
            let Ok(mut connection) = tls.accept(connection).await else { continue };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(connection.read_u8().await.unwrap());
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nsafe";
            connection.write_all(answer).await.unwrap();
            connection.shutdown().await.unwrap();
        }
    });
    address
}

/// Sends a request to a server at this port, with these trusted roots.
async fn ask(port: u16, roots: Vec<CertificateDer<'static>>) -> crate::http_guest::TestResponse {
    let names = NameServer::serve(&[(NAME, "127.0.0.1")]).await;
    let origin = format!("https://{NAME}:{port}");
    let granted = grant(&[&origin], &["127.0.0.1/32"]);
    let guest = HttpGuest::with(granted, client(HttpConfig { roots, ..names.config() }));
    guest.ask(&*format!("GET {origin}/\n")).await
}

#[tokio::test]
async fn a_server_with_a_trusted_certificate_is_accepted() {
    let authority = Authority::new();
    let server = serve(authority.server(NAME, 2100, b"http/1.1")).await;
    let answer = ask(server.port(), vec![authority.root]).await;
    assert_eq!((answer.code, answer.text()), (200, "safe"), "{}", answer.error);
}

#[tokio::test]
async fn a_server_without_a_trusted_certificate_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let roots = || vec![authority.root.clone()];
    for (what, server) in [
        ("another authority", other.server(NAME, 2100, b"http/1.1")),
        ("another name", authority.server("else.test", 2100, b"http/1.1")),
        ("over", authority.server(NAME, 2020, b"http/1.1")),
    ] {
        let server = serve(server).await;
        let answer = ask(server.port(), roots()).await;
        assert_eq!(answer.code, -6, "{what}: {}", answer.error);
        assert!(answer.error.contains("certificate"), "{what}: {}", answer.error);
    }
    let plain = RawServer::say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let answer = ask(plain.address.port(), roots()).await;
    assert_eq!(answer.code, -6, "{}", answer.error);
    // Neither the roots of this machine nor the compiled-in ones contain the test's authority.
    let server = serve(authority.server(NAME, 2100, b"http/1.1")).await;
    let answer = ask(server.port(), Vec::new()).await;
    assert_eq!(answer.code, -6, "{}", answer.error);
}

#[tokio::test]
async fn http_2_is_used_if_the_server_supports_it() {
    let authority = Authority::new();
    let tls = authority.server(NAME, 2100, b"h2");
    let (listener, address) = web_servers::listen().await;
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let mut connection =
                h2::server::handshake(tls.accept(connection).await.unwrap()).await.unwrap();
            tokio::spawn(async move {
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let headers: &HeaderMap = request.headers();
                    let attempt = headers["duebox-attempt"].clone();
                    let answer = Response::builder().status(201).header("x-attempt", attempt);
                    let mut body = respond.send_response(answer.body(()).unwrap(), false).unwrap();
                    let length = if request.uri().path() == "/large" { 2 << 20 } else { 5 };
                    body.send_data(Bytes::from(vec![b'x'; length]), true).unwrap();
                }
            });
        }
    });
    let names = NameServer::serve(&[(NAME, "127.0.0.1")]).await;
    let origin = format!("https://{NAME}:{}", address.port());
    let roots = vec![authority.root];
    let config = HttpConfig { roots, ..names.config() };
    let guest = HttpGuest::with(grant(&[&origin], &["127.0.0.1/32"]), client(config));
    for _ in 0..3 {
        let answer = guest.ask(&*format!("POST {origin}/\n")).await;
        assert_eq!((answer.code, answer.text()), (201, "xxxxx"), "{}", answer.error);
        assert_eq!(answer.header("x-attempt"), Some("2"));
    }
    // A body over the limit is refused, and the connection stays usable.
    let answer = guest.ask(&*format!("GET {origin}/large\n")).await;
    assert_eq!(answer.code, -4, "{}", answer.error);
    assert_eq!(guest.ask(&*format!("GET {origin}/\n")).await.code, 201);
    assert_eq!(taken.load(Ordering::SeqCst), 1);
}
