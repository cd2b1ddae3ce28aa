//! TLS of the API: it serves the certificate on disk, also after a change. An invalid pair changes nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use duebox_harness::eventually;
use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::support::client::address;
use crate::support::fixture::Fixture;

type Pair = CertifiedKey<KeyPair>;
type Stream = BufReader<StreamOwned<ClientConnection, TcpStream>>;

fn pair() -> Pair {
    rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap()
}

fn write(fixture: &Fixture, pair: &Pair) {
    fixture.write("cert.pem", pair.cert.pem());
    fixture.write("key.pem", pair.signing_key.serialize_pem());
}

/// A connection that trusts only this certificate; `None` if the handshake fails.
fn connect(at: SocketAddr, trusted: &Pair) -> Option<Stream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(trusted.cert.der().to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(duebox_harness::patience())).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).ok()?;
    }
    assert_eq!(connection.alpn_protocol(), Some(&b"http/1.1"[..]));
    Some(BufReader::new(StreamOwned::new(connection, stream)))
}

/// The response for a path on a connection that stays open.
fn status(stream: &mut Stream, path: &str) -> String {
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept-encoding: identity\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let (mut first, mut length) = (String::new(), 0);
    stream.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    std::io::Read::read_exact(stream, &mut vec![0; length]).unwrap();
    first.trim_end().to_owned()
}

#[test]
fn probes_answer_over_tls_when_a_peer_holds_all_its_connections() {
    let own = pair();
    let fixture = Fixture::new();
    write(&fixture, &own);
    let server = "[server]\nmax_peer_connections = 4\n\
                  tls = { cert = \"cert.pem\", key = \"key.pem\" }\n[topics.mail]\n";
    fixture.manifest("", &[server.to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    // Some do not even begin the handshake.
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(at).unwrap()).collect();
    let (mut probe, mut other) = (connect(at, &own).unwrap(), connect(at, &own).unwrap());
    assert_eq!(status(&mut probe, "/livez"), "HTTP/1.1 200 OK");
    assert_eq!(status(&mut other, "/v1/topics"), "HTTP/1.1 503 Service Unavailable");
    drop(silent);
}

#[test]
fn a_replaced_certificate_is_served_to_new_connections() {
    let (old, new) = (pair(), pair());
    let fixture = Fixture::new();
    write(&fixture, &old);
    let server = "[server]\ntls = { cert = \"cert.pem\", key = \"key.pem\" }\n[topics.mail]\n";
    fixture.manifest("", &[server.to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let mut early = connect(at, &old).expect("the pair of the start is served");
    assert_eq!(status(&mut early, "/livez"), "HTTP/1.1 200 OK");
    assert!(connect(at, &new).is_none());
    // A half-written pair is refused, and the previous one stays in use.
    fixture.write("cert.pem", new.cert.pem());
    daemon.wait_for_line("the half", |line| {
        line.message().contains("the manifest is refused") && line.message().contains("key.pem")
    });
    assert!(connect(at, &old).is_some() && connect(at, &new).is_none());
    write(&fixture, &new);
    eventually("the new pair is served", || connect(at, &new).is_some());
    assert!(connect(at, &old).is_none());
    // Existing connections stay open.
    assert_eq!(status(&mut early, "/v1/topics"), "HTTP/1.1 200 OK");
    // A plain HTTP request is refused.
    let mut plain = TcpStream::connect(at).unwrap();
    plain.set_read_timeout(Some(duebox_harness::patience())).unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    drop(std::io::Read::read_to_end(&mut plain, &mut answer));
    assert!(!answer.starts_with(b"HTTP"), "{:?}", String::from_utf8_lossy(&answer));
}
