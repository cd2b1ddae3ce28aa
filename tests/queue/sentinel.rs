//! A primary that sentinels name: it is found, and after a failover the new one is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use duebox_harness::{Lateness, RedisServer, SentinelGroup, eventually};
use duebox_queue::{ConnectionSettings, IfExists, Pushed, Queue, QueueError, TopicName};

use crate::fake_node::{Answer, FakeNode};
use crate::fixture::job;

fn settings(group: &SentinelGroup) -> ConnectionSettings {
    ConnectionSettings::new(group.url())
}

async fn refusal(settings: &ConnectionSettings) -> QueueError {
    Queue::connect(settings, "duebox").await.map(drop).unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_without_a_primary_are_refused_in_words() {
    let mut group = SentinelGroup::with_password(Some("secret"));
    // One sentinel is enough.
    group.sentinels()[0].stop();
    let settings = settings(&group);
    let logged_in = settings.clone().with_password("secret");
    Queue::connect(&logged_in, "duebox").await.unwrap().topics().await.unwrap();
    let report = logged_in.ask_sentinels().await.unwrap().unwrap();
    let answers: Vec<bool> = report.sentinels.iter().map(|said| said.primary.is_ok()).collect();
    assert_eq!(answers, [false, true, true], "{report:?}");
    for wrong in [settings.clone(), settings.clone().with_password("guess")] {
        let error = refusal(&wrong).await;
        assert!(matches!(&error, QueueError::Login { .. }), "{error}");
        assert!(error.to_string().contains("redis.password"), "{error}");
    }
    let other = group.url().replace(group.master(), "cache");
    let error = refusal(&ConnectionSettings::new(other).with_password("secret")).await;
    assert!(matches!(&error, QueueError::NoSuchMaster { .. }), "{error}");
    assert!(error.to_string().contains(group.master()), "{error}");
    // The address of a sentinel without the scheme, and the scheme without a sentinel.
    let port = group.sentinels()[1].port();
    let url = format!("redis://:secret@127.0.0.1:{port}");
    let error = refusal(&ConnectionSettings::new(url)).await;
    assert!(
        matches!(&error, QueueError::IsSentinel { masters, .. } if *masters == [group.master()]),
        "{error}"
    );
    let server = RedisServer::start();
    let url = format!("redis-sentinel://127.0.0.1:{}/main", server.port());
    let error = refusal(&ConnectionSettings::new(url)).await;
    assert!(error.to_string().contains("it is not a sentinel"), "{error}");
    for sentinel in group.sentinels() {
        sentinel.stop();
    }
    let error = refusal(&logged_in).await;
    assert!(matches!(&error, QueueError::NoSentinel { .. }), "{error}");
}

/// A sentinel that names this primary, by a configuration of this epoch.
fn fake_sentinel(primary: u16, epoch: u64) -> String {
    let node = FakeNode::bind();
    let port = node.port;
    node.serve(port, 0, move |words| {
        match words.get(1).map(|word| word.to_uppercase()).as_deref() {
            Some("GET-MASTER-ADDR-BY-NAME") => bulks(&["127.0.0.1", &primary.to_string()]),
            Some("MASTER") => bulks(&["name", "main", "config-epoch", &epoch.to_string()]),
            _ => Answer::Close,
        }
    });
    format!("127.0.0.1:{port}")
}

fn bulks(texts: &[&str]) -> Answer {
    let bulk = |text: &&str| format!("${}\r\n{text}\r\n", text.len());
    let bulks: String = texts.iter().map(bulk).collect();
    Answer::Reply(format!("*{}\r\n{bulks}", texts.len()))
}

/// A sentinel that was cut off during a failover still names the old primary.
#[tokio::test(flavor = "multi_thread")]
async fn the_newest_configuration_names_the_primary() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let stale = fake_sentinel(old.port(), 3);
    let fresh = fake_sentinel(new.port(), 4);
    let topic = TopicName::new("mail").unwrap();
    for (id, hosts) in [("a", [&stale, &fresh, &stale]), ("b", [&fresh, &stale, &stale])] {
        let hosts = hosts.map(String::as_str).join(",");
        let settings = ConnectionSettings::new(format!("redis-sentinel://{hosts}/main"));
        let queue = Queue::connect(&settings, "duebox").await.unwrap();
        queue.push(&topic, &[job(id)], IfExists::Reject).await.unwrap();
        let is_at = |server: &RedisServer| server.cli(&["HEXISTS", "duebox:{mail}:jobs", id]);
        assert_eq!([is_at(&old), is_at(&new)], ["0", "1"], "{id}");
    }
}

/// Pushes go on by themselves after each kind of failover, on the new primary.
#[tokio::test(flavor = "multi_thread")]
async fn pushes_go_on_at_the_new_primary() {
    let mut group = SentinelGroup::start();
    let queue = Queue::connect(&settings(&group), "duebox").await.unwrap();
    let topic = TopicName::new("mail").unwrap();
    for how in ["order", "death"] {
        group.wait_until_one_primary();
        let (old, lateness) = (group.primary().port(), Lateness::measure());
        let over = Arc::<AtomicBool>::default();
        let pushes = tokio::spawn(push_until(Arc::clone(&over), queue.clone(), how));
        match how {
            "order" => group.failover(),
            _ => group.primary().stop(),
        }
        group.wait_for_successor_of(old);
        let writable_at = Instant::now();
        let mut tries = 0;
        // A job arrives where the new primary is.
        eventually!({
            tries += 1;
            let id = format!("{how}-last-{tries}");
            let is_pushed = queue.push(&topic, &[job(&id)], IfExists::Keep).await.is_ok();
            let primary = group.primary();
            let is_new = primary.port() != old;
            is_pushed && is_new && primary.cli(&["HEXISTS", "duebox:{mail}:jobs", &id]) == "1"
        });
        lateness.check_resumed(&format!("failover by {how}"), writable_at.elapsed());
        over.store(true, Ordering::Relaxed);
        pushes.await.unwrap();
    }
}

/// Pushes one job after the other. A call may fail while there is no primary, and in no other way.
async fn push_until(over: Arc<AtomicBool>, queue: Queue, name: &'static str) {
    let topic = TopicName::new("mail").unwrap();
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        let jobs = [job(&format!("{name}-{number}"))];
        match queue.push(&topic, &jobs, IfExists::Reject).await {
            Ok(answers) => assert_eq!(answers, [Pushed::Pushed]),
            Err(error) => assert!(error.is_disconnected(), "{error}"),
        }
        number += 1;
    }
}
