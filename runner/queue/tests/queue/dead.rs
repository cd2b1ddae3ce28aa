//! Dead jobs: requeue and prune.

use std::time::Duration;

use duebox_job::Options;
use duebox_queue::Requeued::{Exists, None, Ok};
use duebox_queue::{IfExists, NewJob, Settled};

use crate::ground::{BACKOFF, Ground, drop_it, id, job, job_in, nack};
use crate::snapshot::ids;

/// Jobs that were dropped a second apart, the first of them longest ago.
async fn dead(ground: &Ground, names: &[&str]) {
    for name in names {
        let options = Options::default().with_max_attempts(2);
        ground.push_job(NewJob { options, ..job(name) }, IfExists::Reject).await;
        let lease = ground.lease_only(name).await;
        assert_eq!(ground.settle(lease, drop_it()).await, Settled::Dead);
        ground.advance(Duration::from_secs(1), &mut []);
    }
}

#[tokio::test]
async fn a_requeued_job_starts_anew() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let lease = ground.lease_only("a").await;
    ground.settle(lease, nack()).await;
    ground.advance(BACKOFF, &mut []);
    ground.promote().await;
    let lease = ground.lease_only("a").await;
    assert_eq!(lease.failures, 1);
    assert_eq!(ground.settle(lease, drop_it()).await, Settled::Dead);

    let before = ground.now_ms();
    assert_eq!(ground.queue.requeue(&ground.topic, &[id("a")]).await.unwrap(), [Ok]);
    let after = ground.snapshot();
    assert!(after.ready[b"a".as_slice()] >= before as f64);
    assert!(after.dead.is_empty() && after.dead_jobs.is_empty() && after.dead_info.is_empty());
    let lease = ground.lease_only("a").await;
    assert_eq!((lease.failures, lease.payload.as_ref()), (0, b"a".as_slice()));
}

#[tokio::test]
async fn what_lives_again_stays_dead_in_every_stage() {
    let ground = Ground::new().await;
    let names = ["leased", "pending", "plain", "ready", "retry"];
    dead(&ground, &names).await;
    ground.push("leased").await;
    ground.lease_only("leased").await;
    ground.push("retry").await;
    let lease = ground.lease_only("retry").await;
    ground.settle(lease, nack()).await;
    ground.push_job(job_in("pending", 60), IfExists::Reject).await;
    ground.plain_push("plain", "newer", 0);
    ground.push("ready").await;
    let before = ground.snapshot().state();
    let all = names.map(id);
    assert_eq!(ground.queue.requeue(&ground.topic, &all).await.unwrap(), [Exists; 5]);
    assert_eq!(ground.snapshot().state(), before);
    // A lease without a payload, cancelled, is a lease all the same.
    ground.queue.cancel(&ground.topic, &id("leased")).await.unwrap();
    assert_eq!(ground.queue.requeue(&ground.topic, &[id("leased")]).await.unwrap(), [Exists]);
}

#[tokio::test]
async fn a_batch_of_requeues_answers_each() {
    let ground = Ground::new().await;
    dead(&ground, &["a", "b"]).await;
    ground.push("b").await;
    let all = ["a", "b", "nobody", "a"].map(id);
    assert_eq!(ground.queue.requeue(&ground.topic, &all).await.unwrap(), [Ok, Exists, None, None]);
    assert_eq!(ids(&ground.snapshot().opts), ["a"]);
    assert_eq!(ids(&ground.snapshot().dead), ["b"]);
}

#[tokio::test]
async fn pruning_goes_by_age_by_count_or_by_id() {
    let ground = Ground::new().await;
    dead(&ground, &["a", "b", "c", "d", "e"]).await;
    ground.push_job(job_in("a", 60), IfExists::Reject).await;
    let live = ground.snapshot();
    // a died five seconds ago, e one second ago.
    let age = Duration::from_millis(3_500);
    assert_eq!(ground.queue.prune_older(&ground.topic, age).await.unwrap(), 2);
    assert_eq!(ids(&ground.snapshot().dead), ["c", "d", "e"]);
    assert_eq!(ground.queue.prune_older(&ground.topic, age).await.unwrap(), 0);

    assert_eq!(ground.queue.prune_above(&ground.topic, 2).await.unwrap(), 1);
    assert_eq!(ids(&ground.snapshot().dead), ["d", "e"]);
    assert_eq!(ground.queue.prune_above(&ground.topic, 2).await.unwrap(), 0);

    let named = ["e", "a", "nobody"].map(id);
    assert_eq!(ground.queue.prune(&ground.topic, &named).await.unwrap(), 1);
    let after = ground.snapshot();
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
    assert_eq!(ground.queue.prune_above(&ground.topic, 0).await.unwrap(), 1);
    assert!(ground.snapshot().dead_jobs.is_empty());
}

#[tokio::test]
async fn the_dead_of_right_now_are_not_older_than_now() {
    let ground = Ground::new().await;
    dead(&ground, &["a"]).await;
    assert_eq!(ground.queue.prune_older(&ground.topic, Duration::from_secs(60)).await.unwrap(), 0);
    assert_eq!(ground.queue.prune_older(&ground.topic, Duration::ZERO).await.unwrap(), 1);
}
