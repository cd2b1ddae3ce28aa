//! Promote: what moves, in which order, what is passed over, and what comes next.

use std::time::Duration;

use duebox_queue::{Due, IfExists, NewJob, Settled};

use crate::fixture::{BACKOFF, Fixture, id, job, job_in, nack};
use crate::snapshot::ids;

/// Jobs that have failed once and wait in retry.
async fn failed(fixture: &Fixture, names: &[&str]) {
    for name in names {
        fixture.push(name).await;
    }
    for lease in fixture.lease_up_to(names.len()).await {
        assert_eq!(fixture.settle(lease, nack()).await, Settled::Retry);
    }
}

#[tokio::test]
async fn due_jobs_move_under_their_due_time_and_others_stay() {
    let fixture = Fixture::new().await;
    let due = fixture.now_ms() - 500;
    fixture.plain_push("due", "p", due);
    fixture.plain_push("half", "p", format!("{}.5", due + 1));
    fixture.push_job(job_in("later", 60), IfExists::Reject).await;
    failed(&fixture, &["retried"]).await;

    let promoted = fixture.promote().await;
    assert_eq!((promoted.moved, promoted.more), (2, false));
    let after = fixture.snapshot();
    assert_eq!(after.ready[b"due".as_slice()], due as f64);
    assert_eq!(after.ready[b"half".as_slice()], due as f64 + 1.5);
    assert_eq!(
        (ids(&after.pending), ids(&after.retry)),
        (vec!["later".into()], vec!["retried".into()])
    );

    fixture.advance(BACKOFF, &mut []);
    assert_eq!(fixture.promote().await.moved, 2);
    assert_eq!(ids(&fixture.snapshot().ready), ["due", "half", "later", "retried"]);
    assert_eq!(ids(&fixture.snapshot().attempts), ["retried"], "a retry keeps its attempts");
}

#[tokio::test]
async fn retries_get_at_most_half_so_that_neither_starves_the_other() {
    let fixture = Fixture::new().await;
    failed(&fixture, &["r1", "r2", "r3", "r4"]).await;
    fixture.advance(BACKOFF, &mut []);
    for name in ["p1", "p2", "p3", "p4"] {
        fixture.plain_push(name, "p", 0);
    }
    let promoted = fixture.promote_some(4, 0).await;
    assert_eq!((promoted.moved, promoted.more), (4, true));
    assert_eq!((fixture.snapshot().retry.len(), fixture.snapshot().pending.len()), (2, 2));
    let mut calls = 0;
    while fixture.promote_some(1, 0).await.more {
        calls += 1;
        assert!(calls < 10, "promoting one by one comes to an end");
    }
    assert_eq!(fixture.snapshot().ready.len(), 8);
}

#[tokio::test]
async fn a_call_handles_no_more_than_it_was_asked_for() {
    let fixture = Fixture::new().await;
    for i in 0..12_u64 {
        fixture.plain_push(&format!("good-{i}"), "p", 0);
        fixture.plain_push(&format!("low-{i}"), "p", 7 + i);
        fixture.plain_push(&format!("high-{i}"), "p", 1_763_740_800_000_000 + i);
    }
    let promoted = fixture.promote_some(10, 0).await;
    assert_eq!(promoted.bad, 11, "all ten of one kind, and one that they do not hide");
    assert!(promoted.more && promoted.moved <= 2, "{promoted:?}");
    let mut bad = promoted.bad;
    for _ in 0..9 {
        let promoted = fixture.promote_some(10, 0).await;
        assert!(promoted.moved + promoted.bad <= 13, "{promoted:?}");
        bad += promoted.bad;
        if !promoted.more {
            break;
        }
    }
    assert_eq!(bad, 24);
    assert_eq!(fixture.snapshot().ready.len(), 12);
    assert!(fixture.snapshot().pending.is_empty());
}

#[tokio::test]
async fn a_bad_due_time_spares_the_attempts_of_a_lease_and_no_others() {
    let fixture = Fixture::new().await;
    failed(&fixture, &["leased", "waiting"]).await;
    fixture.queue.reschedule(&fixture.topic, &id("leased"), Due::Now).await.unwrap();
    fixture.lease_only("leased").await;
    fixture.plain_push("leased", "p", 5);
    fixture.plain_push("waiting", "p", 5);
    assert_eq!(fixture.promote().await.bad, 2);
    let after = fixture.snapshot();
    assert_eq!(ids(&after.attempts), ["leased"]);
    assert!(after.retry.is_empty() && after.jobs.is_empty());
    assert_eq!(ids(&after.dead), ["leased", "waiting"]);
}

#[tokio::test]
async fn skipped_successors_keep_their_due_time() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.lease_only("a").await;
    let due = fixture.now_ms() - 7_000;
    fixture.push_job(NewJob { due: Due::At(due), ..job("a") }, IfExists::Replace).await;
    let promoted = fixture.promote_some(1, 0).await;
    assert_eq!((promoted.moved, promoted.skipped, promoted.more), (0, 1, true));
    let promoted = fixture.promote_some(1, 1).await;
    assert_eq!((promoted.moved, promoted.skipped, promoted.more), (0, 0, false));
    assert_eq!(fixture.snapshot().pending[b"a".as_slice()], due as f64);
}

#[tokio::test]
async fn what_comes_next_is_answered_and_stored() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.promote().await.next_due_in, None);
    assert_eq!(fixture.snapshot().wake(), None);

    fixture.push_job(job_in("late", 600), IfExists::Reject).await;
    failed(&fixture, &["retried"]).await;
    let next = fixture.promote().await.next_due_in.unwrap();
    assert!(next <= BACKOFF && next > BACKOFF / 2, "{next:?}");
    assert_eq!(fixture.snapshot().wake(), Some(fixture.snapshot().retry[b"retried".as_slice()]));

    fixture.advance(BACKOFF, &mut []);
    let next = fixture.promote().await.next_due_in.unwrap();
    assert!(next > Duration::from_secs(300), "{next:?}");
    assert_eq!(fixture.snapshot().wake(), Some(fixture.snapshot().pending[b"late".as_slice()]));

    fixture.queue.cancel(&fixture.topic, &id("late")).await.unwrap();
    assert_eq!(fixture.promote().await.next_due_in, None);
    assert_eq!(fixture.snapshot().wake(), None);
}

#[tokio::test]
async fn a_due_successor_of_a_lease_is_nothing_to_wake_for() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.promote().await;
    fixture.lease_only("a").await;
    fixture.push_job(job("a"), IfExists::Replace).await;
    assert_eq!(fixture.snapshot().wake(), None);
    fixture.push_job(job_in("a", 60), IfExists::Replace).await;
    assert!(fixture.snapshot().wake().is_some(), "a later one is");
    fixture.advance(Duration::from_secs(60), &mut []);
    assert_eq!(fixture.promote().await.next_due_in, None);
    assert_eq!(fixture.snapshot().wake(), None);
}
