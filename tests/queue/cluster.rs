//! A cluster: commands go to the servers that have their slots, also while slots move and primaries die.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use duebox_harness::{Lateness, RedisCluster, RedisServer, eventually};
use duebox_job::TopicName;
use duebox_queue::{
    ConnectionSettings, IfExists, KeyScan, KvCondition, KvWrite, Leased, Notification, Promotion,
    Pushed, Queue, QueueError, Settled, SlowCall, Turn, Verdict,
};

use crate::fixture::{call, job, job_in};

const TOPICS: [&str; 6] = ["mail", "order.close", "sms", "video", "invoice", "search"];

pub(crate) async fn connect(cluster: &RedisCluster) -> Queue {
    Queue::connect(&ConnectionSettings::new(cluster.url()), "duebox").await.unwrap()
}

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

/// Promotes and leases up to nine jobs of a topic, and acks them; returns their ids.
pub(crate) async fn run(queue: &Queue, name: &str) -> BTreeSet<String> {
    let shard = topic(name).first_shard();
    let call = call(9);
    let promote = Some(Promotion { jobs: 9, skip: 0, discards_bad: false });
    let turn = Turn { promote, lease: Some(&call), ..Turn::default() };
    let reply = queue.turn(&shard, &turn).await.unwrap();
    assert!(reply.error.is_none(), "{:?}", reply.error);
    let Some(Leased::Jobs(jobs)) = reply.leased else { return BTreeSet::new() };
    let ids = jobs.leases.iter().map(|lease| lease.id.to_string()).collect();
    let settle: Vec<_> = jobs.leases.into_iter().map(|lease| lease.settle(Verdict::Ack)).collect();
    let turn = Turn { settle: settle.iter().collect(), ..Turn::default() };
    let reply = queue.turn(&shard, &turn).await.unwrap();
    assert!(reply.settled.unwrap().iter().all(|settled| *settled == Settled::Done));
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_spread_over_the_primaries() {
    let mut cluster = RedisCluster::start(3);
    let queue = connect(&cluster).await;
    assert_eq!(queue.cluster_primaries().len(), 3);
    let mut listener = queue.listen().await.unwrap();
    for name in TOPICS {
        let jobs = [job("a"), job("b"), job_in("later", 3_600)];
        let pushed = queue.push(&topic(name), &jobs, IfExists::Reject).await;
        assert_eq!(pushed.unwrap(), [Pushed::Pushed; 3], "{name}");
        let heard = tokio::time::timeout(duebox_harness::patience(), listener.next()).await;
        assert_eq!(heard.unwrap(), Notification::WakeUp(topic(name).first_shard()));
    }
    let holders = cluster.primaries().iter().filter(|server| server.cli(&["DBSIZE"]) != "0");
    assert_eq!(holders.count(), 3, "each primary has keys");
    let topics: BTreeSet<String> =
        queue.topics().await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(topics, TOPICS.map(str::to_owned).into());
    // One call with commands for every server.
    let shards: Vec<_> = TOPICS.iter().map(|name| topic(name).first_shard()).collect();
    let depths = queue.peek(&shards).await.unwrap();
    assert_eq!(depths.len(), TOPICS.len());
    // A walk through the keys of every server.
    let (mut scan, mut found) = (KeyScan::default(), BTreeSet::new());
    loop {
        found.extend(queue.scan_pending(&mut scan).await.unwrap());
        if scan.is_at_start() {
            break;
        }
    }
    assert_eq!(found, shards.iter().cloned().collect());
    for server in cluster.primaries() {
        server.cli(&["SCRIPT", "FLUSH"]);
    }
    for name in TOPICS {
        assert_eq!(run(&queue, name).await, ["a", "b"].map(str::to_owned).into(), "{name}");
        let added = queue.kv_add(&topic(name), b"count", 1).await.unwrap();
        assert_eq!(added, KvWrite::Done(1), "{name}");
        let set = queue.kv_set(&topic(name), b"x", b"v", None, KvCondition::IfAbsent).await;
        assert!(set.is_ok(), "{name}: {set:?}");
    }
}

/// A message reaches every server, so that subscriptions need not all be at one.
#[tokio::test(flavor = "multi_thread")]
async fn listeners_spread_over_the_primaries() {
    const LISTENERS: usize = 18;
    let mut cluster = RedisCluster::start(3);
    let queue = connect(&cluster).await;
    let mut listeners = Vec::new();
    for _ in 0..LISTENERS {
        listeners.push(queue.listen().await.unwrap());
    }
    let listens = |server: &RedisServer| {
        let clients = server.cli(&["CLIENT", "LIST", "TYPE", "pubsub"]);
        clients.lines().filter(|line| line.contains(" psub=1 ")).count()
    };
    let counts: Vec<usize> = cluster.primaries().iter().map(listens).collect();
    assert_eq!(counts.iter().sum::<usize>(), LISTENERS, "{counts:?}");
    assert!(counts.iter().all(|count| *count < LISTENERS), "{counts:?}");
    queue.push(&topic("mail"), &[job("a")], IfExists::Reject).await.unwrap();
    assert_eq!(queue.publish_control("stop").await.unwrap(), LISTENERS as u64);
    for listener in &mut listeners {
        let mut heard = Vec::new();
        for _ in 0..2 {
            let next = tokio::time::timeout(duebox_harness::patience(), listener.next()).await;
            heard.push(next.unwrap());
        }
        let wake_up = Notification::WakeUp(topic("mail").first_shard());
        assert!(heard.contains(&wake_up), "{heard:?}");
        assert!(heard.contains(&Notification::Control("stop".to_owned())), "{heard:?}");
    }
}

/// In a cluster a key can only be renamed within its slot.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_place_of_the_set_of_topics_is_renamed() {
    let cluster = RedisCluster::start(3);
    let queue = connect(&cluster).await;
    cluster.cli(&["SET", "duebox:topics", "x"]);
    let mut done = Vec::new();
    queue.examine_topics(true, |_| true, &mut |finding| done.push(finding.done)).await.unwrap();
    let [renamed] = &done[..] else { panic!("{done:?}") };
    let broken = renamed.strip_prefix("renamed to ").unwrap();
    assert!(broken.starts_with("duebox:") && broken.contains(":broken:"), "{broken}");
    assert_eq!(cluster.cli(&["GET", broken]), "x");
}

/// One of three primaries is stopped, the one that is asked first.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_away_is_left_out_of_the_slow_calls() {
    let mut cluster = RedisCluster::start(3);
    let queue = connect(&cluster).await;
    for server in cluster.primaries() {
        server.cli(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    }
    for name in TOPICS {
        queue.push(&topic(name), &[job("a")], IfExists::Reject).await.unwrap();
    }
    let keys = TOPICS.map(|name| format!("duebox:{{{name}}}:jobs"));
    let primaries = keys.each_ref().map(|key| cluster.primary_of(key));
    let told = |calls: Vec<SlowCall>| {
        keys.each_ref().map(|key| calls.iter().any(|call| call.key.as_ref() == Some(key)))
    };
    assert_eq!(told(queue.slow_calls(1_000).await.unwrap()), [true; TOPICS.len()]);
    cluster.primaries()[0].stop();
    let calls = queue.slow_calls(1_000).await.unwrap();
    assert_eq!(told(calls), primaries.map(|primary| primary != 0));
    assert!(queue.server_info().await.unwrap().contains("redis_version"));
}

/// Each slot of a topic is moved step by step while jobs are pushed and run.
#[tokio::test(flavor = "multi_thread")]
async fn slots_move_under_load() {
    let mut cluster = RedisCluster::start(2);
    let queue = connect(&cluster).await;
    let keys = "duebox:{mail}:jobs";
    let lateness = Lateness::measure();
    for round in 0..6 {
        let before = format!("before-{round}");
        let pushed = queue.push(&topic("mail"), &[job(&before)], IfExists::Reject).await.unwrap();
        assert_eq!(pushed, [Pushed::Pushed]);
        let slot = cluster.primaries()[0].cli(&["CLUSTER", "KEYSLOT", keys]);
        let owner = cluster.primaries().iter().position(|server| {
            let id = server.cli(&["CLUSTER", "MYID"]);
            let slots = server.cli(&["CLUSTER", "SLOTS"]);
            owner_of(&slots, &slot) == Some(id)
        });
        let from = owner.unwrap();
        let ids: Vec<String> =
            cluster.primaries().iter().map(|server| server.cli(&["CLUSTER", "MYID"])).collect();
        let [source, target] = [from, 1 - from];
        let servers = cluster.primaries();
        servers[target].cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[source]]);
        servers[source].cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[target]]);
        // While some keys are here and some there, calls wait; they end when the slot has moved.
        let (queue_of_task, name) = (queue.clone(), format!("during-{round}"));
        let during = tokio::spawn(async move {
            let kept = queue_of_task.push(&topic("mail"), &[job(&name)], IfExists::Keep).await;
            (kept, run(&queue_of_task, "mail").await)
        });
        loop {
            let names = servers[source].cli(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"]);
            if names.is_empty() {
                break;
            }
            for name in names.lines() {
                let port = servers[target].port().to_string();
                servers[source].cli(&["MIGRATE", "127.0.0.1", &port, name, "0", "5000"]);
            }
        }
        for at in [target, source] {
            servers[at].cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[target]]);
        }
        let moved_at = Instant::now();
        let (kept, mut ran) = during.await.unwrap();
        lateness.check_resumed("move of a slot", moved_at.elapsed());
        assert!(kept.unwrap()[0].is_stored());
        ran.extend(run(&queue, "mail").await);
        assert_eq!(ran, [before, format!("during-{round}")].into(), "round {round}");
    }
}

/// The id of the server that has a slot, in the output of CLUSTER SLOTS.
pub(crate) fn owner_of(output: &str, slot: &str) -> Option<String> {
    let slot: u16 = slot.parse().ok()?;
    let lines: Vec<&str> = output.lines().collect();
    lines.windows(5).find_map(|part| {
        let (first, last) = (part[0].parse::<u16>().ok()?, part[1].parse::<u16>().ok()?);
        (part[4].len() == 40 && (first..=last).contains(&slot)).then(|| part[4].to_owned())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_the_place_of_a_dead_primary() {
    let mut cluster = RedisCluster::with_replicas(3);
    let queue = connect(&cluster).await;
    for name in TOPICS {
        queue.push(&topic(name), &[job("before")], IfExists::Reject).await.unwrap();
    }
    let dead = cluster.primary_of("duebox:{mail}:jobs");
    let offset = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.unwrap_or_default()
    };
    eventually("the replica has the jobs", || {
        let info = cluster.primaries()[dead].cli(&["INFO", "replication"]);
        let replica = offset(&info, "slave0:");
        let own = offset(&info, "master_repl_offset:");
        replica.contains(&format!("offset={},", own.trim()))
    });
    let over = Arc::<AtomicBool>::default();
    let load = tokio::spawn(push_until(Arc::clone(&over), queue.clone()));
    let lateness = Lateness::measure();
    cluster.primaries()[dead].stop();
    cluster.wait_for_successor_of(dead);
    let writable_at = Instant::now();
    eventually!(queue.push(&topic("mail"), &[job("after")], IfExists::Keep).await.is_ok());
    lateness.check_resumed("death of a primary", writable_at.elapsed());
    over.store(true, Ordering::Relaxed);
    load.await.unwrap();
    for name in TOPICS {
        eventually!(queue.push(&topic(name), &[job("after")], IfExists::Keep).await.is_ok());
        assert_eq!(
            run(&queue, name).await,
            ["after", "before"].map(str::to_owned).into(),
            "{name}"
        );
    }
}

/// Pushes to topics on each primary. A call may fail while one is away, and in no other way.
async fn push_until(over: Arc<AtomicBool>, queue: Queue) {
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        let name = format!("load.{}", number % TOPICS.len());
        let jobs = [job(&number.to_string())];
        match queue.push(&topic(&name), &jobs, IfExists::Reject).await {
            Ok(answers) => assert_eq!(answers, [Pushed::Pushed]),
            Err(error) => assert!(error.is_disconnected(), "{error}"),
        }
        number += 1;
    }
}

/// Every server of a cluster is recognized, whichever slots it has, and no other server is.
#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_one_server_of_a_cluster_is_refused() {
    let mut cluster = RedisCluster::start(3);
    for server in cluster.primaries() {
        let url = format!("redis://127.0.0.1:{}", server.port());
        let error =
            Queue::connect(&ConnectionSettings::new(url), "duebox").await.map(drop).unwrap_err();
        assert!(matches!(&error, QueueError::IsClusterNode { .. }), "{error}");
        assert!(error.to_string().contains("write redis-cluster://"), "{error}");
    }
    // A user who may not read the keys that are asked for.
    let single = RedisServer::start();
    let keys = ["~duebox:layout", "~duebox:topics", "~duebox:pushed:*", "~duebox:{*"];
    let rules = ["ACL", "SETUSER", "narrow", "on", ">secret", "&*", "+@all"];
    single.cli(&[&rules[..], &keys].concat());
    let url = format!("redis://narrow:secret@127.0.0.1:{}", single.port());
    let queue = Queue::connect(&ConnectionSettings::new(url), "duebox").await.unwrap();
    let pushed = queue.push(&topic("mail"), &[job("a")], IfExists::Reject).await.unwrap();
    assert_eq!(pushed, [Pushed::Pushed]);
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_no_cluster_are_refused_in_words() {
    let single = RedisServer::start();
    let url = format!("redis-cluster://127.0.0.1:{}", single.port());
    let error =
        Queue::connect(&ConnectionSettings::new(url), "duebox").await.map(drop).unwrap_err();
    assert!(matches!(&error, QueueError::Cluster { .. }), "{error}");
    assert!(error.to_string().contains("write redis://"), "{error}");
    let empty = RedisServer::with_args(&["--cluster-enabled", "yes"]);
    let url = format!("redis-cluster://127.0.0.1:1,127.0.0.1:{}", empty.port());
    let error =
        Queue::connect(&ConnectionSettings::new(url), "duebox").await.map(drop).unwrap_err();
    assert!(error.to_string().contains("has slot 0"), "{error}");
}
