//! Promote: what moves, in which order, what is passed over, and what comes next.

use std::time::Duration;

use duebox_queue::{Due, IfExists, NewJob, Settled};

use crate::ground::{BACKOFF, Ground, id, job, job_in, nack};
use crate::snapshot::ids;

/// Jobs that have failed once and wait in retry.
async fn failed(ground: &Ground, names: &[&str]) {
    for name in names {
        ground.push(name).await;
    }
    for lease in ground.lease_up_to(names.len()).await {
        assert_eq!(ground.settle(lease, nack()).await, Settled::Retry);
    }
}

#[tokio::test]
async fn due_jobs_move_under_their_due_time_and_others_stay() {
    let ground = Ground::new().await;
    let due = ground.now_ms() - 500;
    ground.plain_push("due", "p", due);
    ground.plain_push("half", "p", format!("{}.5", due + 1));
    ground.push_job(job_in("later", 60), IfExists::Reject).await;
    failed(&ground, &["retried"]).await;

    let promoted = ground.promote().await;
    assert_eq!((promoted.moved, promoted.more), (2, false));
    let after = ground.snapshot();
    assert_eq!(after.ready[b"due".as_slice()], due as f64);
    assert_eq!(after.ready[b"half".as_slice()], due as f64 + 1.5);
    assert_eq!(
        (ids(&after.pending), ids(&after.retry)),
        (vec!["later".into()], vec!["retried".into()])
    );

    ground.advance(BACKOFF, &mut []);
    assert_eq!(ground.promote().await.moved, 2);
    assert_eq!(ids(&ground.snapshot().ready), ["due", "half", "later", "retried"]);
    assert_eq!(ids(&ground.snapshot().attempts), ["retried"], "a retry keeps its attempts");
}

#[tokio::test]
async fn retries_get_at_most_half_so_that_neither_starves_the_other() {
    let ground = Ground::new().await;
    failed(&ground, &["r1", "r2", "r3", "r4"]).await;
    ground.advance(BACKOFF, &mut []);
    for name in ["p1", "p2", "p3", "p4"] {
        ground.plain_push(name, "p", 0);
    }
    let promoted = ground.promote_some(4, 0).await;
    assert_eq!((promoted.moved, promoted.more), (4, true));
    assert_eq!((ground.snapshot().retry.len(), ground.snapshot().pending.len()), (2, 2));
    let mut calls = 0;
    while ground.promote_some(1, 0).await.more {
        calls += 1;
        assert!(calls < 10, "promoting one by one comes to an end");
    }
    assert_eq!(ground.snapshot().ready.len(), 8);
}

#[tokio::test]
async fn a_call_handles_no_more_than_it_was_asked_for() {
    let ground = Ground::new().await;
    for i in 0..12_u64 {
        ground.plain_push(&format!("good-{i}"), "p", 0);
        ground.plain_push(&format!("low-{i}"), "p", 7 + i);
        ground.plain_push(&format!("high-{i}"), "p", 1_763_740_800_000_000 + i);
    }
    let promoted = ground.promote_some(10, 0).await;
    assert_eq!(promoted.bad, 11, "all ten of one kind, and one that they do not hide");
    assert!(promoted.more && promoted.moved <= 2, "{promoted:?}");
    let mut bad = promoted.bad;
    for _ in 0..9 {
        let promoted = ground.promote_some(10, 0).await;
        assert!(promoted.moved + promoted.bad <= 13, "{promoted:?}");
        bad += promoted.bad;
        if !promoted.more {
            break;
        }
    }
    assert_eq!(bad, 24);
    assert_eq!(ground.snapshot().ready.len(), 12);
    assert!(ground.snapshot().pending.is_empty());
}

#[tokio::test]
async fn a_bad_due_time_spares_the_attempts_of_a_lease_and_no_others() {
    let ground = Ground::new().await;
    failed(&ground, &["leased", "waiting"]).await;
    ground.queue.reschedule(&ground.topic, &id("leased"), Due::Now).await.unwrap();
    ground.lease_only("leased").await;
    ground.plain_push("leased", "p", 5);
    ground.plain_push("waiting", "p", 5);
    assert_eq!(ground.promote().await.bad, 2);
    let after = ground.snapshot();
    assert_eq!(ids(&after.attempts), ["leased"]);
    assert!(after.retry.is_empty() && after.jobs.is_empty());
    assert_eq!(ids(&after.dead), ["leased", "waiting"]);
}

#[tokio::test]
async fn skipped_successors_keep_their_due_time() {
    let ground = Ground::new().await;
    ground.push("a").await;
    ground.lease_only("a").await;
    let due = ground.now_ms() - 7_000;
    ground.push_job(NewJob { due: Due::At(due), ..job("a") }, IfExists::Replace).await;
    let promoted = ground.promote_some(1, 0).await;
    assert_eq!((promoted.moved, promoted.skipped, promoted.more), (0, 1, true));
    let promoted = ground.promote_some(1, 1).await;
    assert_eq!((promoted.moved, promoted.skipped, promoted.more), (0, 0, false));
    assert_eq!(ground.snapshot().pending[b"a".as_slice()], due as f64);
}

#[tokio::test]
async fn what_comes_next_is_answered_and_stored() {
    let ground = Ground::new().await;
    assert_eq!(ground.promote().await.next_due_in, None);
    assert_eq!(ground.snapshot().wake(), None);

    ground.push_job(job_in("late", 600), IfExists::Reject).await;
    failed(&ground, &["retried"]).await;
    let next = ground.promote().await.next_due_in.unwrap();
    assert!(next <= BACKOFF && next > BACKOFF / 2, "{next:?}");
    assert_eq!(ground.snapshot().wake(), Some(ground.snapshot().retry[b"retried".as_slice()]));

    ground.advance(BACKOFF, &mut []);
    let next = ground.promote().await.next_due_in.unwrap();
    assert!(next > Duration::from_secs(300), "{next:?}");
    assert_eq!(ground.snapshot().wake(), Some(ground.snapshot().pending[b"late".as_slice()]));

    ground.queue.cancel(&ground.topic, &id("late")).await.unwrap();
    assert_eq!(ground.promote().await.next_due_in, None);
    assert_eq!(ground.snapshot().wake(), None);
}

#[tokio::test]
async fn a_due_successor_of_a_lease_is_nothing_to_wake_for() {
    let ground = Ground::new().await;
    ground.push("a").await;
    ground.promote().await;
    ground.lease_only("a").await;
    ground.push_job(job("a"), IfExists::Replace).await;
    assert_eq!(ground.snapshot().wake(), None);
    ground.push_job(job_in("a", 60), IfExists::Replace).await;
    assert!(ground.snapshot().wake().is_some(), "a later one is");
    ground.advance(Duration::from_secs(60), &mut []);
    assert_eq!(ground.promote().await.next_due_in, None);
    assert_eq!(ground.snapshot().wake(), None);
}
