//! Connections to Redis that close, idle or under load. What was not sent is sent over the next one.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use duebox_harness::{Proxy, RedisServer, eventually};
use duebox_queue::{
    ConnectionSettings, IfExists, KvCondition, Lease, LeaseCall, Leased, Limits, NewJob,
    PullOptions, Pushed, Queue, QueueError, ReclaimRule, Settled, Turn, Verdict,
};

use crate::fixture::{Fixture, LEASE, call, drop_it, id, job, nack, release};

const ROUNDS: usize = 60;

async fn behind(proxy: &Proxy, server: &RedisServer) -> Fixture {
    Fixture::through(&proxy.url(), server).await
}

/// The newest client id, apart from the one that asks.
fn newest_of_queue(server: &RedisServer) -> u64 {
    let clients = server.cli(&["CLIENT", "LIST"]);
    let of_queue = clients.lines().filter(|line| !line.contains(" cmd=client"));
    let id = |line: &str| line.split_whitespace().next()?.strip_prefix("id=")?.parse().ok();
    of_queue.filter_map(id).max().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_call_after_the_connection_closed_succeeds() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let fixture = behind(&proxy, &server).await;
    for round in 0..ROUNDS {
        let connections = proxy.accepted();
        assert_eq!(proxy.cut(), 1);
        // A push may be repeated: it need not know that the connection is closed.
        let pushed = fixture.push_many(&[job(&round.to_string())], IfExists::Reject).await;
        assert_eq!(pushed, [Pushed::Pushed]);
        eventually!(proxy.accepted() > connections);
        let connections = proxy.accepted();
        proxy.cut();
        // Nothing uses the connection, and it is made again.
        eventually!(proxy.accepted() > connections);
        let added = fixture.queue.kv_add(&fixture.topic, b"count", 1).await;
        assert!(added.is_ok(), "round {round}: {added:?}");
    }
    let count = fixture.queue.kv_get(&fixture.topic, b"count").await.unwrap().unwrap();
    assert_eq!(count.value, ROUNDS.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_that_redis_closes_is_made_again() {
    let server = RedisServer::with_args(&["--timeout", "1"]);
    let fixture = Fixture::new().await;
    let queue = Fixture::on(&server).await.queue;
    for _ in 0..2 {
        let before = newest_of_queue(&server);
        eventually!(newest_of_queue(&server) > before);
        let added = queue.kv_add(&fixture.topic, b"count", 1).await;
        assert!(added.is_ok(), "{added:?}");
    }
}

/// Each kill closes the connection at another moment of a push.
#[tokio::test(flavor = "multi_thread")]
async fn pushes_go_on_while_connections_are_killed() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    let over = AtomicBool::new(false);
    let mut kills = 0;
    let pushed = thread::scope(|scope| {
        let killer = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
                kills += 1;
                // Longer than it takes to connect on a busy machine.
                thread::sleep(Duration::from_millis(25));
            }
            kills
        });
        let runtime = tokio::runtime::Handle::current();
        let queue = fixture.queue.clone();
        let topic = fixture.topic.clone();
        let pusher = scope.spawn(move || {
            runtime.block_on(async {
                for n in 0..1_000 {
                    let jobs = [job(&n.to_string())];
                    let pushed = queue.push(&topic, &jobs, IfExists::Reject).await;
                    assert_eq!(pushed.unwrap(), [Pushed::Pushed], "job {n}");
                }
            });
        });
        let pushed = pusher.join();
        over.store(true, Ordering::Relaxed);
        println!("1,000 pushes under {} kills", killer.join().unwrap());
        pushed
    });
    pushed.unwrap();
}

#[tokio::test]
async fn a_push_whose_reply_is_lost_is_recognized() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let fixture = behind(&proxy, &server).await;
    for (mode, after) in [(IfExists::Reject, 0), (IfExists::Keep, 3), (IfExists::Replace, 1)] {
        proxy.lose_reply_to("mine", after);
        let jobs = [NewJob::new(id(&format!("mine-{after}")), "payload")];
        let pushed = fixture.push_many(&jobs, mode).await;
        assert!(pushed[0].is_stored(), "{mode:?}: {pushed:?}");
    }
    assert_eq!(proxy.lost(), 3);
    // A job of another producer under the same id is not taken for it.
    proxy.lose_reply_to("other", 0);
    let jobs = [NewJob::new(id("mine-0"), "other")];
    assert_eq!(fixture.push_many(&jobs, IfExists::Reject).await, [Pushed::Exists]);
    assert_eq!(proxy.lost(), 4);
    assert_eq!(fixture.snapshot().jobs.len(), 3);
}

/// What the first try met was refused then, too: it has stored nothing.
#[tokio::test]
async fn a_repeated_push_that_meets_another_job_is_refused() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let fixture = behind(&proxy, &server).await;
    // The id of a job that is done is reserved; the payload of a job that has just ended is gone.
    server.cli(&["ZADD", &fixture.key("unique"), "9000000000000", "reserved"]);
    server.cli(&["ZADD", &fixture.key("ready"), "1", "gone"]);
    for (name, word) in [("reserved", Pushed::Held), ("gone", Pushed::Exists)] {
        proxy.lose_reply_to(name, 0);
        let jobs = [NewJob::new(id(name), "payload")];
        assert_eq!(fixture.push_many(&jobs, IfExists::Reject).await, [word]);
    }
    assert_eq!((proxy.lost(), server.cli(&["EXISTS", &fixture.key("jobs")]).as_str()), (2, "0"));
}

/// A worker leases and acks each job at once, so most are done before their push is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_done_when_its_push_is_repeated_runs_once() {
    const JOBS: usize = 200;
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let fixture = behind(&proxy, &server).await;
    let key = fixture.key("");
    let prefix = key.split(":{").next().unwrap();
    let worker = Queue::connect(&ConnectionSettings::new(server.url()), prefix).await.unwrap();
    let (shard, is_over) = (fixture.shard.clone(), Arc::<AtomicBool>::default());
    let over = Arc::clone(&is_over);
    let work = tokio::spawn(async move {
        let mut ran = BTreeMap::<String, usize>::new();
        for n in 0_u64.. {
            let call = LeaseCall::new(9, LEASE, format!("worker:{n}"));
            let turn = Turn { lease: Some(&call), ..Turn::default() };
            let Some(Leased::Jobs(leased)) = worker.turn(&shard, &turn).await.unwrap().leased
            else {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                continue;
            };
            for lease in leased.leases {
                *ran.entry(lease.id.to_string()).or_default() += 1;
                let settle = [lease.settle(Verdict::Ack)];
                worker
                    .turn(&shard, &Turn { settle: settle.iter().collect(), ..Turn::default() })
                    .await
                    .unwrap();
            }
        }
        ran
    });
    for n in 0..JOBS {
        let name = format!("job-{n}-");
        proxy.lose_reply_to(&name, 0);
        let two = [job(&name), job(&format!("{name}x"))];
        let pushed = fixture.push_many(&two, IfExists::Reject).await;
        assert_eq!(pushed, [Pushed::Pushed; 2], "{name}");
    }
    is_over.store(true, Ordering::Relaxed);
    let ran = work.await.unwrap();
    let twice: Vec<_> = ran.iter().filter(|(_, times)| **times > 1).collect();
    assert_eq!((proxy.lost(), ran.len(), twice), (JOBS, 2 * JOBS, vec![]));
}

#[tokio::test]
async fn a_write_that_may_have_been_carried_out_is_not_repeated() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let fixture = behind(&proxy, &server).await;
    proxy.lose_reply_to("once", 0);
    let absent = KvCondition::IfAbsent;
    let written = fixture.queue.kv_set(&fixture.topic, b"once", b"v", None, absent).await;
    assert!(written.is_err(), "{written:?}");
    let found = fixture.queue.kv_get(&fixture.topic, b"once").await.unwrap();
    assert_eq!(found.unwrap().value, "v");
}

/// Scripts are forgotten faster than they can be loaded.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_are_forgotten_all_the_time_run() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    let over = AtomicBool::new(false);
    let (queue, topic, shard) =
        (fixture.queue.clone(), fixture.topic.clone(), fixture.shard.clone());
    let runtime = tokio::runtime::Handle::current();
    let ran = thread::scope(|scope| {
        scope.spawn(|| {
            let flushes = "SCRIPT FLUSH\n".repeat(20);
            while !over.load(Ordering::Relaxed) {
                server.pipe(&flushes);
            }
        });
        let work = scope.spawn(move || {
            runtime.block_on(async {
                for n in 0..100 {
                    let pushed = queue.push(&topic, &[job(&n.to_string())], IfExists::Reject).await;
                    assert_eq!(pushed.unwrap(), [Pushed::Pushed]);
                    let call = LeaseCall::new(9, LEASE, format!("test:{n}"));
                    let turn = Turn { lease: Some(&call), ..Turn::default() };
                    let reply = queue.turn(&shard, &turn).await.unwrap();
                    assert!(reply.error.is_none(), "{:?}", reply.error);
                    let Some(Leased::Jobs(leased)) = reply.leased else { panic!() };
                    for lease in leased.leases {
                        let settle = [lease.settle(Verdict::Ack)];
                        let turn = Turn { settle: settle.iter().collect(), ..Turn::default() };
                        let reply = queue.turn(&shard, &turn).await.unwrap();
                        assert!(reply.error.is_none(), "{:?}", reply.error);
                    }
                }
            });
        });
        let ran = work.join();
        over.store(true, Ordering::Relaxed);
        ran
    });
    ran.unwrap();
    assert!(fixture.snapshot().jobs.is_empty());
}

#[tokio::test]
async fn verdicts_whose_reply_is_lost_are_recognized() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let fixture = behind(&proxy, &server).await;
    let mut given = Vec::new();
    for (name, verdict) in [
        ("acked", Verdict::Ack),
        ("dropped", drop_it()),
        ("nacked", nack()),
        ("released", release()),
    ] {
        fixture.push(name).await;
        let lease = fixture.lease_only(name).await;
        proxy.lose_reply_to(name, 0);
        given.push((name, fixture.settle(lease, verdict).await));
    }
    let expected = [
        ("acked", Settled::Done),
        ("dropped", Settled::Dead),
        ("nacked", Settled::Retry),
        ("released", Settled::Released),
    ];
    assert_eq!((given.as_slice(), proxy.lost()), (expected.as_slice(), 4));
    // Another runner has the job: its lease ended before, and the verdict is late.
    fixture.push("taken").await;
    let mut lease = fixture.lease_up_to(9).await.into_iter().find(|l| l.id == id("taken")).unwrap();
    fixture.advance(LEASE * 2, &mut [&mut lease]);
    fixture.reclaim().await;
    let settle = [lease.settle(Verdict::Ack)];
    let turn = Turn { settle: settle.iter().collect(), is_repeated: true, ..Turn::default() };
    assert_eq!(fixture.turn(&turn).await.settled.unwrap(), [Settled::Lost]);
}

/// Leases that expired in an outage are given to another runner, and nothing is counted: by workers, by pull
/// consumers, and by those that only reclaim.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_expires_in_an_outage_is_no_crash() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let fixture = behind(&proxy, &server).await;
    let mut connections = 0;
    for (max_crashes, pulls) in [(NonZero::new(1), false), (None, false), (None, true)] {
        fixture.push("a").await;
        let mut lease = fixture.lease_only("a").await;
        proxy.cut();
        fixture.queue.reconnected(&mut connections).await;
        fixture.advance(LEASE * 2, &mut [&mut lease]);
        let lease = if pulls {
            pull_one(&fixture).await
        } else {
            assert_eq!(reclaim(&fixture, max_crashes).await, Some(Settled::Retry));
            fixture.promote().await;
            fixture.lease_only("a").await
        };
        assert_eq!((lease.crashes, lease.failures), (0, 0), "{max_crashes:?}, pulled: {pulls}");
        fixture.settle(lease, Verdict::Ack).await;
    }
}

/// Redis could be reached, and so could the holder of the lease.
#[tokio::test]
async fn a_lease_that_expires_without_an_outage_is_a_crash() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    for pulls in [false, true] {
        let mut lease = fixture.lease_only("a").await;
        fixture.advance(LEASE * 2, &mut [&mut lease]);
        let lease = if pulls {
            pull_one(&fixture).await
        } else {
            assert_eq!(reclaim(&fixture, None).await, Some(Settled::Retry));
            fixture.promote().await;
            fixture.lease_only("a").await
        };
        assert_eq!(lease.crashes, 1 + u32::from(pulls));
        fixture.settle(lease, release()).await;
    }
    let mut lease = fixture.lease_only("a").await;
    fixture.advance(LEASE * 2, &mut [&mut lease]);
    assert_eq!(reclaim(&fixture, NonZero::new(1)).await, Some(Settled::Dead));
}

/// The process was refused, as the holder of the lease was.
#[tokio::test]
async fn a_lease_that_expires_while_redis_refuses_to_write_is_no_crash() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    fixture.push("a").await;
    let mut lease = fixture.lease_only("a").await;
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let refused = fixture.queue.push(&fixture.topic, &[job("b")], IfExists::Reject).await;
    assert!(matches!(&refused, Err(QueueError::Refused(_))), "{refused:?}");
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    fixture.advance(LEASE * 2, &mut [&mut lease]);
    assert_eq!(pull_one(&fixture).await.crashes, 0);
}

async fn reclaim(fixture: &Fixture, max_crashes: Option<NonZero<u32>>) -> Option<Settled> {
    let reclaim = Some(ReclaimRule {
        max_crashes,
        delay: Duration::ZERO,
        info: Some("{}"),
        renewed_within: Duration::ZERO,
    });
    let reply = fixture.turn(&Turn { reclaim, ..Turn::default() }).await;
    reply.reclaimed.unwrap().jobs.first().map(|(_, became)| *became)
}

async fn pull_one(fixture: &Fixture) -> Lease {
    let pull = PullOptions::new("consumer", 1, LEASE, Duration::ZERO).unwrap();
    fixture.queue.pull(&fixture.topic, &pull).await.unwrap().leases.remove(0)
}

#[tokio::test]
async fn a_lease_that_needs_limits_is_refused_without_them() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let needs = LeaseCall { needs_limits: true, ..call(9) };
    assert!(matches!(fixture.lease(&needs).await, Leased::NoLimits));
    let limits = Limits { max_running: NonZero::new(3), ..Limits::default() };
    assert!(limits.hold_for_leases() && !Limits::default().hold_for_leases());
    fixture.queue.configure(&fixture.topic, &limits).await.unwrap();
    assert!(matches!(fixture.lease(&needs).await, Leased::Jobs(_)));
}

#[tokio::test]
async fn commands_of_the_caller_may_be_a_transaction() {
    let fixture = Fixture::new().await;
    let mut both = redis::pipe();
    both.atomic().cmd("SET").arg(fixture.key("a")).arg(1).ignore();
    both.cmd("INCR").arg(fixture.key("a"));
    let mut redis = fixture.queue.redis();
    let (sum,): (u64,) = both.query_async(&mut redis).await.unwrap();
    let alone: u64 = redis::cmd("GET").arg(fixture.key("a")).query_async(&mut redis).await.unwrap();
    assert_eq!((sum, alone), (2, 2));
}
