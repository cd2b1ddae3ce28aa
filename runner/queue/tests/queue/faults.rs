//! The known faults of queues like this one: each test is a row of the contract's test list.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::Options;
use duebox_queue::{
    Due, IfExists, Leased, LeasedJobs, NewJob, Pushed, Requeued, Rescheduled, Settled, Verdict,
};

use crate::ground::{BACKOFF, Ground, LEASE, call, drop_it, id, job, job_in, nack, release, twin};
use crate::snapshot::{Snapshot, ids};

#[tokio::test]
async fn a_release_of_an_earlier_lease_is_lost() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let first = ground.lease_only("a").await;
    let stale = twin(&first);
    assert_eq!(ground.settle(first, release()).await, Settled::Released);
    let second = ground.lease_only("a").await;
    assert_ne!(stale.token, second.token);

    let before = ground.snapshot().state();
    assert_eq!(ground.settle(stale, release()).await, Settled::Lost);
    assert_eq!(ground.snapshot().state(), before);
    assert_eq!(ground.settle(second, Verdict::Ack).await, Settled::Done);
}

#[tokio::test]
async fn a_plain_push_during_a_lease_runs_after_any_end_of_it() {
    for end in ["ack", "nack", "drop", "release", "reclaim"] {
        let ground = Ground::new().await;
        ground.push("a").await;
        let retried = ground.lease_only("a").await;
        ground.settle(retried, nack()).await;
        ground.advance(BACKOFF, &mut []);
        ground.promote().await;
        let mut lease = ground.lease_only("a").await;
        assert_eq!(lease.failures, 1);
        ground.plain_push("a", "newer", 0);

        let ended = match end {
            "ack" => ground.settle(lease, Verdict::Ack).await,
            "nack" => ground.settle(lease, nack()).await,
            "drop" => ground.settle(lease, drop_it()).await,
            "release" => ground.settle(lease, release()).await,
            _ => {
                ground.advance(LEASE, &mut [&mut lease]);
                ground.reclaim().await.jobs[0].1
            }
        };
        let expected = if end == "ack" { Settled::Done } else { Settled::Superseded };
        assert_eq!(ended, expected, "{end}");
        assert_eq!(ground.snapshot().dead.len(), 0, "{end}");

        ground.promote().await;
        let successor = ground.lease_only("a").await;
        assert_eq!(successor.payload, "newer", "{end}");
        assert_eq!((successor.failures, successor.crashes), (0, 0), "{end}");
    }
}

#[tokio::test]
async fn a_due_successor_waits_in_pending_until_the_lease_ends() {
    for plain in [true, false] {
        let ground = Ground::new().await;
        ground.push("a").await;
        let lease = ground.lease_only("a").await;
        if plain {
            ground.plain_push("a", "newer", ground.now_ms());
        } else {
            let newer = NewJob { payload: Bytes::from("newer"), ..job("a") };
            assert_eq!(ground.push_job(newer, IfExists::Replace).await, Pushed::Successor);
        }
        let promoted = ground.promote().await;
        assert_eq!((promoted.moved, promoted.skipped), (0, 1));
        assert_eq!(ids(&ground.snapshot().pending), ["a"]);
        assert!(matches!(ground.lease(&call(9)).await, Leased::Empty { .. }));

        assert_eq!(ground.settle(lease, Verdict::Ack).await, Settled::Done);
        assert_eq!(ground.promote().await.moved, 1);
        assert_eq!(ground.lease_only("a").await.payload, "newer");
    }
}

#[tokio::test]
async fn a_ready_job_pushed_again_for_later_is_not_early() {
    let ground = Ground::new().await;
    ground.push("a").await;
    ground.plain_push("a", "newer", ground.now_ms() + 2_000);
    match ground.lease(&call(9)).await {
        Leased::Jobs(LeasedJobs { leases, withdrawn, .. }) => {
            assert_eq!((leases.len(), withdrawn), (0, 1))
        }
        other => panic!("{other:?}"),
    }
    assert!(ground.snapshot().ready.is_empty());
    assert_eq!(ground.promote().await.moved, 0);

    ground.advance(Duration::from_secs(2), &mut []);
    assert_eq!(ground.promote().await.moved, 1);
    assert_eq!(ground.lease_only("a").await.payload, "newer");
}

#[tokio::test]
async fn a_newer_push_takes_no_attempts_over_from_retry() {
    for plain in [true, false] {
        let ground = Ground::new().await;
        ground.push("a").await;
        let lease = ground.lease_only("a").await;
        assert_eq!(ground.settle(lease, nack()).await, Settled::Retry);
        if plain {
            ground.plain_push("a", "newer", 0);
        } else {
            assert_eq!(ground.push_job(job("a"), IfExists::Replace).await, Pushed::Replaced);
        }
        ground.promote().await;
        assert!(ground.snapshot().retry.is_empty());
        assert_eq!(ground.lease_only("a").await.failures, 0);
        assert!(ground.snapshot().attempts.is_empty());
    }
}

#[tokio::test]
async fn an_ack_after_a_retry_leaves_no_attempts() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let lease = ground.lease_only("a").await;
    assert_eq!(ground.settle(lease, nack()).await, Settled::Retry);
    assert_eq!(Snapshot::text(&ground.snapshot().attempts, "a"), "1");
    ground.advance(BACKOFF, &mut []);
    ground.promote().await;
    let lease = ground.lease_only("a").await;
    assert_eq!(lease.failures, 1);
    assert_eq!(ground.settle(lease, Verdict::Ack).await, Settled::Done);
    assert!(ground.snapshot().attempts.is_empty());
}

#[tokio::test]
async fn a_retried_job_put_off_stays_in_retry_with_its_attempt() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let lease = ground.lease_only("a").await;
    ground.settle(lease, nack()).await;
    let later = Due::In(Duration::from_secs(3_600));
    let answer = ground.queue.reschedule(&ground.topic, &id("a"), later).await.unwrap();
    assert_eq!(answer, Rescheduled::Retry);
    let after = ground.snapshot();
    assert_eq!((after.pending.len(), after.ready.len(), after.retry.len()), (0, 0, 1));
    assert_eq!(Snapshot::text(&after.attempts, "a"), "1");
}

#[tokio::test]
async fn a_dead_job_touches_no_live_one_of_its_id() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let lease = ground.lease_only("a").await;
    assert_eq!(ground.settle(lease, drop_it()).await, Settled::Dead);
    let later = NewJob { payload: Bytes::from("newer"), ..job_in("a", 60) };
    assert_eq!(ground.push_job(later, IfExists::Reject).await, Pushed::Pushed);

    let requeued = ground.queue.requeue(&ground.topic, &[id("a")]).await.unwrap();
    assert_eq!(requeued, [Requeued::Exists]);
    assert_eq!(ids(&ground.snapshot().dead), ["a"]);
    assert_eq!(Snapshot::text(&ground.snapshot().jobs, "a"), "newer");

    assert_eq!(ground.queue.prune(&ground.topic, &[id("a")]).await.unwrap(), 1);
    let after = ground.snapshot();
    assert_eq!(Snapshot::text(&after.jobs, "a"), "newer");
    assert_eq!(ids(&after.pending), ["a"]);
    assert!(after.dead.is_empty() && after.dead_jobs.is_empty() && after.dead_info.is_empty());
}

#[tokio::test]
async fn a_cancelled_job_is_not_retried() {
    let ground = Ground::new().await;
    let options = Options::default().with_max_attempts(5);
    ground.push_job(NewJob { options, ..job("a") }, IfExists::Reject).await;
    let lease = ground.lease_only("a").await;
    let answer = ground.queue.cancel(&ground.topic, &id("a")).await.unwrap();
    assert_eq!(answer.word(), "leased");
    assert_eq!(ground.settle(lease, nack()).await, Settled::Cancelled);
    ground.promote().await;
    assert_eq!(ground.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn a_cancelled_ready_job_is_gone_at_once() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let answer = ground.queue.cancel(&ground.topic, &id("a")).await.unwrap();
    assert_eq!(answer.word(), "cancelled");
    let after = ground.snapshot();
    assert!(after.ready.is_empty() && after.jobs.is_empty());
    assert!(matches!(ground.lease(&call(9)).await, Leased::Empty { .. }));
}

#[tokio::test]
async fn a_lost_lease_reply_gives_no_superseded_job() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let lost = call(9);
    ground.lease(&lost).await;
    assert_eq!(ground.push_job(job("a"), IfExists::Replace).await, Pushed::Successor);

    match ground.lease(&lost).await {
        Leased::Jobs(LeasedJobs { leases, withdrawn, .. }) => {
            assert_eq!((leases.len(), withdrawn), (0, 0))
        }
        other => panic!("{other:?}"),
    }
    assert!(ground.snapshot().unack.is_empty(), "the lease has ended");
    ground.promote().await;
    ground.advance(LEASE, &mut []);
    match ground.lease(&lost).await {
        Leased::Jobs(LeasedJobs { leases, .. }) => {
            assert_eq!(leases.len(), 1, "after expiry it is a new call")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_successor_comes_with_its_own_options() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let lease = ground.lease_only("a").await;
    let options = Options::default().with_max_attempts(7).with_ttr(Duration::from_secs(9));
    let newer = NewJob { options: options.clone(), ..job("a") };
    assert_eq!(ground.push_job(newer, IfExists::Replace).await, Pushed::Successor);
    assert_eq!(ground.settle(lease, Verdict::Ack).await, Settled::Done);
    ground.promote().await;
    assert_eq!(ground.lease_only("a").await.options, Ok(options));
}

#[tokio::test]
async fn plain_due_times_run_now_or_die_as_bad() {
    let ground = Ground::new().await;
    let now = ground.now_ms();
    ground.plain_push("zero", "p", 0);
    ground.plain_push("negative-zero", "p", "-0");
    ground.plain_push("lowest", "p", 100_000_000_000_u64);
    ground.plain_push("seconds", "p", now / 1_000);
    ground.plain_push("micros", "p", now * 1_000);
    ground.plain_push("infinite", "p", "+inf");
    ground.plain_push("negative", "p", -1_i64);
    ground.plain_push("minus-infinite", "p", "-inf");
    ground.plain_push("highest", "p", 100_000_000_000_000_u64);

    let promoted = ground.promote().await;
    assert_eq!((promoted.moved, promoted.bad, promoted.more), (3, 5, false));
    let after = ground.snapshot();
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
    let ran: Vec<_> = ground.lease_up_to(9).await.into_iter().map(|l| l.id.to_string()).collect();
    assert_eq!(ran, ["lowest", "negative-zero", "zero"]);
}

#[tokio::test]
async fn one_bad_due_time_does_not_hide_another() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let lease = ground.lease_only("a").await;
    ground.plain_push("a", "newer", 5);
    ground.plain_push("b", "p", 100_000_000_000_001_u64);

    let promoted = ground.promote_some(1, 0).await;
    assert_eq!(promoted.bad, 2);
    let after = ground.snapshot();
    assert_eq!(ids(&after.dead), ["a", "b"]);
    assert_eq!(Snapshot::text(&after.dead_jobs, "a"), "newer");
    assert_eq!(ids(&after.unack), ["a"], "the lease goes on");
    assert_eq!(ground.settle(lease, nack()).await, Settled::Cancelled);
}

#[tokio::test]
async fn fifteen_hundred_due_successors_do_not_hide_a_job_behind_them() {
    let ground = Ground::new().await;
    let jobs: Vec<NewJob> = (0..1_500).map(|i| job(&format!("j{i:04}"))).collect();
    ground.push_many(&jobs, IfExists::Reject).await;
    let leased = ground.lease_up_to(1_000).await.len() + ground.lease_up_to(1_000).await.len();
    assert_eq!(leased, 1_500);
    let past = Due::At(ground.now_ms() - 60_000);
    let newer: Vec<NewJob> = jobs.into_iter().map(|job| NewJob { due: past, ..job }).collect();
    ground.push_many(&newer, IfExists::Replace).await;
    ground.plain_push("behind", "p", ground.now_ms() - 1);

    let mut skip = 0;
    let mut moved = 0;
    for _ in 0..3 {
        let promoted = ground.promote_some(1_000, skip).await;
        skip += promoted.skipped;
        moved += promoted.moved;
        if !promoted.more {
            break;
        }
    }
    assert_eq!((skip, moved), (1_500, 1));
    ground.lease_only("behind").await;
}

#[tokio::test]
async fn an_extension_repeated_after_a_lost_reply_answers_the_same() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let mut lease = ground.lease_only("a").await;
    let first = ground.extend(&lease, LEASE).await.unwrap();
    let again = ground.extend(&lease, LEASE).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(first.expires_at_us(), lease.token.expires_at_us() + 15_000_000);
    assert_eq!(ground.settle(twin(&lease), Verdict::Ack).await, Settled::Lost);
    lease.token = first;
    assert_eq!(ground.settle(lease, Verdict::Ack).await, Settled::Done);
}

#[tokio::test]
async fn a_requeued_job_has_its_options_back() {
    let ground = Ground::new().await;
    let options = Options::default().with_max_attempts(9);
    let job = NewJob { options: options.clone(), ..job("a") };
    ground.push_job(job, IfExists::Reject).await;
    let lease = ground.lease_only("a").await;
    assert_eq!(ground.settle(lease, drop_it()).await, Settled::Dead);
    assert!(ground.snapshot().opts.is_empty(), "options are live only with their job");
    let requeued = ground.queue.requeue(&ground.topic, &[id("a")]).await.unwrap();
    assert_eq!(requeued, [Requeued::Ok]);
    assert_eq!(ground.lease_only("a").await.options, Ok(options));
}

/// Why `MULTI` is part of the rule for plain producers: without it a push can be lost. The queue
/// cannot help that, but no other job suffers and nothing is left behind.
#[tokio::test]
async fn a_push_torn_in_two_is_lost_and_leaves_nothing() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let lease = ground.lease_only("a").await;
    ground.on_key("HSET", "jobs", &["a", "torn"]);
    assert_eq!(ground.settle(lease, Verdict::Ack).await, Settled::Done);
    ground.on_key("ZADD", "pending", &["0", "a"]);

    assert_eq!(ground.promote().await.moved, 1);
    match ground.lease(&call(9)).await {
        Leased::Jobs(LeasedJobs { leases, withdrawn, .. }) => {
            assert_eq!((leases.len(), withdrawn), (0, 1))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(ground.keys(), Vec::<String>::new());
}
