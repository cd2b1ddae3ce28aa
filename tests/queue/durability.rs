//! Copies of what was written: a push is confirmed when a replica, or a disk, has it, and never before.

use std::time::Duration;

use duebox_harness::{Proxy, RedisCluster, RedisServer, SentinelGroup, eventually};
use duebox_queue::{
    ConnectionSettings, Durability, IfExists, PullOptions, Pushed, Queue, QueueError, Settled,
    TopicName, Turn, Verdict,
};

use crate::fixture::{call, job};

const JOBS: &str = "duebox:{mail}:jobs";
const CALLERS: usize = 40;

fn mail() -> TopicName {
    TopicName::new("mail").unwrap()
}

async fn connect(url: impl Into<String>, durability: Durability) -> Queue {
    let settings = ConnectionSettings::new(url).with_durability(durability);
    Queue::connect(&settings, "duebox").await.unwrap()
}

async fn push(queue: &Queue, id: &str) -> Result<Vec<Pushed>, QueueError> {
    queue.push(&mail(), &[job(id)], IfExists::Keep).await
}

fn is_unconfirmed(pushed: &Result<Vec<Pushed>, QueueError>) -> bool {
    matches!(pushed, Err(QueueError::Unconfirmed(_)))
}

/// How often a server was asked to wait.
fn waits(server: &RedisServer) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_push_is_on_a_replica() {
    let primary = RedisServer::start();
    let replica = primary.replica(&[]);
    let queue = connect(primary.url(), Durability::Replica).await;
    // A replica that has just synced confirms nothing for up to a second.
    eventually!(queue.check_durability().await == Ok(None));
    for number in 0..50 {
        let id = number.to_string();
        assert_eq!(push(&queue, &id).await.unwrap(), [Pushed::Pushed]);
        assert_eq!(replica.cli(&["HEXISTS", JOBS, &id]), "1", "job {id}");
    }
    replica.pause();
    let pushed = push(&queue, "late").await;
    assert!(is_unconfirmed(&pushed), "{pushed:?}");
    let error = pushed.unwrap_err();
    assert!(!error.is_disconnected() && !error.is_refusal(), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("are stored") && text.contains("no replica") && text.contains("again"),
        "{text}"
    );
    assert_eq!(primary.cli(&["HEXISTS", JOBS, "late"]), "1");
    // The job is there, and no replica has it: over a new connection, too, whose own writes are in every copy.
    for queue in [&queue, &connect(primary.url(), Durability::Replica).await] {
        let again = push(queue, "late").await;
        assert!(is_unconfirmed(&again), "{again:?}");
    }
    replica.resume();
    eventually!(push(&queue, "late").await == Ok(vec![Pushed::Kept]));
    assert_eq!(replica.cli(&["HEXISTS", JOBS, "late"]), "1");
}

/// A repeated push writes nothing: its first try has.
#[tokio::test(flavor = "multi_thread")]
async fn a_push_whose_reply_was_lost_is_not_confirmed_too_early() {
    let primary = RedisServer::start();
    let replica = primary.replica(&[]);
    let proxy = Proxy::start(primary.port());
    let queue = connect(proxy.url(), Durability::Replica).await;
    assert_eq!(push(&queue, "first").await.unwrap(), [Pushed::Pushed]);
    replica.pause();
    proxy.lose_reply_to("lost-reply", 0);
    let pushed = push(&queue, "lost-reply").await;
    assert_eq!(proxy.lost(), 1);
    assert!(is_unconfirmed(&pushed), "{pushed:?}");
    replica.resume();
    eventually!(push(&queue, "lost-reply").await == Ok(vec![Pushed::Kept]));
}

/// While Redis waits it answers nothing else on the connection. That is not a half-open connection, and callers share
/// waits.
#[tokio::test(flavor = "multi_thread")]
async fn callers_share_a_wait_and_the_connection_stays() {
    let primary = RedisServer::start();
    let replica = primary.replica(&[]);
    let proxy = Proxy::start(primary.port());
    let queue = connect(proxy.url(), Durability::Replica).await;
    replica.pause();
    let connections = proxy.accepted();
    let pushes: Vec<_> = (0..CALLERS)
        .map(|number| {
            let queue = queue.clone();
            // Pushes to one topic would share a call.
            let topic = TopicName::new(&format!("mail-{number}")).unwrap();
            tokio::spawn(async move { queue.push(&topic, &[job("a")], IfExists::Keep).await })
        })
        .collect();
    for pushed in pushes {
        assert!(is_unconfirmed(&pushed.await.unwrap()));
    }
    assert_eq!(proxy.accepted(), connections);
    let waits = waits(&primary);
    assert!((1..CALLERS as u64 / 2).contains(&waits), "{waits} waits for {CALLERS} calls");
    let stats = queue.copy_stats();
    assert_eq!((stats.kept(), stats.short()), (0, CALLERS as u64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_without_copies_is_settled_and_counted() {
    let primary = RedisServer::start();
    let replica = primary.replica(&[]);
    let queue = connect(primary.url(), Durability::Replica).await;
    let stats = queue.copy_stats();
    let mut missing = stats.missing();
    push(&queue, "a").await.unwrap();
    let topic = queue.topic("mail").unwrap();
    let options = PullOptions::new("tests", 1, Duration::from_secs(15), Duration::ZERO).unwrap();
    let lease = topic.pull(&options).await.unwrap().leases.remove(0);
    replica.pause();
    let settled = queue.settle(&mail(), &[lease.settle(Verdict::Ack)]).await.unwrap();
    assert_eq!(settled, [Settled::Done]);
    assert_eq!(stats.short(), 1);
    assert!(missing.borrow_and_update().as_deref().is_some_and(|why| why.contains("replica")));
    assert_eq!(primary.cli(&["HLEN", JOBS]), "0");
    // A turn that settles nothing does not wait.
    let before = waits(&primary);
    let call = call(1);
    let turn = Turn { lease: Some(&call), ..Turn::default() };
    queue.turn(&mail().first_shard(), &turn).await.unwrap();
    assert_eq!(waits(&primary), before);
    replica.resume();
    eventually!(push(&queue, "b").await.is_ok());
    assert!(missing.borrow_and_update().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_waited_for_where_the_server_can() {
    let forgetful = RedisServer::start();
    let version = forgetful.cli(&["INFO", "server"]);
    let queue = connect(forgetful.url(), Durability::Disk).await;
    let error = queue.check_durability().await.unwrap_err();
    assert!(matches!(&error, QueueError::Durability { wanted: "disk", .. }), "{error}");
    if version.contains("redis_version:7.0.") {
        let text = error.to_string();
        assert!(text.contains("no WAITAOF") && text.contains("7.2"), "{text}");
        return;
    }
    assert!(error.to_string().contains("appendonly"), "{error}");
    let pushed = push(&queue, "a").await;
    assert!(is_unconfirmed(&pushed), "{pushed:?}");
    let aof = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = RedisServer::with_args(&aof);
    let queue = connect(server.url(), Durability::Disk).await;
    assert_eq!(queue.check_durability().await.unwrap(), None);
    assert_eq!(push(&queue, "a").await.unwrap(), [Pushed::Pushed]);
    // A server that may be replaced by its replica needs the disk of one, too.
    let group = SentinelGroup::start();
    let queue = connect(group.url(), Durability::Disk).await;
    let error = queue.check_durability().await.unwrap_err();
    assert!(error.to_string().contains("appendonly"), "{error}");
}

/// A confirmed push is on the disk of the replica: it has the job after both servers died.
#[tokio::test(flavor = "multi_thread")]
async fn the_disk_of_a_replica_has_a_confirmed_push() {
    let aof = ["--appendonly", "yes", "--appendfsync", "always"];
    // The replica may be elected, however long it has been without its primary.
    let args = [&aof[..], &["--cluster-replica-validity-factor", "0"]].concat();
    let mut cluster = RedisCluster::with_replicas_and_args(3, &args);
    let queue = connect(cluster.url(), Durability::Disk).await;
    if cluster.primaries()[0].cli(&["COMMAND", "INFO", "WAITAOF"]).is_empty() {
        let error = queue.check_durability().await.unwrap_err();
        assert!(error.to_string().contains("no WAITAOF"), "{error}");
        return;
    }
    eventually!(queue.check_durability().await == Ok(None));
    assert_eq!(push(&queue, "a").await.unwrap(), [Pushed::Pushed]);
    let at = cluster.primary_of(JOBS);
    cluster.replicas()[at].pause();
    let pushed = push(&queue, "b").await;
    assert!(is_unconfirmed(&pushed), "{pushed:?}");
    cluster.replicas()[at].resume();
    eventually!(push(&queue, "b").await == Ok(vec![Pushed::Kept]));
    cluster.primaries()[at].stop();
    cluster.replicas()[at].restart();
    eventually("the replica serves what its disk has", || {
        let asks = format!("READONLY\nHEXISTS {JOBS} a\nHEXISTS {JOBS} b\n");
        cluster.replicas()[at].pipe(&asks)[1..] == ["1", "1"]
    });
}

/// Each primary of a cluster has replicas of its own; the one of another topic does not count.
#[tokio::test(flavor = "multi_thread")]
async fn each_primary_of_a_cluster_waits_for_its_own_replica() {
    let mut cluster = RedisCluster::with_replicas(3);
    let queue = connect(cluster.url(), Durability::Replica).await;
    eventually!(queue.check_durability().await == Ok(None));
    let of_mail = cluster.primary_of(JOBS);
    let other = ["sms", "video", "invoice", "search"]
        .into_iter()
        .find(|name| cluster.primary_of(&format!("duebox:{{{name}}}:jobs")) != of_mail)
        .map(|name| TopicName::new(name).unwrap())
        .unwrap();
    assert_eq!(push(&queue, "a").await.unwrap(), [Pushed::Pushed]);
    let replica = &cluster.replicas()[of_mail];
    assert!(replica.cli(&["DBSIZE"]) != "0");
    replica.pause();
    let pushed = push(&queue, "b").await;
    assert!(is_unconfirmed(&pushed), "{pushed:?}");
    let pushed = queue.push(&other, &[job("b")], IfExists::Reject).await;
    assert_eq!(pushed.unwrap(), [Pushed::Pushed]);
    cluster.replicas()[of_mail].resume();
    eventually!(push(&queue, "b").await == Ok(vec![Pushed::Kept]));
}
