//! Dead jobs: requeue and prune.

use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::Options;
use duebox_queue::Requeued::{Exists, None, Ok};
use duebox_queue::{Finish, IfExists, Limits, NewJob, ReclaimRule, Settled, Turn, Verdict};

use crate::fixture::{BACKOFF, Fixture, LEASE, drop_it, id, job, job_in, nack};
use crate::snapshot::{Snapshot, ids};

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

/// The info of a second death says that there was a first, which it replaces.
#[tokio::test]
async fn deaths_of_an_id_are_counted() {
    let fixture = Fixture::new().await;
    let empty = || Verdict::Drop { info: "{}".to_owned() };
    let counted = [
        (drop_it(), r#"{"class":"drop"}"#),
        (drop_it(), r#"{"class":"drop","deaths":2}"#),
        (empty(), r#"{"deaths":3}"#),
        (drop_it(), r#"{"class":"drop","deaths":4}"#),
    ];
    for (verdict, info) in counted {
        fixture.push("a").await;
        let lease = fixture.lease_only("a").await;
        fixture.settle(lease, verdict).await;
        assert_eq!(Snapshot::text(&fixture.snapshot().dead_info, "a"), info);
    }
    fixture.queue.requeue(&fixture.topic, &[id("a")]).await.unwrap();
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, drop_it()).await;
    assert_eq!(Snapshot::text(&fixture.snapshot().dead_info, "a"), r#"{"class":"drop"}"#);
}

/// Without a wait for the next pruning.
#[tokio::test]
async fn no_script_leaves_more_than_max_dead() {
    let fixture = Fixture::new().await;
    dead(&fixture, &["old-1", "old-2", "old-3"]).await;
    let limits = Limits { max_dead: Some(2), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &limits).await.unwrap();
    let newest = |what: &str, wanted: [&str; 2]| {
        let now = fixture.snapshot();
        for of_dead in [ids(&now.dead), ids(&now.dead_jobs), ids(&now.dead_info)] {
            assert_eq!(of_dead, wanted, "{what}");
        }
    };
    // A verdict.
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
    }
    let mut settle = Vec::new();
    for lease in fixture.lease_up_to(9).await {
        settle.push(lease.settle(drop_it()));
    }
    fixture.turn(&Turn { settle: settle.iter().collect(), ..Turn::default() }).await;
    newest("settle", ["b", "c"]);
    // An invalid due time.
    for name in ["d", "e", "f"] {
        fixture.plain_push(name, "p", 5);
    }
    fixture.promote().await;
    newest("promote", ["e", "f"]);
    // A crash.
    for name in ["g", "h", "i"] {
        fixture.push(name).await;
    }
    fixture.lease_up_to(9).await;
    fixture.advance(LEASE * 2, &mut []);
    let reclaim = Some(ReclaimRule {
        max_crashes: NonZero::new(1),
        delay: Duration::ZERO,
        info: Some("{}"),
        renewed_within: Duration::ZERO,
    });
    fixture.turn(&Turn { reclaim, ..Turn::default() }).await;
    newest("reclaim", ["h", "i"]);
    // A start that came too late.
    let limits = Limits { ttl: Some(Duration::from_secs(1)), ..limits };
    fixture.queue.configure(&fixture.topic, &limits).await.unwrap();
    for name in ["j", "k", "l"] {
        fixture.push(name).await;
    }
    fixture.advance(LEASE, &mut []);
    fixture.lease_up_to(9).await;
    newest("lease", ["k", "l"]);
}

/// A lower limit takes effect step by step, so that no call is long.
#[tokio::test]
async fn a_death_removes_a_bounded_number_of_others() {
    let fixture = Fixture::new().await;
    let names: Vec<String> = (100..500).map(|n| n.to_string()).collect();
    dead(&fixture, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let limits = Limits { max_dead: Some(10), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &limits).await.unwrap();
    dead(&fixture, &["next"]).await;
    assert_eq!(fixture.snapshot().dead.len(), 300);
}

#[tokio::test]
async fn max_dead_holds_for_done_jobs() {
    let fixture = Fixture::new().await;
    let limits = Limits { max_dead: Some(2), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &limits).await.unwrap();
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
        let lease = fixture.lease_only(name).await;
        let kept = Finish {
            info: Some("{}".to_owned()),
            result: Some(Bytes::from("r")),
            ..Finish::default()
        };
        fixture.settle(lease, Verdict::Finish(kept)).await;
        fixture.advance(Duration::from_secs(1), &mut []);
    }
    let now = fixture.snapshot();
    for of_done in [ids(&now.done), ids(&now.done_jobs), ids(&now.done_info), ids(&now.done_result)]
    {
        assert_eq!(of_done, ["b", "c"]);
    }
}
