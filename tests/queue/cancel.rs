//! Cancel and reschedule, in every state of an id.

use std::time::Duration;

use duebox_queue::{Cancelled, Due, IfExists, Rescheduled, Settled, Verdict};

use crate::fixture::{BACKOFF, Fixture, LEASE, id, job, job_in, nack};
use crate::snapshot::{Snapshot, ids};

/// A job of id `a`, brought into a state by name.
async fn put(fixture: &Fixture, state: &str) {
    if state == "none" {
        return;
    }
    if state == "pending" {
        fixture.push_job(job_in("a", 60), IfExists::Reject).await;
        return;
    }
    fixture.push("a").await;
    if state == "ready" {
        return;
    }
    let lease = fixture.lease_only("a").await;
    match state {
        "retry" | "retried" => {
            assert_eq!(fixture.settle(lease, nack()).await, Settled::Retry);
            if state == "retried" {
                fixture.advance(BACKOFF, &mut []);
                fixture.promote().await;
            }
        }
        "released" => {
            let delay = BACKOFF;
            assert_eq!(fixture.settle(lease, Verdict::Release { delay }).await, Settled::Released);
        }
        "followed" => fixture.plain_push("a", "newer", fixture.now_ms() + 60_000),
        "leased" => {}
        _ => panic!("no state {state}"),
    }
}

async fn cancel(fixture: &Fixture) -> Cancelled {
    fixture.queue.cancel(&fixture.topic, &id("a")).await.unwrap()
}

async fn reschedule(fixture: &Fixture, due: Due) -> Rescheduled {
    fixture.queue.reschedule(&fixture.topic, &id("a"), due).await.unwrap()
}

#[tokio::test]
async fn cancelling_leaves_nothing_that_waits() {
    for (state, expected) in [
        ("none", Cancelled::None),
        ("pending", Cancelled::Cancelled),
        ("ready", Cancelled::Cancelled),
        ("retry", Cancelled::Cancelled),
        ("retried", Cancelled::Cancelled),
        ("leased", Cancelled::Leased),
        ("followed", Cancelled::Leased),
    ] {
        let fixture = Fixture::new().await;
        put(&fixture, state).await;
        assert_eq!(cancel(&fixture).await, expected, "{state}");
        let after = fixture.snapshot();
        let waiting = [&after.pending, &after.ready, &after.retry].map(|stage| stage.len());
        assert_eq!(waiting, [0; 3], "{state}");
        assert!(after.jobs.is_empty() && after.opts.is_empty(), "{state}");
        assert!(after.attempts.is_empty(), "{state}");
        assert_eq!(after.unack.len(), usize::from(expected == Cancelled::Leased), "{state}");
        let again = if expected == Cancelled::Leased { Cancelled::Leased } else { Cancelled::None };
        assert_eq!(cancel(&fixture).await, again, "{state}");
    }
}

#[tokio::test]
async fn a_lease_keeps_its_attempts_when_it_is_cancelled_and_loses_them_at_its_end() {
    for crash in [false, true] {
        let fixture = Fixture::new().await;
        put(&fixture, "retried").await;
        let mut lease = fixture.lease_only("a").await;
        assert_eq!(cancel(&fixture).await, Cancelled::Leased);
        assert_eq!(ids(&fixture.snapshot().attempts), ["a"]);
        if crash {
            fixture.advance(LEASE, &mut [&mut lease]);
            assert_eq!(fixture.reclaim().await.jobs, [(id("a"), Settled::Cancelled)]);
        } else {
            assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
        }
        fixture.promote().await;
        assert_eq!(fixture.keys(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn many_are_cancelled_each_with_its_word() {
    let fixture = Fixture::new().await;
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
    }
    assert_eq!(fixture.lease_up_to(1).await[0].id, id("a"));
    let all = ["a", "b", "c", "nobody", "b"].map(id);
    let words = fixture.queue.cancel_many(&fixture.topic, &all).await.unwrap();
    use Cancelled::{Cancelled as Gone, Leased, None};
    assert_eq!(words, [Leased, Gone, Gone, None, None]);
}

#[tokio::test]
async fn running_now_is_ready_wherever_it_waits() {
    for (state, expected) in [
        ("none", Rescheduled::None),
        ("pending", Rescheduled::Ready),
        ("ready", Rescheduled::Ready),
        ("retry", Rescheduled::Ready),
        ("retried", Rescheduled::Ready),
        ("released", Rescheduled::Ready),
        ("leased", Rescheduled::Leased),
        ("followed", Rescheduled::Pending),
    ] {
        let fixture = Fixture::new().await;
        put(&fixture, state).await;
        let attempts = fixture.snapshot().attempts;
        assert_eq!(reschedule(&fixture, Due::Now).await, expected, "{state}");
        let after = fixture.snapshot();
        assert_eq!(after.attempts, attempts, "{state}");
        let waiting = [&after.pending, &after.ready, &after.retry].map(|stage| stage.len());
        match expected {
            Rescheduled::Ready => assert_eq!(waiting, [0, 1, 0], "{state}"),
            Rescheduled::Pending => assert_eq!(waiting, [1, 0, 0], "{state}"),
            _ => assert_eq!(waiting, [0; 3], "{state}"),
        }
    }
}

#[tokio::test]
async fn putting_off_depends_on_attempts() {
    for (state, expected) in [
        ("none", Rescheduled::None),
        ("pending", Rescheduled::Pending),
        ("ready", Rescheduled::Pending),
        ("retry", Rescheduled::Retry),
        ("retried", Rescheduled::Retry),
        ("released", Rescheduled::Pending),
        ("leased", Rescheduled::Leased),
        ("followed", Rescheduled::Pending),
    ] {
        let fixture = Fixture::new().await;
        put(&fixture, state).await;
        let before = fixture.snapshot();
        let due = before.now_us / 1_000 + 7_200_000;
        assert_eq!(reschedule(&fixture, Due::At(due)).await, expected, "{state}");
        let after = fixture.snapshot();
        let stage = match expected {
            Rescheduled::Pending => &after.pending,
            Rescheduled::Retry => &after.retry,
            _ => {
                assert_eq!(after.state(), before.state(), "{state}");
                continue;
            }
        };
        assert_eq!(stage[b"a".as_slice()], due as f64, "{state}");
        assert_eq!(after.pending.len() + after.ready.len() + after.retry.len(), 1, "{state}");
        assert_eq!(after.attempts, before.attempts, "{state}");
        assert_eq!(after.jobs, before.jobs, "{state}");
    }
}

#[tokio::test]
async fn a_bad_due_time_changes_nothing() {
    let fixture = Fixture::new().await;
    put(&fixture, "retry").await;
    let before = fixture.snapshot().state();
    for due in [1, 99_999_999_999, 100_000_000_000_001, u64::MAX] {
        assert_eq!(reschedule(&fixture, Due::At(due)).await, Rescheduled::BadDue);
    }
    assert_eq!(fixture.snapshot().state(), before);
}

#[tokio::test]
async fn the_newer_push_alone_is_rescheduled() {
    let fixture = Fixture::new().await;
    put(&fixture, "retried").await;
    fixture.plain_push("a", "newer", fixture.now_ms() + 60_000);
    assert_eq!(ids(&fixture.snapshot().ready), ["a"], "superseded there");
    let later = Due::In(Duration::from_secs(90));
    assert_eq!(reschedule(&fixture, later).await, Rescheduled::Pending);
    let after = fixture.snapshot();
    assert_eq!(ids(&after.pending), ["a"]);
    assert!(after.ready.is_empty() && after.attempts.is_empty());
    assert_eq!(reschedule(&fixture, Due::Now).await, Rescheduled::Ready);
    let lease = fixture.lease_only("a").await;
    assert_eq!((lease.payload.as_ref(), lease.failures), (b"newer".as_slice(), 0));
}

#[tokio::test]
async fn a_successor_is_rescheduled_in_pending_and_spares_the_lease() {
    let fixture = Fixture::new().await;
    put(&fixture, "retried").await;
    let lease = fixture.lease_only("a").await;
    fixture.push_job(job_in("a", 60), IfExists::Replace).await;
    assert_eq!(reschedule(&fixture, Due::Now).await, Rescheduled::Pending);
    assert_eq!(ids(&fixture.snapshot().attempts), ["a"]);
    assert_eq!(fixture.settle(lease, nack()).await, Settled::Superseded);
    fixture.promote().await;
    assert_eq!(fixture.lease_only("a").await.failures, 0);
    assert_eq!(Snapshot::text(&fixture.snapshot().jobs, "a"), "a");
}

#[tokio::test]
async fn a_job_rescheduled_in_ready_takes_its_new_place() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.advance(Duration::from_secs(9), &mut []);
    fixture.push_job(job("b"), IfExists::Reject).await;
    let last = Due::At(fixture.now_ms());
    fixture.queue.reschedule(&fixture.topic, &id("a"), last).await.unwrap();
    fixture.advance(Duration::from_secs(9), &mut []);
    let first = Due::At(fixture.now_ms() - 60_000);
    fixture.queue.reschedule(&fixture.topic, &id("b"), first).await.unwrap();
    assert_eq!(fixture.lease_up_to(1).await[0].id, id("b"));
}
