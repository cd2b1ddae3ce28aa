//! Settle and reclaim: how leases end, and what is counted.

use std::num::NonZero;
use std::time::Duration;

use duebox_job::Options;
use duebox_queue::{IfExists, Lease, Limits, NewJob, ReclaimRule, Settled, Turn, Verdict};

use crate::fixture::{BACKOFF, CRASHES, Fixture, LEASE, drop_it, id, job, nack, release, twin};
use crate::script;
use crate::snapshot::{Snapshot, ids};

async fn leased(fixture: &Fixture, names: &[&str]) -> Vec<Lease> {
    for name in names {
        fixture.push(name).await;
    }
    let leases = fixture.lease_up_to(names.len()).await;
    assert_eq!(leases.len(), names.len());
    leases
}

#[tokio::test]
async fn an_ack_leaves_nothing_of_a_job() {
    let fixture = Fixture::new().await;
    let options = Options::default().with_max_attempts(2);
    fixture.push_job(NewJob { options, ..job("a") }, IfExists::Reject).await;
    fixture.promote().await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
    assert_eq!(fixture.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn a_batch_of_mixed_verdicts_answers_each_its_own() {
    let fixture = Fixture::new().await;
    let names = ["ack", "cancelled", "drop", "later", "nack", "now", "superseded", "twice"];
    let mut leases = leased(&fixture, &names).await;
    fixture.queue.cancel(&fixture.topic, &id("cancelled")).await.unwrap();
    fixture.plain_push("superseded", "newer", 0);
    let again = twin(&leases[7]);
    leases.push(again);
    let delay = Duration::from_secs(5);
    let verdicts = [
        Verdict::Ack,
        release(),
        drop_it(),
        Verdict::Release { delay },
        nack(),
        release(),
        drop_it(),
        nack(),
        Verdict::Ack,
    ];
    let settlements: Vec<_> =
        leases.into_iter().zip(verdicts).map(|(lease, verdict)| lease.settle(verdict)).collect();
    use Settled::{Cancelled, Dead, Done, Lost, Released, Retry, Superseded};
    assert_eq!(
        fixture.settle_many(&settlements).await,
        [Done, Cancelled, Dead, Released, Retry, Released, Superseded, Retry, Lost]
    );
    let after = fixture.snapshot();
    assert_eq!(ids(&after.jobs), ["later", "nack", "now", "superseded", "twice"]);
    assert_eq!(ids(&after.ready), ["now"]);
    assert_eq!(ids(&after.retry), ["later", "nack", "twice"]);
    assert_eq!(ids(&after.pending), ["superseded"]);
    assert_eq!(ids(&after.attempts), ["nack", "twice"]);
    assert_eq!(ids(&after.dead), ["drop"]);
    assert!(after.unack.is_empty());
    // The turn's answer was lost: the same batch again is harmless.
    assert_eq!(fixture.settle_many(&settlements).await, [Lost; 9]);
    assert_eq!(fixture.snapshot().state(), after.state());
}

/// Larger groups of acks are settled as a whole; with what does not fit, id by id.
#[tokio::test]
async fn acks_under_one_token_are_settled_together() {
    use Settled::{Done, Lost};
    let fixture = Fixture::new().await;
    let names = ["f", "b", "a", "e", "d", "c", "g", "h"];
    let mut leases = leased(&fixture, &names).await;
    let twins: Vec<_> = leases.iter().map(twin).collect();
    let last = leases.split_off(6);
    let ack = |leases: Vec<Lease>| {
        leases.into_iter().map(|lease| lease.settle(Verdict::Ack)).collect::<Vec<_>>()
    };
    // Six of the eight ids of the token, then all of them again: two are new.
    assert_eq!(fixture.settle_many(&ack(leases)).await, [Done; 6]);
    let again = fixture.settle_many(&ack(twins)).await;
    assert_eq!(again, [Lost, Lost, Lost, Lost, Lost, Lost, Done, Done]);
    assert_eq!(fixture.settle_many(&ack(last)).await, [Lost; 2]);
    fixture.promote().await;
    assert_eq!(fixture.keys(), Vec::<String>::new());
}

/// An id that is acked twice in one call, in groups of any size or alone, is settled once.
#[tokio::test]
async fn an_id_in_two_groups_of_one_call_is_settled_once() {
    use Settled::{Done, Lost, Released};
    let fixture = Fixture::new().await;
    let leases = leased(&fixture, &["a", "b", "c", "d", "e", "f"]).await;
    let settle = |at: usize, verdict| twin(&leases[at]).settle(verdict);
    let mut settlements: Vec<_> = (0..5).map(|at| settle(at, Verdict::Ack)).collect();
    settlements.push(settle(5, release()));
    settlements.extend((0..6).map(|at| settle(at, Verdict::Ack)));
    settlements.push(settle(4, release()));
    let settled = fixture.settle_many(&settlements).await;
    assert_eq!(settled[..5], [Done; 5]);
    assert_eq!(settled[5], Released);
    assert_eq!(settled[6..], [Lost; 7]);
    assert_eq!(fixture.lease_up_to(9).await.len(), 1, "the released one");
}

#[tokio::test]
async fn a_release_spends_nothing_and_keeps_the_due_time() {
    let fixture = Fixture::new().await;
    let due = fixture.now_ms() - 90_000;
    fixture.plain_push("a", "p", due);
    fixture.promote().await;
    for _ in 0..5 {
        let lease = fixture.lease_only("a").await;
        assert_eq!((lease.due_at_ms, lease.failures, lease.crashes), (due, 0, 0));
        assert_eq!(fixture.settle(lease, release()).await, Settled::Released);
    }
    let lease = fixture.lease_only("a").await;
    let delay = Duration::from_secs(30);
    let before = fixture.now_ms();
    assert_eq!(fixture.settle(lease, Verdict::Release { delay }).await, Settled::Released);
    let after = fixture.snapshot();
    let (score, latest) = (after.retry[b"a".as_slice()], after.now_us / 1_000 + 30_000);
    assert!((before as f64 + 30_000.0..=latest as f64).contains(&score), "{score}");
    assert!(after.ready.is_empty() && after.attempts.is_empty());
}

#[tokio::test]
async fn a_release_keeps_attempts_that_were_spent() {
    let fixture = Fixture::new().await;
    let lease = leased(&fixture, &["a"]).await.remove(0);
    fixture.settle(lease, nack()).await;
    for delay in [Duration::ZERO, BACKOFF] {
        fixture.advance(BACKOFF, &mut []);
        fixture.promote().await;
        let lease = fixture.lease_only("a").await;
        assert_eq!(lease.failures, 1);
        fixture.settle(lease, Verdict::Release { delay }).await;
        assert_eq!(Snapshot::text(&fixture.snapshot().attempts, "a"), "1");
    }
}

#[tokio::test]
async fn a_job_has_its_attempts_in_all_and_dies_of_the_last() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    for failures in 0..3 {
        let lease = fixture.lease_only("a").await;
        assert_eq!(lease.failures, failures);
        let expected = if failures < 2 { Settled::Retry } else { Settled::Dead };
        assert_eq!(fixture.settle(lease, nack()).await, expected);
        fixture.advance(BACKOFF - Duration::from_secs(1), &mut []);
        assert_eq!(fixture.promote().await.moved, 0, "not before the backoff is over");
        fixture.advance(Duration::from_secs(1), &mut []);
        fixture.promote().await;
    }
    let after = fixture.snapshot();
    assert_eq!(ids(&after.dead), ["a"]);
    assert_eq!(Snapshot::text(&after.dead_jobs, "a"), "a");
    assert!(Snapshot::text(&after.dead_info, "a").contains("not yet"));
    assert!(after.jobs.is_empty() && after.attempts.is_empty() && after.retry.is_empty());
}

#[tokio::test]
async fn one_attempt_in_all_is_no_retry() {
    let fixture = Fixture::new().await;
    let lease = leased(&fixture, &["a"]).await.remove(0);
    let info = "{}".to_owned();
    let verdict = Verdict::Nack { delay: BACKOFF, max_attempts: 1, info };
    assert_eq!(fixture.settle(lease, verdict).await, Settled::Dead);
}

#[tokio::test]
async fn a_token_off_by_a_microsecond_is_stale() {
    let fixture = Fixture::new().await;
    let lease = leased(&fixture, &["a"]).await.remove(0);
    let right = lease.token.expires_at_us();
    let before = fixture.snapshot().state();
    for token in [right - 1, right + 1, right / 1_000] {
        let token = duebox_queue::Token::expiring_at_us(token);
        let wrong = Lease { token, ..twin(&lease) };
        assert_eq!(fixture.settle(wrong, drop_it()).await, Settled::Lost);
    }
    assert_eq!(fixture.snapshot().state(), before);
}

#[tokio::test]
async fn an_expired_lease_may_settle_until_it_is_reclaimed() {
    let fixture = Fixture::new().await;
    let mut leases = leased(&fixture, &["a", "b"]).await;
    let (mut b, mut a) = (leases.remove(1), leases.remove(0));
    fixture.advance(LEASE * 2, &mut [&mut a, &mut b]);
    assert_eq!(fixture.settle(a, Verdict::Ack).await, Settled::Done);
    assert_eq!(fixture.reclaim().await.jobs, [(id("b"), Settled::Retry)]);
    assert_eq!(fixture.settle(b, Verdict::Ack).await, Settled::Lost);
}

#[tokio::test]
async fn crashes_are_counted_apart_from_failures() {
    let fixture = Fixture::new().await;
    let lease = leased(&fixture, &["a"]).await.remove(0);
    fixture.settle(lease, nack()).await;
    for crashes in 0..CRASHES {
        fixture.advance(BACKOFF, &mut []);
        fixture.promote().await;
        let lease = fixture.lease_only("a").await;
        assert_eq!((lease.failures, lease.crashes), (1, crashes), "no attempt was spent");
        fixture.advance(LEASE, &mut []);
        let expected = if crashes + 1 < CRASHES { Settled::Retry } else { Settled::Dead };
        assert_eq!(fixture.reclaim().await.jobs, [(id("a"), expected)]);
    }
    let after = fixture.snapshot();
    assert_eq!(ids(&after.dead), ["a"]);
    assert_eq!(Snapshot::text(&after.dead_info, "a"), r#"{"class":"crashed"}"#);
    assert!(after.attempts.is_empty() && after.jobs.is_empty() && after.unack.is_empty());
}

#[tokio::test]
async fn reclaiming_follows_the_rules_of_settling() {
    let fixture = Fixture::new().await;
    leased(&fixture, &["cancelled", "dies", "retried", "superseded"]).await;
    fixture.on_key("HSET", "attempts", &["dies", "2000000", "superseded", "1", "cancelled", "1"]);
    fixture.queue.cancel(&fixture.topic, &id("cancelled")).await.unwrap();
    fixture.plain_push("superseded", "newer", 0);
    fixture.on_key("HSET", "opts", &["dies", r#"{"ttr_ms":5}"#]);
    fixture.advance(LEASE, &mut []);
    let reclaimed = fixture.reclaim().await;
    assert_eq!(reclaimed.next_expiry_in, None);
    use Settled::{Cancelled, Dead, Retry, Superseded};
    let expected =
        [("cancelled", Cancelled), ("dies", Dead), ("retried", Retry), ("superseded", Superseded)];
    assert_eq!(reclaimed.jobs, expected.map(|(name, word)| (id(name), word)));
    let after = fixture.snapshot();
    assert_eq!(ids(&after.jobs), ["retried", "superseded"]);
    assert_eq!(ids(&after.attempts), ["retried"]);
    assert_eq!(Snapshot::text(&after.attempts, "retried"), "1000000");
    assert_eq!(ids(&after.retry), ["retried"]);
    assert_eq!(Snapshot::text(&after.dead_opts, "dies"), r#"{"ttr_ms":5}"#);
    assert!(after.opts.is_empty() && after.unack.is_empty());
}

#[tokio::test]
async fn reclaim_takes_the_oldest_first_and_leaves_what_holds() {
    let fixture = Fixture::new().await;
    leased(&fixture, &["z-oldest"]).await;
    fixture.advance(Duration::from_secs(1), &mut []);
    leased(&fixture, &["a-younger"]).await;
    fixture.advance(LEASE - Duration::from_secs(1), &mut []);
    let reclaimed = fixture.reclaim().await;
    assert_eq!(reclaimed.jobs, [(id("z-oldest"), Settled::Retry)]);
    let left = reclaimed.next_expiry_in.unwrap();
    assert!(left <= Duration::from_secs(1), "{left:?}");
    fixture.advance(LEASE, &mut []);

    // One a call, and the older before the younger.
    leased(&fixture, &["b-youngest"]).await;
    fixture.advance(LEASE, &mut []);
    let answer: Vec<String> = script::RECLAIM.call(&fixture, &["1", "3", "0", "{}"]);
    assert_eq!(answer, ["0", "a-younger", "retry"]);
    let answer: Vec<String> = script::RECLAIM.call(&fixture, &["1", "3", "0", "{}"]);
    assert_eq!(answer, ["", "b-youngest", "retry"]);
}

#[tokio::test]
async fn the_jobs_own_crash_limit_goes_before_and_undecodable_options_are_none() {
    for (options, expected) in [
        (r#"{"max_crashes":1}"#, Settled::Dead),
        (r#"{"max_crashes":9}"#, Settled::Retry),
        ("{}", Settled::Retry),
        ("{", Settled::Retry),
        ("null", Settled::Retry),
        ("7", Settled::Retry),
        (r#"{"max_crashes":"1"}"#, Settled::Retry),
        ("\u{0}", Settled::Retry),
    ] {
        let fixture = Fixture::new().await;
        leased(&fixture, &["a"]).await;
        fixture.on_key("HSET", "opts", &["a", options]);
        fixture.advance(LEASE, &mut []);
        assert_eq!(fixture.reclaim().await.jobs, [(id("a"), expected)], "{options}");
    }
    // Beyond the topic's limit too.
    let fixture = Fixture::new().await;
    leased(&fixture, &["a"]).await;
    fixture.on_key("HSET", "opts", &["a", r#"{"max_crashes":9}"#]);
    fixture.on_key("HSET", "attempts", &["a", "7000000"]);
    fixture.advance(LEASE, &mut []);
    assert_eq!(fixture.reclaim().await.jobs, [(id("a"), Settled::Retry)]);
}

#[tokio::test]
async fn the_crash_limit_of_the_topic_goes_before_that_of_the_caller() {
    for (most, counted, expected) in [(1, "0", Settled::Dead), (9, "7000000", Settled::Retry)] {
        let fixture = Fixture::new().await;
        let limits = Limits { max_crashes: NonZero::new(most), ..Limits::default() };
        fixture.queue.configure(&fixture.topic, &limits).await.unwrap();
        leased(&fixture, &["a"]).await;
        fixture.on_key("HSET", "attempts", &["a", counted]);
        fixture.advance(LEASE, &mut []);
        assert_eq!(fixture.reclaim().await.jobs, [(id("a"), expected)], "{most}");
    }
}

#[tokio::test]
async fn a_caller_that_does_not_serve_the_topic_buries_no_job() {
    let fixture = Fixture::new().await;
    let limits = Limits { max_crashes: NonZero::new(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &limits).await.unwrap();
    leased(&fixture, &["a"]).await;
    fixture.on_key("HSET", "opts", &["a", r#"{"max_crashes":1}"#]);
    fixture.advance(LEASE, &mut []);
    let delay = Duration::ZERO;
    let reclaim =
        Some(ReclaimRule { max_crashes: None, delay, info: None, renewed_within: Duration::ZERO });
    let reply = fixture.turn(&Turn { reclaim, ..Turn::default() }).await;
    assert_eq!(reply.reclaimed.unwrap().jobs, [(id("a"), Settled::Retry)]);
    // The crash counts: the next caller that serves the topic buries the job.
    fixture.promote().await;
    assert_eq!(fixture.lease_only("a").await.crashes, 1);
    fixture.advance(LEASE, &mut []);
    assert_eq!(fixture.reclaim().await.jobs, [(id("a"), Settled::Dead)]);
}

#[tokio::test]
async fn a_reclaimed_job_waits_for_its_delay() {
    let fixture = Fixture::new().await;
    leased(&fixture, &["a"]).await;
    fixture.advance(LEASE, &mut []);
    let delay = Duration::from_secs(7);
    let reclaim = Some(ReclaimRule {
        max_crashes: NonZero::new(2),
        delay,
        info: Some("{}"),
        renewed_within: Duration::ZERO,
    });
    let promote = Some(duebox_queue::Promotion { jobs: 9, skip: 0, discards_bad: false });
    let reply = fixture.turn(&Turn { reclaim, promote, ..Turn::default() }).await;
    assert_eq!(reply.reclaimed.unwrap().jobs.len(), 1);
    let promoted = reply.promoted.unwrap();
    assert_eq!(promoted.moved, 0);
    assert!(promoted.next_due_in.unwrap() <= delay);
    fixture.advance(delay, &mut []);
    assert_eq!(fixture.promote().await.moved, 1);
}

#[tokio::test]
async fn a_job_that_dies_again_shows_only_its_last_death() {
    let fixture = Fixture::new().await;
    let options = Options::default().with_max_attempts(2);
    fixture.push_job(NewJob { options, ..job("a") }, IfExists::Reject).await;
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, drop_it()).await;
    fixture.advance(Duration::from_secs(60), &mut []);
    let first = fixture.snapshot().dead[b"a".as_slice()];

    fixture.plain_push("a", "second", 0);
    fixture.promote().await;
    let lease = fixture.lease_only("a").await;
    let info = r#"{"class":"trap"}"#.to_owned();
    fixture.settle(lease, Verdict::Drop { info }).await;
    let after = fixture.snapshot();
    assert!(after.dead[b"a".as_slice()] > first);
    assert_eq!(Snapshot::text(&after.dead_jobs, "a"), "second");
    assert_eq!(Snapshot::text(&after.dead_info, "a"), r#"{"class":"trap","deaths":2}"#);
    assert!(after.dead_opts.is_empty(), "the first death's options are not the second's");
}
