//! Pull consumers: jobs come at once when they fall due, never early, and an idle wait costs little.

mod by_token;

use std::num::NonZero;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use duebox_harness::{RedisServer, patience};
use duebox_job::Rate;
use duebox_queue::{
    ConnectionSettings, Due, IfExists, Limits, NewJob, PullOptions, Pulled, Queue, QueueError,
    Settled, Verdict,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{Fixture, LEASE, id, job, job_in};

const LONG: Duration = Duration::from_secs(60);
/// A poll that no test waits for: what comes, comes by itself.
const NO_POLL: Duration = Duration::from_secs(50);

/// A options that waits long, and looks only when it has a reason.
fn options(jobs: usize) -> PullOptions {
    PullOptions::new("consumer:7", jobs, LEASE, LONG).unwrap().with_poll(NO_POLL)
}

/// A options that does not wait.
fn glance(jobs: usize) -> PullOptions {
    PullOptions::new("consumer:7", jobs, LEASE, Duration::ZERO).unwrap()
}

async fn pull(fixture: &Fixture, options: &PullOptions) -> Pulled {
    let pulled = fixture.queue.pull(&fixture.topic, options);
    tokio::time::timeout(patience(), pulled).await.unwrap().unwrap()
}

async fn ids(fixture: &Fixture, options: &PullOptions) -> Vec<String> {
    pull(fixture, options).await.leases.iter().map(|lease| lease.id.to_string()).collect()
}

/// Commands that Redis has carried out since it started, those of scripts not counted.
fn round_trips(fixture: &Fixture) -> u64 {
    let info: String = fixture.redis(redis::cmd("INFO").arg("commandstats"));
    let calls = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")))?;
        line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok()
    };
    calls("evalsha").unwrap_or(0)
}

#[tokio::test]
async fn what_is_due_comes_at_once() {
    let fixture = Fixture::new().await;
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
    }
    fixture.plain_push("plain", "p", 0);
    assert_eq!(ids(&fixture, &options(2)).await, ["a", "b"]);
    assert_eq!(ids(&fixture, &options(9)).await, ["c", "plain"]);
    assert_eq!(ids(&fixture, &glance(9)).await, [""; 0]);
    assert_eq!(fixture.snapshot().unack.len(), 4);
}

#[tokio::test]
async fn a_job_comes_when_it_falls_due_and_never_early() {
    let fixture = Fixture::new().await;
    for delay in [1, 20, 150] {
        let later = NewJob { due: Due::In(Duration::from_millis(delay)), ..job("later") };
        fixture.push_job(later, IfExists::Reject).await;
        let due = fixture.snapshot().pending.get(b"later".as_slice()).copied();
        let mut leases = pull(&fixture, &options(1)).await.leases;
        let now_us = fixture.snapshot().now_us as f64;
        // Where the push was slow it is ready already.
        if let Some(due) = due {
            assert!(now_us >= due * 1_000.0, "{delay} ms: due {due}, came {now_us}");
            assert_eq!(leases[0].due_at_ms as f64, due);
        }
        fixture.settle(leases.remove(0), Verdict::Ack).await;
    }
}

#[tokio::test]
async fn a_push_wakes_whoever_waits() {
    let fixture = Fixture::new().await;
    let options = options(1);
    let (pulled, ()) = tokio::join!(pull(&fixture, &options), async {
        until_subscribed(&fixture).await;
        fixture.push("pushed").await;
    });
    assert_eq!(pulled.leases[0].id, id("pushed"));
}

/// Waits until somebody listens for the topic's wake-ups.
async fn until_subscribed(fixture: &Fixture) {
    let ended = Instant::now() + patience();
    loop {
        if fixture.subscribers(&fixture.key("wake")) > 0 {
            return;
        }
        assert!(Instant::now() < ended, "no pull subscribes");
        // The look above blocks the thread on which the pull connects, step by step and within a time limit.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_plain_push_is_found_by_the_poll() {
    let fixture = Fixture::new().await;
    let options =
        PullOptions::new("me", 1, LEASE, LONG).unwrap().with_poll(Duration::from_millis(20));
    let (pulled, ()) = tokio::join!(pull(&fixture, &options), async {
        until_subscribed(&fixture).await;
        fixture.plain_push("plain", "p", 0);
    });
    assert_eq!(pulled.leases[0].id, id("plain"));
}

#[tokio::test]
async fn an_expired_lease_is_given_to_who_waits() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let brief = PullOptions::new("first", 1, Duration::from_millis(80), Duration::ZERO).unwrap();
    let first = pull(&fixture, &brief).await.leases.remove(0);
    let mut second = pull(&fixture, &options(1)).await.leases;
    let lease = second.remove(0);
    assert_eq!((lease.id.clone(), lease.crashes, lease.failures), (id("a"), 1, 0));
    assert!(fixture.snapshot().now_us >= first.token.expires_at_us());
    assert_eq!(fixture.settle(first, Verdict::Ack).await, Settled::Lost);
    assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
}

#[tokio::test]
async fn the_wait_ends_with_nothing() {
    let fixture = Fixture::new().await;
    fixture.push_job(job_in("later", 60), IfExists::Reject).await;
    let wait = Duration::from_millis(120);
    let options = PullOptions::new("me", 1, LEASE, wait).unwrap();
    let started = Instant::now();
    let pulled = pull(&fixture, &options).await;
    assert!(pulled.leases.is_empty() && !pulled.paused && !pulled.limited);
    assert!(started.elapsed() >= wait);
    assert!(fixture.snapshot().pending.contains_key(b"later".as_slice()));
}

#[tokio::test]
async fn an_idle_wait_costs_a_turn_a_poll() {
    // A server of its own: what others ask is not counted.
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    fixture.push_job(job_in("later", 60), IfExists::Reject).await;
    let (poll, polls) = (Duration::from_millis(100), 5);
    let options = PullOptions::new("me", 1, LEASE, poll * polls).unwrap().with_poll(poll);
    let before = round_trips(&fixture);
    assert!(pull(&fixture, &options).await.leases.is_empty());
    // Three scripts a turn: at the start, after subscribing, at each poll and at the end.
    let turns = (round_trips(&fixture) - before) / 3;
    assert!(turns <= u64::from(polls) + 3, "{turns} turns");
}

#[tokio::test]
async fn bytes_and_age_are_kept_to() {
    let fixture = Fixture::new().await;
    for name in ["aaaa", "bbbb", "cccc"] {
        fixture.push(name).await;
    }
    let mut small = glance(9);
    small.bytes_max = Some(9);
    assert_eq!(ids(&fixture, &small).await, ["aaaa", "bbbb"]);
    small.bytes_max = Some(1);
    assert_eq!(ids(&fixture, &small).await, ["cccc"], "one job is always given");

    fixture.push("young").await;
    let mut old = glance(9);
    old.min_age = Duration::from_secs(3);
    assert_eq!(ids(&fixture, &old).await, [""; 0]);
    fixture.advance(Duration::from_secs(3), &mut []);
    assert_eq!(ids(&fixture, &old).await, ["young"]);

    // It waits until the job is old enough, and no longer.
    fixture.push("ripens").await;
    let mut ripe = options(1);
    ripe.min_age = Duration::from_millis(100);
    let lease = pull(&fixture, &ripe).await.leases.remove(0);
    let age = fixture.now_ms() - lease.due_at_ms;
    assert!(age >= 100, "{age}");
}

#[tokio::test]
async fn a_limit_is_waited_for_without_asking_all_the_time() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    let rate = Rate::parse("10/s").unwrap();
    let rules = Limits { rate: Some(rate), burst: NonZero::new(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
    }
    assert_eq!(ids(&fixture, &options(3)).await, ["a"]);
    let nothing = pull(&fixture, &glance(3)).await;
    assert!(nothing.limited && nothing.leases.is_empty());
    let before = round_trips(&fixture);
    assert_eq!(ids(&fixture, &options(3)).await, ["b"]);
    assert_eq!(ids(&fixture, &options(3)).await, ["c"]);
    let turns = (round_trips(&fixture) - before) / 3;
    assert!(turns <= 12, "{turns} turns");
}

#[tokio::test]
async fn the_end_of_a_lease_lets_the_next_through() {
    let fixture = Fixture::new().await;
    let rules = Limits { max_running: NonZero::new(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    fixture.push("a").await;
    fixture.push("b").await;
    let lease = pull(&fixture, &options(2)).await.leases.remove(0);
    let second = options(2);
    let (pulled, settled) = tokio::join!(pull(&fixture, &second), async {
        until_subscribed(&fixture).await;
        fixture.settle(lease, Verdict::Ack).await
    });
    assert_eq!((settled, pulled.leases[0].id.clone()), (Settled::Done, id("b")));
}

#[tokio::test]
async fn a_paused_topic_says_so_and_resuming_wakes() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.queue.pause(&fixture.topic).await.unwrap();
    assert!(pull(&fixture, &glance(1)).await.paused);
    let options = options(1);
    let (pulled, resumed) = tokio::join!(pull(&fixture, &options), async {
        until_subscribed(&fixture).await;
        fixture.queue.resume(&fixture.topic).await
    });
    resumed.unwrap();
    assert_eq!(pulled.leases[0].id, id("a"));
}

#[tokio::test]
async fn what_stands_in_the_way_does_not_end_a_pull() {
    let fixture = Fixture::new().await;
    // 2,500 ready ids without a payload, and behind them a job.
    let mut plant = redis::pipe();
    for n in 0..2_500 {
        plant.cmd("ZADD").arg(fixture.key("ready")).arg(1_700_000_000_000_u64).arg(format!("x{n}"));
    }
    fixture.exec(&plant);
    fixture.push("a").await;
    assert_eq!(ids(&fixture, &glance(1_000)).await, ["a"]);
}

#[tokio::test]
async fn two_consumers_share_and_never_get_the_same() {
    let fixture = Fixture::new().await;
    let jobs: Vec<NewJob> = (0..200).map(|n| job_in(&format!("job-{n}"), 0)).collect();
    fixture.push_many(&jobs, IfExists::Reject).await;
    let take = async |consumer: &str| {
        let options = PullOptions::new(consumer, 7, LEASE, Duration::ZERO).unwrap();
        let mut taken = Vec::new();
        loop {
            let some = ids(&fixture, &options).await;
            if some.is_empty() {
                return taken;
            }
            taken.extend(some);
        }
    };
    let (mut one, other) = tokio::join!(take("one"), take("other"));
    assert!(!one.is_empty() && !other.is_empty());
    one.extend(other);
    one.sort();
    one.dedup();
    assert_eq!(one.len(), 200);
}

/// A way to Redis that loses a given number of replies, connection and all.
async fn leaky_way(port: u16, leaks: &'static AtomicU32) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own_port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            tokio::spawn(carry(client, server, leaks));
        }
    });
    own_port
}

async fn carry(client: TcpStream, server: TcpStream, leaks: &AtomicU32) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = async {
        let mut buffer = [0; 4_096];
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            let one_less = |left: u32| left.checked_sub(1);
            if leaks.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
                return;
            }
            to_client.write_all(&buffer[..read]).await.unwrap();
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        () = answers => {}
    }
}

#[tokio::test]
async fn jobs_whose_answer_was_lost_come_with_the_next_try() {
    static LEAKS: AtomicU32 = AtomicU32::new(0);
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    let port = leaky_way(server.port(), &LEAKS).await;
    let settings = ConnectionSettings::new(format!("redis://127.0.0.1:{port}"));
    let prefix = fixture.key("").split(':').next().unwrap().to_owned();
    let queue = Queue::connect(&settings, &prefix).await.unwrap();
    fixture.push("a").await;

    // What is asked first is how many shards there are; then jobs.
    LEAKS.store(2, Ordering::SeqCst);
    let pulled = queue.pull(&fixture.topic, &glance(1)).await.unwrap();
    assert_eq!(LEAKS.load(Ordering::SeqCst), 0, "answers were lost");
    let lease = &pulled.leases[0];
    assert_eq!((lease.id.clone(), lease.crashes), (id("a"), 0));
    let held = fixture.snapshot().unack[b"a".as_slice()];
    assert_eq!(held, lease.token.expires_at_us() as f64, "it has the lease that was made");
    assert_eq!(
        fixture.settle(pulled.leases.into_iter().next().unwrap(), Verdict::Ack).await,
        Settled::Done
    );
}

#[tokio::test]
async fn without_redis_a_pull_fails_and_says_so() {
    let mut server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    server.stop();
    let failed = fixture.queue.pull(&fixture.topic, &glance(1)).await.unwrap_err();
    assert!(matches!(failed, QueueError::NoReply(_)), "{failed}");
}
