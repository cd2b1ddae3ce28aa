//! Waking a sleeping runner, and looking how soon there is work.

use std::time::Duration;

use duebox_harness::patience;
use duebox_job::TopicName;
use duebox_queue::{Due, IfExists, Wake, WakeListener};

use crate::ground::{BACKOFF, Ground, LEASE, drop_it, id, job, job_in, nack};

async fn next(listener: &mut WakeListener) -> Wake {
    tokio::time::timeout(patience(), listener.next()).await.unwrap()
}

/// Nothing was heard: a push to another topic, made after all that should be silent, comes first.
async fn silent(ground: &Ground, listener: &mut WakeListener) {
    let other = TopicName::new("other").unwrap();
    ground.queue.push(&other, &[job("marker")], IfExists::Keep).await.unwrap();
    assert_eq!(next(listener).await, Wake::Topic(other.clone()), "this topic was silent");
    // Its job and its wake go, so that the next marker wakes again.
    ground.queue.cancel(&other, &id("marker")).await.unwrap();
    let promote = Some(duebox_queue::Promotion { jobs: 1, skip: 0, discards_bad: false });
    let turn = duebox_queue::Turn { promote, ..Default::default() };
    ground.queue.turn(&other, &turn).await.unwrap();
}

#[tokio::test]
async fn an_earlier_push_wakes_and_a_later_one_does_not() {
    let ground = Ground::new().await;
    let mut listener = ground.queue.listen().await.unwrap();
    let this = Wake::Topic(ground.topic.clone());
    ground.push_job(job_in("first", 60), IfExists::Reject).await;
    assert_eq!(next(&mut listener).await, this);
    ground.push_job(job_in("later", 90), IfExists::Reject).await;
    silent(&ground, &mut listener).await;
    ground.push_job(job_in("earlier", 30), IfExists::Reject).await;
    assert_eq!(next(&mut listener).await, this);
    assert_eq!(ground.snapshot().wake(), Some(ground.snapshot().pending[b"earlier".as_slice()]));
    ground.push("now").await;
    assert_eq!(next(&mut listener).await, this);
    // Pushes that change nothing wake nobody.
    ground.push_job(job("now"), IfExists::Keep).await;
    silent(&ground, &mut listener).await;
}

#[tokio::test]
async fn one_wake_a_batch_with_its_earliest() {
    let ground = Ground::new().await;
    let mut listener = ground.queue.listen().await.unwrap();
    let batch = [job_in("a", 60), job_in("b", 20), job_in("c", 40)];
    ground.push_many(&batch, IfExists::Reject).await;
    assert_eq!(next(&mut listener).await, Wake::Topic(ground.topic.clone()));
    silent(&ground, &mut listener).await;
    assert_eq!(ground.snapshot().wake(), Some(ground.snapshot().pending[b"b".as_slice()]));
}

#[tokio::test]
async fn after_promoting_the_next_push_wakes_again() {
    let ground = Ground::new().await;
    let mut listener = ground.queue.listen().await.unwrap();
    for name in ["a", "b", "c"] {
        ground.push(name).await;
        assert_eq!(next(&mut listener).await, Wake::Topic(ground.topic.clone()));
        ground.promote().await;
    }
}

#[tokio::test]
async fn requeue_and_reschedule_wake_too() {
    let ground = Ground::new().await;
    ground.push("dead").await;
    let lease = ground.lease_only("dead").await;
    ground.settle(lease, drop_it()).await;
    ground.push_job(job_in("pending", 600), IfExists::Reject).await;
    ground.promote().await;

    let mut listener = ground.queue.listen().await.unwrap();
    let this = Wake::Topic(ground.topic.clone());
    let sooner = Due::In(Duration::from_secs(300));
    ground.queue.reschedule(&ground.topic, &id("pending"), sooner).await.unwrap();
    assert_eq!(next(&mut listener).await, this);
    let later = Due::In(Duration::from_secs(900));
    ground.queue.reschedule(&ground.topic, &id("pending"), later).await.unwrap();
    silent(&ground, &mut listener).await;
    ground.queue.requeue(&ground.topic, &[id("dead")]).await.unwrap();
    assert_eq!(next(&mut listener).await, this);
}

#[tokio::test]
async fn a_due_successor_wakes_nobody() {
    let ground = Ground::new().await;
    ground.push("a").await;
    ground.promote().await;
    ground.lease_only("a").await;
    let mut listener = ground.queue.listen().await.unwrap();
    ground.push_job(job("a"), IfExists::Replace).await;
    ground.queue.reschedule(&ground.topic, &id("a"), Due::Now).await.unwrap();
    silent(&ground, &mut listener).await;
    // One due later does: by then the lease may have ended.
    ground.push_job(job_in("a", 60), IfExists::Replace).await;
    assert_eq!(next(&mut listener).await, Wake::Topic(ground.topic.clone()));
}

async fn peek(ground: &Ground) -> Option<Duration> {
    ground.queue.peek(std::slice::from_ref(&ground.topic)).await.unwrap()[0]
}

#[tokio::test]
async fn peek_sees_work_without_changing_anything() {
    let ground = Ground::new().await;
    assert_eq!(peek(&ground).await, None);

    ground.plain_push("pending", "p", ground.now_ms() + 60_000);
    let before = ground.snapshot().state();
    let wait = peek(&ground).await.unwrap();
    assert!(wait > Duration::ZERO && wait <= Duration::from_secs(60), "{wait:?}");
    assert_eq!(ground.snapshot().state(), before);

    ground.advance(Duration::from_secs(60), &mut []);
    assert_eq!(peek(&ground).await, Some(Duration::ZERO), "a plain push that is due");
    ground.promote().await;
    assert_eq!(peek(&ground).await, Some(Duration::ZERO), "a ready one");
    ground.on_key("HSET", "meta", &["paused", "1"]);
    assert_eq!(peek(&ground).await, None, "a ready one of a paused topic");
    ground.on_key("HDEL", "meta", &["paused"]);

    let lease = ground.lease_only("pending").await;
    let wait = peek(&ground).await.unwrap();
    assert!(wait > Duration::ZERO && wait <= LEASE, "a lease to expire: {wait:?}");
    ground.settle(lease, nack()).await;
    let wait = peek(&ground).await.unwrap();
    assert!(wait > LEASE && wait <= BACKOFF, "a retry: {wait:?}");
}

#[tokio::test]
async fn peek_sees_due_times_that_are_none() {
    for due in ["-5", "1763740800", "1763740800000000", "+inf"] {
        let ground = Ground::new().await;
        ground.plain_push("a", "p", due);
        assert_eq!(peek(&ground).await, Some(Duration::ZERO), "{due}");
        ground.promote().await;
        assert_eq!(peek(&ground).await, None, "{due}");
    }
}

#[tokio::test]
async fn depths_count_each_state() {
    let ground = Ground::new().await;
    let now = ground.now_ms();
    for name in ["dead", "retry", "leased"] {
        ground.push(name).await;
        let lease = ground.lease_only(name).await;
        match name {
            "dead" => drop(ground.settle(lease, drop_it()).await),
            "retry" => drop(ground.settle(lease, nack()).await),
            _ => {}
        }
    }
    ground.push_job(job_in("pending", 30), IfExists::Reject).await;
    ground.push("ready").await;
    let depths = ground.queue.depths(std::slice::from_ref(&ground.topic)).await.unwrap().remove(0);
    let counts = [depths.pending, depths.ready, depths.unack, depths.retry, depths.dead];
    assert_eq!(counts, [1; 5]);
    let after = ground.snapshot();
    assert_eq!(depths.oldest_ready_ms.unwrap() as f64, after.ready[b"ready".as_slice()]);
    assert_eq!(depths.next_due_ms.unwrap() as f64, after.pending[b"pending".as_slice()]);
    assert!((now..=after.now_us / 1_000).contains(&depths.now_ms));
}
