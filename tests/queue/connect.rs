//! Connections over TLS, credentials that change on disk, and addresses that lead elsewhere. Each failure is one
//! error that names the check and its remedy.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

use duebox_harness::{Authority, CertificateFiles, Proxy, RedisServer, eventually};
use duebox_queue::{
    ConnectionSettings, IfExists, JobId, NewJob, Notification, Queue, QueueError, TlsProblem,
    TopicName,
};
use tempfile::TempDir;

/// An authority, its certificates, and a server that shows one for `localhost`.
struct Tls {
    folder: TempDir,
    authority: Authority,
    ca: PathBuf,
    server: RedisServer,
}

impl Tls {
    fn start(args: &[&str]) -> Self {
        Self::showing(args, |authority, folder| authority.issue(folder, "server", &["localhost"]))
    }

    fn showing(args: &[&str], issue: impl FnOnce(&Authority, &Path) -> CertificateFiles) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let ca = authority.write(&folder.path().join("ca.pem"));
        let shown = issue(&authority, folder.path());
        let server = RedisServer::with_tls(&ca, &shown, args);
        Self { folder, authority, ca, server }
    }

    fn settings(&self) -> ConnectionSettings {
        ConnectionSettings::new(self.server.tls_url()).with_ca(&self.ca)
    }
}

async fn refused(settings: &ConnectionSettings) -> QueueError {
    let asked_at = Instant::now();
    let error = Queue::connect(settings, "duebox").await.map(drop).unwrap_err();
    assert!(asked_at.elapsed() < duebox_harness::patience(), "{error}");
    error
}

async fn refused_by_tls(settings: &ConnectionSettings) -> TlsProblem {
    match refused(settings).await {
        QueueError::Tls { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

async fn push(queue: &Queue, id: &str) -> Result<(), QueueError> {
    let job = NewJob::new(JobId::new(id).unwrap(), "payload");
    queue.topic("mail").unwrap().push(&[job], IfExists::Reject).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_subscriptions_pass_over_tls() {
    let tls = Tls::start(&[]);
    let queue = Queue::connect(&tls.settings(), "duebox").await.unwrap();
    let mut listener = queue.listen().await.unwrap();
    // Larger than one record of TLS.
    let job = NewJob::new(JobId::new("large").unwrap(), vec![b'x'; 1 << 20]);
    let topic = queue.topic("mail").unwrap();
    topic.push(&[job], IfExists::Reject).await.unwrap();
    let heard = tokio::time::timeout(duebox_harness::patience(), listener.next()).await.unwrap();
    assert!(matches!(heard, Notification::WakeUp(_)), "{heard:?}");
    let kept = topic.get(&JobId::new("large").unwrap()).await.unwrap().unwrap();
    assert_eq!(kept.payload.map(|payload| payload.len()), Some(1 << 20));
    let clients = tls.server.cli(&["CLIENT", "LIST"]);
    let port = format!(":{} ", tls.server.tls_port());
    assert_eq!(clients.lines().filter(|line| line.contains(&port)).count(), 2, "{clients}");
}

#[tokio::test]
async fn each_version_of_tls_serves() {
    for version in ["TLSv1.2", "TLSv1.3"] {
        let tls = Tls::start(&["--tls-protocols", version]);
        let queue = Queue::connect(&tls.settings(), "duebox").await.unwrap();
        push(&queue, "a").await.unwrap();
        assert_eq!(queue.tls_session().unwrap().version, version.replace('.', "_"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_over_tls_is_made_again() {
    let mut tls = Tls::start(&[]);
    let proxy = Proxy::start(tls.server.tls_port());
    let url = format!("rediss://localhost:{}/0", proxy.port());
    let settings = ConnectionSettings::new(url).with_ca(&tls.ca);
    let queue = Queue::connect(&settings, "duebox").await.unwrap();
    for round in 0..20 {
        assert_eq!(proxy.cut(), 1);
        push(&queue, &round.to_string()).await.unwrap();
    }
    tls.server.restart();
    duebox_harness::eventually!(push(&queue, "after").await.is_ok(), "the server is back");
}

#[tokio::test]
async fn a_server_that_is_not_trusted_is_refused_with_the_check_that_failed() {
    let tls = Tls::start(&[]);
    let unknown = ConnectionSettings::new(tls.server.tls_url());
    assert_eq!(refused_by_tls(&unknown).await, TlsProblem::UnknownIssuer);
    let other = Authority::new().write(&tls.folder.path().join("other.pem"));
    assert_eq!(refused_by_tls(&unknown.with_ca(other)).await, TlsProblem::UnknownIssuer);
    let by_address = format!("rediss://127.0.0.1:{}", tls.server.tls_port());
    let names = vec!["localhost".to_owned()];
    assert_eq!(
        refused_by_tls(&ConnectionSettings::new(by_address).with_ca(&tls.ca)).await,
        TlsProblem::Name { host: "127.0.0.1".to_owned(), names }
    );
    for (from, until, problem) in
        [(2001, 2002, TlsProblem::Expired), (3000, 4000, TlsProblem::NotYetValid)]
    {
        let tls = Tls::showing(&[], |authority, folder| {
            authority.issue_valid_in(folder, "server", &["localhost"], from, until)
        });
        assert_eq!(refused_by_tls(&tls.settings()).await, problem);
    }
}

#[tokio::test]
async fn a_certificate_for_an_address_serves_without_a_name() {
    let tls =
        Tls::showing(&[], |authority, folder| authority.issue(folder, "server", &["127.0.0.1"]));
    let url = format!("rediss://127.0.0.1:{}", tls.server.tls_port());
    let queue = Queue::connect(&ConnectionSettings::new(url).with_ca(&tls.ca), "duebox").await;
    push(&queue.unwrap(), "a").await.unwrap();
}

#[tokio::test]
async fn a_server_may_demand_a_certificate() {
    let tls = Tls::start(&["--tls-auth-clients", "yes"]);
    let folder = tls.folder.path();
    let without = tls.settings();
    assert_eq!(refused_by_tls(&without).await, TlsProblem::ClientCertificateRequired);
    let own = tls.authority.issue(folder, "mailer", &["mailer"]);
    let with = tls.settings().with_client_certificate(&own.cert, &own.key);
    push(&Queue::connect(&with, "duebox").await.unwrap(), "a").await.unwrap();
    let foreign = Authority::new().issue(folder, "foreign", &["mailer"]);
    let expired = tls.authority.issue_valid_in(folder, "expired", &["mailer"], 2001, 2002);
    for bad in [foreign, expired] {
        let settings = tls.settings().with_client_certificate(&bad.cert, &bad.key);
        let problem = refused_by_tls(&settings).await;
        assert!(matches!(problem, TlsProblem::ClientCertificateRefused { .. }), "{problem:?}");
    }
}

#[tokio::test]
async fn files_are_checked_without_a_connection() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca = authority.write(&folder.path().join("ca.pem"));
    let (own, other) = (
        authority.issue(folder.path(), "own", &["own"]),
        authority.issue(folder.path(), "other", &["other"]),
    );
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let missing = folder.path().join("missing.pem");
    let secure = || ConnectionSettings::new("rediss://cache.example");
    assert_eq!(secure().with_ca(&ca).with_client_certificate(&own.cert, &own.key).check(), Ok(()));
    for (settings, words) in [
        (secure().with_ca(&missing), "missing.pem: No such file"),
        (secure().with_ca(&empty), "empty.pem: it does not contain a certificate"),
        (secure().with_ca(folder.path()), "not a regular file"),
        (secure().with_client_certificate(&own.cert, &empty), "empty.pem: it has no private key"),
        (secure().with_client_certificate(&own.cert, &other.key), "does not belong to"),
        (ConnectionSettings::new("redis://cache.example").with_ca(&ca), "does not use TLS"),
    ] {
        let error = settings.check().unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert!(matches!(error, QueueError::Tls { .. }), "{error:?}");
    }
}

/// Nothing restarts: the next connection shows the new certificate and logs in with the new password.
#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_change_on_disk_serve_the_next_connection() {
    let tls = Tls::start(&["--tls-auth-clients", "yes", "--requirepass", "first"]);
    let folder = tls.folder.path();
    let password = folder.join("password");
    std::fs::write(&password, "first\n").unwrap();
    let own = tls.authority.issue(folder, "mailer", &["mailer"]);
    let proxy = Proxy::start(tls.server.tls_port());
    let settings = ConnectionSettings::new(format!("rediss://localhost:{}/0", proxy.port()))
        .with_ca(&tls.ca)
        .with_password_file(&password)
        .with_client_certificate(&own.cert, &own.key);
    let queue = Queue::connect(&settings, "duebox").await.unwrap();
    let admin = |words: &[&str]| tls.server.cli(&[&["--no-auth-warning"], words].concat());
    admin(&["-a", "first", "CONFIG", "SET", "requirepass", "second"]);
    push(&queue, "open").await.expect("an open connection stays logged in");
    // Neither the old password nor a certificate of another authority opens a new one.
    Authority::new().issue(folder, "mailer", &["mailer"]);
    proxy.cut();
    let error = push(&queue, "refused").await.unwrap_err();
    assert!(error.to_string().contains("refuses the client certificate"), "{error}");
    tls.authority.issue(folder, "mailer", &["mailer"]);
    duebox_harness::eventually!(
        push(&queue, "login").await.is_err_and(|e| e.to_string().contains("refuses the login")),
        "the old password is refused"
    );
    std::fs::write(&password, "second\n").unwrap();
    duebox_harness::eventually!(push(&queue, "back").await.is_ok(), "the new one is taken");
    let _ = queue.listen().await.expect("subscriptions log in as well");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_leads_elsewhere_is_one_error() {
    let tls = Tls::start(&["--requirepass", "secret"]);
    let (plain, secure) = (tls.server.port(), tls.server.tls_port());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().map(|_| silent).unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let closed = RedisServer::start().port();
    let url = |scheme: &str, port: u16| format!("{scheme}://localhost:{port}");
    for (url, words) in [
        (url("redis", plain), ["refuses the login", "redis.password"]),
        (format!("redis://:guess@localhost:{plain}"), ["refuses the login", "redis.password"]),
        (format!("redis://nobody:secret@localhost:{plain}"), ["refuses the login", "the user"]),
        (url("redis", secure), ["closed the connection before it answered", "write rediss://"]),
        (url("rediss", plain), ["did not answer the TLS handshake", "write redis://"]),
        (url("redis", silent_port), ["did not answer in time", "correct redis.url"]),
        (url("rediss", silent_port), ["did not answer the TLS handshake", "write redis://"]),
        (url("redis", closed), ["refused", "start it, or correct redis.url"]),
        ("redis://no-such-host.invalid".to_owned(), ["lookup", "correct redis.url"]),
        (url("http", plain), ["http:// is not a scheme", "write redis://"]),
        ("unix:///no/such.sock".to_owned(), ["No such file", "start it"]),
    ] {
        let error = refused(&ConnectionSettings::new(&url).with_url_ca(&tls.ca)).await.to_string();
        for word in words {
            assert!(error.contains(word), "{url}: {word:?} is not in: {error}");
        }
        assert!(!error.contains("guess") && !error.contains(":secret"), "{error}");
    }
}

/// Settings with an authority where the address uses TLS.
trait UrlCa {
    fn with_url_ca(self, ca: &Path) -> Self;
}

impl UrlCa for ConnectionSettings {
    fn with_url_ca(self, ca: &Path) -> Self {
        if self.uses_tls() { self.with_ca(ca) } else { self }
    }
}

#[tokio::test]
async fn the_first_to_connect_stores_the_version_of_the_layout() {
    let server = RedisServer::start();
    let queue = Queue::connect(&ConnectionSettings::new(server.url()), "other").await.unwrap();
    assert_eq!(server.cli(&["GET", "other:layout"]), "1");
    server.cli(&["FLUSHALL"]);
    queue.declare_layout().await.unwrap();
    queue.declare_layout().await.unwrap();
    assert_eq!(server.cli(&["GET", "other:layout"]), "1");
}

#[tokio::test]
async fn a_connection_without_writing_stores_no_key() {
    let server = RedisServer::start();
    let settings = ConnectionSettings::new(server.url());
    let queue = Queue::connect_without_writing(&settings, "duebox").await.unwrap();
    queue.now_ms().await.unwrap();
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    queue.declare_layout().await.unwrap();
    assert_eq!(server.cli(&["GET", "duebox:layout"]), "1");
}

#[tokio::test]
async fn an_unknown_layout_is_refused_by_name() {
    let server = RedisServer::start();
    let settings = ConnectionSettings::new(server.url());
    let queue = Queue::connect(&settings, "duebox").await.unwrap();
    server.cli(&["SET", "duebox:layout", "2"]);
    let error = Queue::connect(&settings, "duebox").await.err().unwrap();
    assert_eq!(error, QueueError::Layout { stored: "2".to_owned(), known: 1 });
    assert!(error.to_string().contains("layout \"2\"") && error.to_string().contains("backup"));
    // A server that comes back with a newer layout is one that cannot be used.
    server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    let error = queue.now_ms().await.unwrap_err();
    assert!(error.is_disconnected() && error.to_string().contains("layout \"2\""), "{error}");
    server.cli(&["SET", "duebox:layout", "1"]);
    eventually!(queue.now_ms().await.is_ok());
}

/// A proxy or a renamed command: not the fault of a topic.
#[tokio::test]
async fn a_command_that_redis_does_not_know_is_named() {
    let server = RedisServer::with_args(&["--rename-command", "EVALSHA", ""]);
    let queue = Queue::connect(&ConnectionSettings::new(server.url()), "duebox").await.unwrap();
    let topic = TopicName::new("work").unwrap();
    let error = queue.pause(&topic).await.unwrap_err();
    assert!(matches!(&error, QueueError::Unsupported(why) if why.contains("EVALSHA")), "{error}");
    assert!(!error.is_of_topic() && error.to_string().contains("rename-command"), "{error}");
}

/// The name in the first message of a TLS handshake.
fn name_of_next(listener: &TcpListener) -> Option<String> {
    let (mut client, _) = listener.accept().unwrap();
    let mut acceptor = rustls::server::Acceptor::default();
    loop {
        acceptor.read_tls(&mut client).unwrap();
        if let Some(accepted) = acceptor.accept().map_err(|(error, _)| error).unwrap() {
            return accepted.client_hello().server_name().map(str::to_owned);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_name_of_the_url_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let names = tokio::task::spawn_blocking(move || [(); 2].map(|()| name_of_next(&listener)));
    for host in ["localhost", "127.0.0.1"] {
        refused(&ConnectionSettings::new(format!("rediss://{host}:{port}"))).await;
    }
    // An address is no name.
    assert_eq!(names.await.unwrap(), [Some("localhost".to_owned()), None]);
}
