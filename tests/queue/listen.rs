//! Waking a sleeping runner, and looking how soon there is work.

use std::time::Duration;

use duebox_harness::{RedisServer, only_on_one_server, patience};
use duebox_job::TopicName;
use duebox_queue::{
    ConnectionSettings, Due, IfExists, Lease, Leased, Listener, Notification, Queue, Role, Verdict,
};

use crate::fixture::{BACKOFF, Fixture, LEASE, call, drop_it, id, job, job_in, nack, release};

async fn next(listener: &mut Listener) -> Notification {
    tokio::time::timeout(patience(), listener.next()).await.unwrap()
}

/// Nothing was heard: a push to another topic, made after all that should be silent, comes first.
async fn silent(fixture: &Fixture, listener: &mut Listener) {
    let other = TopicName::new("other").unwrap();
    fixture.queue.push(&other, &[job("marker")], IfExists::Keep).await.unwrap();
    assert_eq!(
        next(listener).await,
        Notification::WakeUp(other.first_shard()),
        "this topic was silent"
    );
    // Its job and its wake go, so that the next marker wakes again.
    fixture.queue.cancel(&other, &id("marker")).await.unwrap();
    let promote = Some(duebox_queue::Promotion { jobs: 1, skip: 0, discards_bad: false });
    let turn = duebox_queue::Turn { promote, ..Default::default() };
    fixture.queue.turn(&other.first_shard(), &turn).await.unwrap();
}

#[tokio::test]
async fn an_earlier_push_wakes_and_a_later_one_does_not() {
    let fixture = Fixture::new().await;
    let mut listener = fixture.queue.listen().await.unwrap();
    let this = Notification::WakeUp(fixture.shard.clone());
    fixture.push_job(job_in("first", 60), IfExists::Reject).await;
    assert_eq!(next(&mut listener).await, this);
    fixture.push_job(job_in("later", 90), IfExists::Reject).await;
    silent(&fixture, &mut listener).await;
    fixture.push_job(job_in("earlier", 30), IfExists::Reject).await;
    assert_eq!(next(&mut listener).await, this);
    assert_eq!(fixture.snapshot().wake(), Some(fixture.snapshot().pending[b"earlier".as_slice()]));
    fixture.push("now").await;
    assert_eq!(next(&mut listener).await, this);
    // Pushes that change nothing send no wake-up.
    fixture.push_job(job("now"), IfExists::Keep).await;
    silent(&fixture, &mut listener).await;
}

#[tokio::test]
async fn one_wake_a_batch_with_its_earliest() {
    let fixture = Fixture::new().await;
    let mut listener = fixture.queue.listen().await.unwrap();
    let batch = [job_in("a", 60), job_in("b", 20), job_in("c", 40)];
    fixture.push_many(&batch, IfExists::Reject).await;
    assert_eq!(next(&mut listener).await, Notification::WakeUp(fixture.shard.clone()));
    silent(&fixture, &mut listener).await;
    assert_eq!(fixture.snapshot().wake(), Some(fixture.snapshot().pending[b"b".as_slice()]));
}

#[tokio::test]
async fn after_promoting_the_next_push_wakes_again() {
    let fixture = Fixture::new().await;
    let mut listener = fixture.queue.listen().await.unwrap();
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
        assert_eq!(next(&mut listener).await, Notification::WakeUp(fixture.shard.clone()));
        fixture.promote().await;
    }
}

#[tokio::test]
async fn requeue_and_reschedule_wake_too() {
    let fixture = Fixture::new().await;
    fixture.push("dead").await;
    let lease = fixture.lease_only("dead").await;
    fixture.settle(lease, drop_it()).await;
    fixture.push_job(job_in("pending", 600), IfExists::Reject).await;
    fixture.promote().await;

    let mut listener = fixture.queue.listen().await.unwrap();
    let this = Notification::WakeUp(fixture.shard.clone());
    let sooner = Due::In(Duration::from_secs(300));
    fixture.queue.reschedule(&fixture.topic, &id("pending"), sooner).await.unwrap();
    assert_eq!(next(&mut listener).await, this);
    let later = Due::In(Duration::from_secs(900));
    fixture.queue.reschedule(&fixture.topic, &id("pending"), later).await.unwrap();
    silent(&fixture, &mut listener).await;
    fixture.queue.requeue(&fixture.topic, &[id("dead")]).await.unwrap();
    assert_eq!(next(&mut listener).await, this);
}

#[tokio::test]
async fn a_due_successor_wakes_nobody() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.promote().await;
    fixture.lease_only("a").await;
    let mut listener = fixture.queue.listen().await.unwrap();
    fixture.push_job(job("a"), IfExists::Replace).await;
    fixture.queue.reschedule(&fixture.topic, &id("a"), Due::Now).await.unwrap();
    silent(&fixture, &mut listener).await;
    // One due later does: by then the lease may have ended.
    fixture.push_job(job_in("a", 60), IfExists::Replace).await;
    assert_eq!(next(&mut listener).await, Notification::WakeUp(fixture.shard.clone()));
}

/// A runner leases what is ready and promotes. Then only the end of the lease can wake a sleeping one.
async fn leased(fixture: &Fixture, name: &str) -> (Lease, Listener) {
    fixture.push(name).await;
    let lease = fixture.lease_only(name).await;
    fixture.promote().await;
    (lease, fixture.queue.listen().await.unwrap())
}

#[tokio::test]
async fn a_released_or_failed_job_wakes_for_its_next_attempt() {
    let later = Verdict::Release { delay: Duration::from_secs(60) };
    for verdict in [release(), later, nack()] {
        let fixture = Fixture::new().await;
        let (lease, mut listener) = leased(&fixture, "a").await;
        fixture.settle(lease, verdict).await;
        assert_eq!(next(&mut listener).await, Notification::WakeUp(fixture.shard.clone()));
        let after = fixture.snapshot();
        let due = after.retry.get(b"a".as_slice()).copied();
        assert!(after.wake().unwrap() <= due.unwrap_or((after.now_us / 1_000) as f64));
    }
}

#[tokio::test]
async fn the_end_of_a_lease_wakes_for_the_due_successor() {
    for end in ["ack", "nack", "reclaim", "again"] {
        let fixture = Fixture::new().await;
        fixture.push("a").await;
        let leased_by = call(1);
        let Leased::Jobs(mut jobs) = fixture.lease(&leased_by).await else { panic!("a is ready") };
        fixture.promote().await;
        let mut listener = fixture.queue.listen().await.unwrap();
        fixture.push_job(job("a"), IfExists::Replace).await;
        let mut lease = jobs.leases.remove(0);
        match end {
            "ack" => drop(fixture.settle(lease, Verdict::Ack).await),
            "nack" => drop(fixture.settle(lease, nack()).await),
            "again" => drop(fixture.lease(&leased_by).await),
            _ => {
                fixture.advance(LEASE, &mut [&mut lease]);
                fixture.reclaim().await;
            }
        }
        assert_eq!(next(&mut listener).await, Notification::WakeUp(fixture.shard.clone()), "{end}");
        assert_eq!(fixture.promote().await.moved, 1, "{end}");
    }
}

#[tokio::test]
async fn a_reclaimed_job_wakes_for_its_next_attempt() {
    let fixture = Fixture::new().await;
    let (mut lease, mut listener) = leased(&fixture, "a").await;
    fixture.advance(LEASE, &mut [&mut lease]);
    fixture.reclaim().await;
    assert_eq!(next(&mut listener).await, Notification::WakeUp(fixture.shard.clone()));
}

async fn peek(fixture: &Fixture) -> Option<Duration> {
    fixture.queue.peek(std::slice::from_ref(&fixture.shard)).await.unwrap().remove(0).unwrap()
}

#[tokio::test]
async fn peek_sees_work_without_changing_anything() {
    let fixture = Fixture::new().await;
    assert_eq!(peek(&fixture).await, None);

    fixture.plain_push("pending", "p", fixture.now_ms() + 60_000);
    let before = fixture.snapshot().state();
    let wait = peek(&fixture).await.unwrap();
    assert!(wait > Duration::ZERO && wait <= Duration::from_secs(60), "{wait:?}");
    assert_eq!(fixture.snapshot().state(), before);

    fixture.advance(Duration::from_secs(60), &mut []);
    assert_eq!(peek(&fixture).await, Some(Duration::ZERO), "a plain push that is due");
    fixture.promote().await;
    assert_eq!(peek(&fixture).await, Some(Duration::ZERO), "a ready one");
    fixture.on_key("HSET", "meta", &["paused", "1"]);
    assert_eq!(peek(&fixture).await, None, "a ready one of a paused topic");
    fixture.on_key("HDEL", "meta", &["paused"]);

    let lease = fixture.lease_only("pending").await;
    let wait = peek(&fixture).await.unwrap();
    assert!(wait > Duration::ZERO && wait <= LEASE, "a lease to expire: {wait:?}");
    fixture.settle(lease, nack()).await;
    let wait = peek(&fixture).await.unwrap();
    assert!(wait > LEASE && wait <= BACKOFF, "a retry: {wait:?}");
}

#[tokio::test]
async fn peek_sees_due_times_that_are_none() {
    for due in ["-5", "1763740800", "1763740800000000", "+inf"] {
        let fixture = Fixture::new().await;
        fixture.plain_push("a", "p", due);
        assert_eq!(peek(&fixture).await, Some(Duration::ZERO), "{due}");
        fixture.promote().await;
        assert_eq!(peek(&fixture).await, None, "{due}");
    }
}

#[tokio::test]
async fn depths_count_each_state() {
    let fixture = Fixture::new().await;
    let now = fixture.now_ms();
    for name in ["dead", "retry", "leased"] {
        fixture.push(name).await;
        let lease = fixture.lease_only(name).await;
        match name {
            "dead" => drop(fixture.settle(lease, drop_it()).await),
            "retry" => drop(fixture.settle(lease, nack()).await),
            _ => {}
        }
    }
    fixture.push_job(job_in("pending", 30), IfExists::Reject).await;
    fixture.push("ready").await;
    let depths =
        fixture.queue.depths(std::slice::from_ref(&fixture.topic)).await.unwrap().remove(0);
    let counts = [depths.pending, depths.ready, depths.unack, depths.retry, depths.dead];
    assert_eq!(counts, [1; 5]);
    let after = fixture.snapshot();
    assert_eq!(depths.oldest_ready_ms.unwrap() as f64, after.ready[b"ready".as_slice()]);
    assert_eq!(depths.next_due_ms.unwrap() as f64, after.pending[b"pending".as_slice()]);
    assert!((now..=after.now_us / 1_000).contains(&depths.now_ms));
}

#[tokio::test]
async fn a_watched_shard_reports_its_next_change_once() {
    only_on_one_server!("a cluster has its keys on several servers, and watches none");
    let fixture = Fixture::new().await;
    let mut listener = fixture.queue.listen().await.unwrap();
    let watch = listener.watch().expect("this server tracks keys");
    let changed = Notification::Changed(vec![fixture.shard.clone()]);
    for id in ["a", "b"] {
        watch.begin(std::slice::from_ref(&fixture.shard)).await.unwrap();
        fixture.plain_push(id, "p", 0);
        assert_eq!(next(&mut listener).await, changed, "{id}");
    }
    fixture.plain_push("c", "p", 0);
    silent(&fixture, &mut listener).await;
    // Whether it is paused decides what a look finds.
    watch.begin(std::slice::from_ref(&fixture.shard)).await.unwrap();
    fixture.on_key("HSET", "meta", &["paused", "1"]);
    assert_eq!(next(&mut listener).await, changed);
}

#[tokio::test]
async fn a_redis_that_is_emptied_ends_what_it_was_to_report() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    let mut listener = fixture.queue.listen().await.unwrap();
    let watch = listener.watch().expect("this server tracks keys");
    watch.begin(std::slice::from_ref(&fixture.shard)).await.unwrap();
    server.cli(&["FLUSHALL"]);
    assert_eq!(next(&mut listener).await, Notification::Lost);
    drop(listener);
    assert!(watch.check().await.is_err(), "it ends with its listener");
}

#[tokio::test]
async fn a_user_who_may_not_track_keys_hears_wake_ups() {
    let server = RedisServer::start();
    let rules = Role::Daemon.acl_rules("duebox");
    let all = ["ACL", "SETUSER", "worker", "on", ">secret"].into_iter();
    let all = all.chain(rules.split(' ')).chain(["-client|tracking"]);
    server.cli(&all.collect::<Vec<_>>());
    let url = format!("redis://worker:secret@127.0.0.1:{}", server.port());
    let queue = Queue::connect(&ConnectionSettings::new(url), "duebox").await.unwrap();
    let mut listener = queue.listen().await.unwrap();
    assert!(listener.watch().is_none());
    let topic = TopicName::new("mail").unwrap();
    queue.push(&topic, &[job("a")], IfExists::Reject).await.unwrap();
    assert_eq!(next(&mut listener).await, Notification::WakeUp(topic.first_shard()));
}
