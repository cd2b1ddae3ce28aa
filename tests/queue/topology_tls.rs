//! Sentinel and Cluster over TLS, with the users of the guide on each server.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use duebox_harness::{
    Authority, CertificateFiles, RedisCluster, RedisServer, SentinelGroup, eventually,
};
use duebox_queue::{
    ConnectionSettings, IfExists, Listener, Pushed, Queue, QueueError, Role, TopicName,
};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::fixture::job;

/// An authority and a certificate of it.
struct Certificate {
    _folder: TempDir,
    ca: PathBuf,
    shown: CertificateFiles,
}

impl Certificate {
    fn of(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let ca = authority.write(&folder.path().join("ca.pem"));
        let shown = authority.issue(folder.path(), "server", names);
        Self { _folder: folder, ca, shown }
    }
}

/// Makes a user with these rules on top of those of a daemon.
fn allow(servers: &mut [RedisServer], further: &[&str]) {
    let rules = Role::Daemon.acl_rules("duebox");
    let words = ["ACL", "SETUSER", "worker", "reset", "on", ">secret"];
    let words: Vec<&str> =
        words.into_iter().chain(rules.split_whitespace()).chain(further.iter().copied()).collect();
    for server in servers {
        assert_eq!(server.cli(&words), "OK");
    }
}

/// The URL with the login of the user.
fn as_worker(url: &str) -> String {
    url.replace("://", "://worker:secret@")
}

async fn push(queue: &Queue, topic: &str, id: &str) -> Result<Vec<Pushed>, QueueError> {
    queue.push(&TopicName::new(topic).unwrap(), &[job(id)], IfExists::Keep).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_over_tls_and_a_user_of_the_guide() {
    let certificate = Certificate::of(&["127.0.0.1"]);
    let mut group = SentinelGroup::with_tls(&certificate.ca, &certificate.shown);
    allow(group.servers(), &["+role"]);
    let settings = ConnectionSettings::new(as_worker(&group.tls_url()));
    let unknown = Queue::connect(&settings, "duebox").await.map(drop).unwrap_err();
    assert!(
        matches!(&unknown, QueueError::NoSentinel { .. } | QueueError::Tls { .. }),
        "{unknown}"
    );
    let queue = Queue::connect(&settings.with_ca(&certificate.ca), "duebox").await.unwrap();
    queue.check_permissions().await.unwrap();
    assert_eq!(push(&queue, "mail", "before").await.unwrap(), [Pushed::Pushed]);
    assert!(queue.tls_session().is_some());
    let old = group.primary().port();
    group.primary().stop();
    group.wait_for_successor_of(old);
    eventually!(push(&queue, "mail", "after").await.is_ok());
    eventually("the sentinels name the new primary", || group.primary().port() != old);
    eventually!(push(&queue, "mail", "after").await == Ok(vec![Pushed::Kept]));
    assert_eq!(group.primary().cli(&["HEXISTS", "duebox:{mail}:jobs", "after"]), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_over_tls_and_a_user_of_the_guide() {
    let certificate = Certificate::of(&["127.0.0.1"]);
    let mut cluster = RedisCluster::with_tls(3, &certificate.ca, &certificate.shown);
    let url = cluster.tls_url("127.0.0.1");
    allow(cluster.servers(), &["+asking", "+cluster|info", "+cluster|slots"]);
    let settings = ConnectionSettings::new(as_worker(&url)).with_ca(&certificate.ca);
    let queue = Queue::connect(&settings, "duebox").await.unwrap();
    queue.check_permissions().await.unwrap();
    assert_eq!(queue.cluster_primaries().len(), 3);
    for topic in ["mail", "sms", "video", "invoice", "search"] {
        assert_eq!(push(&queue, topic, "a").await.unwrap(), [Pushed::Pushed], "{topic}");
    }
    assert!(queue.tls_session().is_some());
    let mut listener = queue.listen().await.unwrap();
    hear_a_push(&queue, &mut listener).await;
    for server in cluster.primaries() {
        assert!(server.cli(&["ACL", "LOG"]).is_empty());
        assert_ne!(server.cli(&["DBSIZE"]), "0");
    }
}

/// The servers announce IP addresses; their certificate is for a name.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_announces_addresses_under_a_certificate_for_names() {
    let certificate = Certificate::of(&["localhost"]);
    let mut cluster = RedisCluster::with_tls(3, &certificate.ca, &certificate.shown);
    let settings = ConnectionSettings::new(cluster.tls_url("localhost")).with_ca(&certificate.ca);
    let refused = async {
        let queue = Queue::connect(&settings, "duebox").await?;
        for topic in ["mail", "sms", "video", "invoice", "search"] {
            push(&queue, topic, "a").await?;
        }
        Ok::<_, QueueError>(())
    };
    let error = refused.await.unwrap_err().to_string();
    assert!(error.contains("not for 127.0.0.1, only for localhost"), "{error}");
    let addresses = cluster.servers().iter().map(|server| {
        let port = server.tls_port();
        (format!("127.0.0.1:{port}"), format!("localhost:{port}"))
    });
    let settings = settings.with_node_addresses(addresses.collect::<Vec<_>>()).unwrap();
    let queue = Queue::connect(&settings, "duebox").await.unwrap();
    for topic in ["mail", "sms", "video", "invoice", "search"] {
        assert_eq!(push(&queue, topic, "b").await.unwrap(), [Pushed::Pushed], "{topic}");
    }
    assert!(queue.cluster_primaries().iter().all(|place| place.starts_with("localhost:")));
    let wrong = settings.with_node_addresses([("localhost".to_owned(), "h:1".to_owned())]);
    assert!(matches!(wrong, Err(QueueError::Address { .. })));
}

/// Pushes to one topic after the other until the listener hears of one. The servers of a new cluster may not be linked yet,
/// and then a wake-up does not reach the one that the listener listens to.
async fn hear_a_push(queue: &Queue, listener: &mut Listener) {
    let began = Instant::now();
    for number in 0.. {
        push(queue, &format!("news-{number}"), "a").await.unwrap();
        if timeout(Duration::from_secs(1), listener.next()).await.is_ok() {
            return;
        }
        assert!(began.elapsed() < duebox_harness::patience(), "no wake-up was heard");
    }
}
