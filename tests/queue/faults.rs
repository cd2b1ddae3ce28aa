//! The known faults of queues like this one: each test is a row of the contract's test list.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::Options;
use duebox_queue::{
    Due, IfExists, Leased, LeasedJobs, NewJob, Pushed, Requeued, Rescheduled, Settled, Verdict,
};

use crate::fixture::{
    BACKOFF, Fixture, LEASE, call, drop_it, id, job, job_in, nack, release, twin,
};
use crate::snapshot::{Snapshot, ids};

#[tokio::test]
async fn a_release_of_an_earlier_lease_is_lost() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let first = fixture.lease_only("a").await;
    let stale = twin(&first);
    assert_eq!(fixture.settle(first, release()).await, Settled::Released);
    let second = fixture.lease_only("a").await;
    assert_ne!(stale.token, second.token);

    let before = fixture.snapshot().state();
    assert_eq!(fixture.settle(stale, release()).await, Settled::Lost);
    assert_eq!(fixture.snapshot().state(), before);
    assert_eq!(fixture.settle(second, Verdict::Ack).await, Settled::Done);
}

#[tokio::test]
async fn a_plain_push_during_a_lease_runs_after_any_end_of_it() {
    for end in ["ack", "nack", "drop", "release", "reclaim"] {
        let fixture = Fixture::new().await;
        fixture.push("a").await;
        let retried = fixture.lease_only("a").await;
        fixture.settle(retried, nack()).await;
        fixture.advance(BACKOFF, &mut []);
        fixture.promote().await;
        let mut lease = fixture.lease_only("a").await;
        assert_eq!(lease.failures, 1);
        fixture.plain_push("a", "newer", 0);

        let ended = match end {
            "ack" => fixture.settle(lease, Verdict::Ack).await,
            "nack" => fixture.settle(lease, nack()).await,
            "drop" => fixture.settle(lease, drop_it()).await,
            "release" => fixture.settle(lease, release()).await,
            _ => {
                fixture.advance(LEASE, &mut [&mut lease]);
                fixture.reclaim().await.jobs[0].1
            }
        };
        let expected = if end == "ack" { Settled::Done } else { Settled::Superseded };
        assert_eq!(ended, expected, "{end}");
        assert_eq!(fixture.snapshot().dead.len(), 0, "{end}");

        fixture.promote().await;
        let successor = fixture.lease_only("a").await;
        assert_eq!(successor.payload, "newer", "{end}");
        assert_eq!((successor.failures, successor.crashes), (0, 0), "{end}");
    }
}

#[tokio::test]
async fn a_due_successor_waits_in_pending_until_the_lease_ends() {
    for plain in [true, false] {
        let fixture = Fixture::new().await;
        fixture.push("a").await;
        let lease = fixture.lease_only("a").await;
        if plain {
            fixture.plain_push("a", "newer", fixture.now_ms());
        } else {
            let newer = NewJob { payload: Bytes::from("newer"), ..job("a") };
            assert_eq!(fixture.push_job(newer, IfExists::Replace).await, Pushed::Successor);
        }
        let promoted = fixture.promote().await;
        assert_eq!((promoted.moved, promoted.skipped), (0, 1));
        assert_eq!(ids(&fixture.snapshot().pending), ["a"]);
        assert!(matches!(fixture.lease(&call(9)).await, Leased::Empty { .. }));

        assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
        assert_eq!(fixture.promote().await.moved, 1);
        assert_eq!(fixture.lease_only("a").await.payload, "newer");
    }
}

#[tokio::test]
async fn a_ready_job_pushed_again_for_later_is_not_early() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.plain_push("a", "newer", fixture.now_ms() + 2_000);
    match fixture.lease(&call(9)).await {
        Leased::Jobs(LeasedJobs { leases, removed, .. }) => {
            assert_eq!((leases.len(), removed), (0, 1))
        }
        other => panic!("{other:?}"),
    }
    assert!(fixture.snapshot().ready.is_empty());
    assert_eq!(fixture.promote().await.moved, 0);

    fixture.advance(Duration::from_secs(2), &mut []);
    assert_eq!(fixture.promote().await.moved, 1);
    assert_eq!(fixture.lease_only("a").await.payload, "newer");
}

#[tokio::test]
async fn a_newer_push_takes_no_attempts_over_from_retry() {
    for plain in [true, false] {
        let fixture = Fixture::new().await;
        fixture.push("a").await;
        let lease = fixture.lease_only("a").await;
        assert_eq!(fixture.settle(lease, nack()).await, Settled::Retry);
        if plain {
            fixture.plain_push("a", "newer", 0);
        } else {
            assert_eq!(fixture.push_job(job("a"), IfExists::Replace).await, Pushed::Replaced);
        }
        fixture.promote().await;
        assert!(fixture.snapshot().retry.is_empty());
        assert_eq!(fixture.lease_only("a").await.failures, 0);
        assert!(fixture.snapshot().attempts.is_empty());
    }
}

#[tokio::test]
async fn an_ack_after_a_retry_leaves_no_attempts() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(lease, nack()).await, Settled::Retry);
    assert_eq!(Snapshot::text(&fixture.snapshot().attempts, "a"), "1");
    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(lease.failures, 1);
    assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
    assert!(fixture.snapshot().attempts.is_empty());
}

#[tokio::test]
async fn a_retried_job_put_off_stays_in_retry_with_its_attempt() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, nack()).await;
    let later = Due::In(Duration::from_secs(3_600));
    let answer = fixture.queue.reschedule(&fixture.topic, &id("a"), later).await.unwrap();
    assert_eq!(answer, Rescheduled::Retry);
    let after = fixture.snapshot();
    assert_eq!((after.pending.len(), after.ready.len(), after.retry.len()), (0, 0, 1));
    assert_eq!(Snapshot::text(&after.attempts, "a"), "1");
}

#[tokio::test]
async fn a_dead_job_touches_no_live_one_of_its_id() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(lease, drop_it()).await, Settled::Dead);
    let later = NewJob { payload: Bytes::from("newer"), ..job_in("a", 60) };
    assert_eq!(fixture.push_job(later, IfExists::Reject).await, Pushed::Pushed);

    let requeued = fixture.queue.requeue(&fixture.topic, &[id("a")]).await.unwrap();
    assert_eq!(requeued, [Requeued::Exists]);
    assert_eq!(ids(&fixture.snapshot().dead), ["a"]);
    assert_eq!(Snapshot::text(&fixture.snapshot().jobs, "a"), "newer");

    assert_eq!(fixture.queue.prune(&fixture.topic, &[id("a")]).await.unwrap(), 1);
    let after = fixture.snapshot();
    assert_eq!(Snapshot::text(&after.jobs, "a"), "newer");
    assert_eq!(ids(&after.pending), ["a"]);
    assert!(after.dead.is_empty() && after.dead_jobs.is_empty() && after.dead_info.is_empty());
}

#[tokio::test]
async fn a_cancelled_job_is_not_retried() {
    let fixture = Fixture::new().await;
    let options = Options::default().with_max_attempts(5);
    fixture.push_job(NewJob { options, ..job("a") }, IfExists::Reject).await;
    let lease = fixture.lease_only("a").await;
    let answer = fixture.queue.cancel(&fixture.topic, &id("a")).await.unwrap();
    assert_eq!(answer.word(), "leased");
    assert_eq!(fixture.settle(lease, nack()).await, Settled::Cancelled);
    fixture.promote().await;
    assert_eq!(fixture.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn a_cancelled_ready_job_is_gone_at_once() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let answer = fixture.queue.cancel(&fixture.topic, &id("a")).await.unwrap();
    assert_eq!(answer.word(), "cancelled");
    let after = fixture.snapshot();
    assert!(after.ready.is_empty() && after.jobs.is_empty());
    assert!(matches!(fixture.lease(&call(9)).await, Leased::Empty { .. }));
}

#[tokio::test]
async fn a_lost_lease_reply_gives_no_superseded_job() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lost = call(9);
    fixture.lease(&lost).await;
    assert_eq!(fixture.push_job(job("a"), IfExists::Replace).await, Pushed::Successor);

    match fixture.lease(&lost).await {
        Leased::Jobs(LeasedJobs { leases, removed, .. }) => {
            assert_eq!((leases.len(), removed), (0, 0))
        }
        other => panic!("{other:?}"),
    }
    assert!(fixture.snapshot().unack.is_empty(), "the lease has ended");
    fixture.promote().await;
    fixture.advance(LEASE, &mut []);
    match fixture.lease(&lost).await {
        Leased::Jobs(LeasedJobs { leases, .. }) => {
            assert_eq!(leases.len(), 1, "after expiry it is a new call")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_successor_comes_with_its_own_options() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    let options = Options::default().with_max_attempts(7).with_ttr(Duration::from_secs(9));
    let newer = NewJob { options: options.clone(), ..job("a") };
    assert_eq!(fixture.push_job(newer, IfExists::Replace).await, Pushed::Successor);
    assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
    fixture.promote().await;
    assert_eq!(fixture.lease_only("a").await.options, Ok(options));
}

#[tokio::test]
async fn plain_due_times_run_now_or_die_as_bad() {
    let fixture = Fixture::new().await;
    let now = fixture.now_ms();
    fixture.plain_push("zero", "p", 0);
    fixture.plain_push("negative-zero", "p", "-0");
    fixture.plain_push("lowest", "p", 100_000_000_000_u64);
    fixture.plain_push("seconds", "p", now / 1_000);
    fixture.plain_push("micros", "p", now * 1_000);
    fixture.plain_push("infinite", "p", "+inf");
    fixture.plain_push("negative", "p", -1_i64);
    fixture.plain_push("minus-infinite", "p", "-inf");
    fixture.plain_push("highest", "p", 100_000_000_000_000_u64);

    let promoted = fixture.promote().await;
    assert_eq!((promoted.moved, promoted.bad, promoted.more), (3, 5, false));
    let after = fixture.snapshot();
    assert_eq!(ids(&after.ready), ["lowest", "negative-zero", "zero"]);
    assert_eq!(ids(&after.pending), ["highest"]);
    let bad = ["infinite", "micros", "minus-infinite", "negative", "seconds"];
    assert_eq!(ids(&after.dead), bad);
    for id in bad {
        let info = Snapshot::text(&after.dead_info, id);
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["class"], "bad_due", "{id}");
        assert_eq!(Snapshot::text(&after.dead_jobs, id), "p");
        assert_eq!(Snapshot::text(&after.jobs, id), "");
    }
    let ran: Vec<_> = fixture.lease_up_to(9).await.into_iter().map(|l| l.id.to_string()).collect();
    assert_eq!(ran, ["lowest", "negative-zero", "zero"]);
}

#[tokio::test]
async fn one_bad_due_time_does_not_hide_another() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.plain_push("a", "newer", 5);
    fixture.plain_push("b", "p", 100_000_000_000_001_u64);

    let promoted = fixture.promote_some(1, 0).await;
    assert_eq!(promoted.bad, 2);
    let after = fixture.snapshot();
    assert_eq!(ids(&after.dead), ["a", "b"]);
    assert_eq!(Snapshot::text(&after.dead_jobs, "a"), "newer");
    assert_eq!(ids(&after.unack), ["a"], "the lease goes on");
    assert_eq!(fixture.settle(lease, nack()).await, Settled::Cancelled);
}

#[tokio::test]
async fn fifteen_hundred_due_successors_do_not_hide_a_job_behind_them() {
    let fixture = Fixture::new().await;
    let jobs: Vec<NewJob> = (0..1_500).map(|i| job(&format!("j{i:04}"))).collect();
    fixture.push_many(&jobs, IfExists::Reject).await;
    let leased = fixture.lease_up_to(1_000).await.len() + fixture.lease_up_to(1_000).await.len();
    assert_eq!(leased, 1_500);
    let past = Due::At(fixture.now_ms() - 60_000);
    let newer: Vec<NewJob> = jobs.into_iter().map(|job| NewJob { due: past, ..job }).collect();
    fixture.push_many(&newer, IfExists::Replace).await;
    fixture.plain_push("behind", "p", fixture.now_ms() - 1);

    let mut skip = 0;
    let mut moved = 0;
    for _ in 0..3 {
        let promoted = fixture.promote_some(1_000, skip).await;
        skip += promoted.skipped;
        moved += promoted.moved;
        if !promoted.more {
            break;
        }
    }
    assert_eq!((skip, moved), (1_500, 1));
    fixture.lease_only("behind").await;
}

#[tokio::test]
async fn an_extension_repeated_after_a_lost_reply_answers_the_same() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let mut lease = fixture.lease_only("a").await;
    let first = fixture.extend(&lease, LEASE).await.unwrap();
    let again = fixture.extend(&lease, LEASE).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(first.expires_at_us(), lease.token.expires_at_us() + 15_000_000);
    assert_eq!(fixture.settle(twin(&lease), Verdict::Ack).await, Settled::Lost);
    lease.token = first;
    assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
}

#[tokio::test]
async fn a_requeued_job_has_its_options_back() {
    let fixture = Fixture::new().await;
    let options = Options::default().with_max_attempts(9);
    let job = NewJob { options: options.clone(), ..job("a") };
    fixture.push_job(job, IfExists::Reject).await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(lease, drop_it()).await, Settled::Dead);
    assert!(fixture.snapshot().opts.is_empty(), "options are live only with their job");
    let requeued = fixture.queue.requeue(&fixture.topic, &[id("a")]).await.unwrap();
    assert_eq!(requeued, [Requeued::Ok]);
    assert_eq!(fixture.lease_only("a").await.options, Ok(options));
}

/// Why `MULTI` is part of the rule for plain producers: without it a push can be lost. The queue
/// cannot help that, but no other job suffers and nothing is left behind.
#[tokio::test]
async fn a_push_torn_in_two_is_lost_and_leaves_nothing() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.on_key("HSET", "jobs", &["a", "torn"]);
    assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
    fixture.on_key("ZADD", "pending", &["0", "a"]);

    assert_eq!(fixture.promote().await.moved, 1);
    match fixture.lease(&call(9)).await {
        Leased::Jobs(LeasedJobs { leases, removed, .. }) => {
            assert_eq!((leases.len(), removed), (0, 1))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(fixture.keys(), Vec::<String>::new());
}
