//! Dead jobs: requeue and prune.

use std::time::Duration;

use duebox_job::Options;
use duebox_queue::Requeued::{Exists, None, Ok};
use duebox_queue::{IfExists, NewJob, Settled};

use crate::fixture::{BACKOFF, Fixture, drop_it, id, job, job_in, nack};
use crate::snapshot::ids;

/// Jobs that were dropped a second apart, the first of them longest ago.
async fn dead(fixture: &Fixture, names: &[&str]) {
    for name in names {
        let options = Options::default().with_max_attempts(2);
        fixture.push_job(NewJob { options, ..job(name) }, IfExists::Reject).await;
        let lease = fixture.lease_only(name).await;
        assert_eq!(fixture.settle(lease, drop_it()).await, Settled::Dead);
        fixture.advance(Duration::from_secs(1), &mut []);
    }
}

#[tokio::test]
async fn a_requeued_job_starts_anew() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, nack()).await;
    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(lease.failures, 1);
    assert_eq!(fixture.settle(lease, drop_it()).await, Settled::Dead);

    let before = fixture.now_ms();
    assert_eq!(fixture.queue.requeue(&fixture.topic, &[id("a")]).await.unwrap(), [Ok]);
    let after = fixture.snapshot();
    assert!(after.ready[b"a".as_slice()] >= before as f64);
    assert!(after.dead.is_empty() && after.dead_jobs.is_empty() && after.dead_info.is_empty());
    let lease = fixture.lease_only("a").await;
    assert_eq!((lease.failures, lease.payload.as_ref()), (0, b"a".as_slice()));
}

#[tokio::test]
async fn what_lives_again_stays_dead_in_every_stage() {
    let fixture = Fixture::new().await;
    let names = ["leased", "pending", "plain", "ready", "retry"];
    dead(&fixture, &names).await;
    fixture.push("leased").await;
    fixture.lease_only("leased").await;
    fixture.push("retry").await;
    let lease = fixture.lease_only("retry").await;
    fixture.settle(lease, nack()).await;
    fixture.push_job(job_in("pending", 60), IfExists::Reject).await;
    fixture.plain_push("plain", "newer", 0);
    fixture.push("ready").await;
    let before = fixture.snapshot().state();
    let all = names.map(id);
    assert_eq!(fixture.queue.requeue(&fixture.topic, &all).await.unwrap(), [Exists; 5]);
    assert_eq!(fixture.snapshot().state(), before);
    // A lease without a payload, cancelled, is a lease all the same.
    fixture.queue.cancel(&fixture.topic, &id("leased")).await.unwrap();
    assert_eq!(fixture.queue.requeue(&fixture.topic, &[id("leased")]).await.unwrap(), [Exists]);
}

#[tokio::test]
async fn a_batch_of_requeues_answers_each() {
    let fixture = Fixture::new().await;
    dead(&fixture, &["a", "b"]).await;
    fixture.push("b").await;
    let all = ["a", "b", "nobody", "a"].map(id);
    assert_eq!(
        fixture.queue.requeue(&fixture.topic, &all).await.unwrap(),
        [Ok, Exists, None, None]
    );
    assert_eq!(ids(&fixture.snapshot().opts), ["a"]);
    assert_eq!(ids(&fixture.snapshot().dead), ["b"]);
}

#[tokio::test]
async fn pruning_goes_by_age_by_count_or_by_id() {
    let fixture = Fixture::new().await;
    dead(&fixture, &["a", "b", "c", "d", "e"]).await;
    fixture.push_job(job_in("a", 60), IfExists::Reject).await;
    let live = fixture.snapshot();
    // a died five seconds ago, e one second ago.
    let age = Duration::from_millis(3_500);
    assert_eq!(fixture.queue.prune_older(&fixture.shard, age).await.unwrap(), 2);
    assert_eq!(ids(&fixture.snapshot().dead), ["c", "d", "e"]);
    assert_eq!(fixture.queue.prune_older(&fixture.shard, age).await.unwrap(), 0);

    assert_eq!(fixture.queue.prune_above(&fixture.shard, 2).await.unwrap(), 1);
    assert_eq!(ids(&fixture.snapshot().dead), ["d", "e"]);
    assert_eq!(fixture.queue.prune_above(&fixture.shard, 2).await.unwrap(), 0);

    let named = ["e", "a", "nobody"].map(id);
    assert_eq!(fixture.queue.prune(&fixture.topic, &named).await.unwrap(), 1);
    let after = fixture.snapshot();
    for of_dead in
        [ids(&after.dead), ids(&after.dead_jobs), ids(&after.dead_opts), ids(&after.dead_info)]
    {
        assert_eq!(of_dead, ["d"]);
    }
    assert_eq!(
        (&after.jobs, &after.pending),
        (&live.jobs, &live.pending),
        "no live key is touched"
    );
    assert_eq!(fixture.queue.prune_above(&fixture.shard, 0).await.unwrap(), 1);
    assert!(fixture.snapshot().dead_jobs.is_empty());
}

#[tokio::test]
async fn the_dead_of_right_now_are_not_older_than_now() {
    let fixture = Fixture::new().await;
    dead(&fixture, &["a"]).await;
    assert_eq!(
        fixture.queue.prune_older(&fixture.shard, Duration::from_secs(60)).await.unwrap(),
        0
    );
    assert_eq!(fixture.queue.prune_older(&fixture.shard, Duration::ZERO).await.unwrap(), 1);
}
