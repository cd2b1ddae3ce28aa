//! Lease and extend: who gets what, under which token, and what a repeated call gets.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::Options;
use duebox_queue::{
    Extension, IfExists, Lease, LeaseCall, Leased, LeasedJobs, NewJob, QueueError, Settled, Token,
    Turn, Verdict,
};

use crate::fixture::{Fixture, LEASE, call, id, job, release, twin};
use crate::snapshot::ids;
use crate::{fixture, script};

fn jobs(leased: Leased) -> (Vec<Lease>, u64) {
    match leased {
        Leased::Jobs(LeasedJobs { leases, removed, .. }) => (leases, removed),
        other => panic!("{other:?}"),
    }
}

fn names(leases: &[Lease]) -> Vec<String> {
    leases.iter().map(|lease| lease.id.to_string()).collect()
}

#[tokio::test]
async fn the_longest_due_come_first_under_one_token() {
    let fixture = Fixture::new().await;
    for (name, due) in [("c", 3), ("a", 9), ("b", 6)] {
        fixture.plain_push(name, name, fixture.now_ms() - due * 1_000);
    }
    fixture.promote().await;
    let before = fixture.snapshot();
    let (leases, removed) = jobs(fixture.lease(&call(2)).await);
    let after = fixture.snapshot();

    assert_eq!((names(&leases), removed), (vec!["a".into(), "b".into()], 0));
    assert_eq!(leases[0].token, leases[1].token);
    let expiry = leases[0].token.expires_at_us();
    // A token is even.
    assert!((before.now_us + 15_000_000..=after.now_us + 15_000_001).contains(&expiry));
    assert_eq!(after.unack[b"a".as_slice()], expiry as f64);
    assert_eq!(leases[1].due_at_ms as f64, before.ready[b"b".as_slice()]);
    assert_eq!(leases[1].payload, "b");
    assert_eq!(ids(&after.ready), ["c"]);
    assert_eq!(ids(&after.jobs), ["a", "b", "c"], "the payload stays until the verdict");
}

#[tokio::test]
async fn nothing_ready_is_empty_and_a_paused_topic_hands_out_nothing() {
    let fixture = Fixture::new().await;
    assert!(matches!(fixture.lease(&call(9)).await, Leased::Empty { .. }));
    fixture.push("a").await;
    fixture.on_key("HSET", "meta", &["paused", "1"]);
    let before = fixture.snapshot().state();
    assert!(matches!(fixture.lease(&call(9)).await, Leased::Paused));
    assert_eq!(fixture.snapshot().state(), before);
    for running in ["0", ""] {
        if running.is_empty() {
            fixture.on_key("HDEL", "meta", &["paused"]);
        } else {
            fixture.on_key("HSET", "meta", &["paused", running]);
        }
        let lease = fixture.lease_only("a").await;
        fixture.settle(lease, release()).await;
    }
}

#[tokio::test]
async fn a_repeated_call_gets_the_same_jobs_under_the_same_token() {
    let fixture = Fixture::new().await;
    let options = Options::default().with_max_attempts(2);
    fixture.push_job(NewJob { options, ..job("a") }, IfExists::Reject).await;
    fixture.push("b").await;
    let lost = call(2);
    let (first, _) = jobs(fixture.lease(&lost).await);
    fixture.push("c").await;
    fixture.on_key("HSET", "meta", &["paused", "1"]);
    for _ in 0..2 {
        let (again, removed) = jobs(fixture.lease(&lost).await);
        assert_eq!((names(&again), removed), (names(&first), 0));
        for (again, first) in again.iter().zip(&first) {
            assert_eq!(again.token, first.token);
            assert_eq!(again.payload, first.payload);
            assert_eq!(again.options, first.options);
        }
    }
    for lease in jobs(fixture.lease(&lost).await).0 {
        assert_eq!(fixture.settle(lease, release()).await, Settled::Released);
    }
    assert_eq!(ids(&fixture.snapshot().ready), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_repeated_call_leaves_out_the_cancelled_and_the_settled() {
    let fixture = Fixture::new().await;
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
    }
    let lost = call(3);
    let (mut first, _) = jobs(fixture.lease(&lost).await);
    fixture.queue.cancel(&fixture.topic, &id("a")).await.unwrap();
    assert_eq!(fixture.settle(first.remove(1), Verdict::Ack).await, Settled::Done);
    let (again, removed) = jobs(fixture.lease(&lost).await);
    assert_eq!((names(&again), removed), (vec!["c".into()], 0));
    assert_eq!(ids(&fixture.snapshot().unack), ["a", "c"], "a cancelled lease runs out by itself");
}

#[tokio::test]
async fn an_expired_call_is_a_new_call() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lost = call(9);
    let (mut first, _) = jobs(fixture.lease(&lost).await);
    fixture.advance(LEASE - Duration::from_secs(1), &mut [&mut first[0]]);
    assert_eq!(jobs(fixture.lease(&lost).await).0.len(), 1, "it holds to its end");
    fixture.advance(Duration::from_secs(1), &mut [&mut first[0]]);
    assert!(
        matches!(fixture.lease(&lost).await, Leased::Empty { .. }),
        "a is leased, though expired"
    );
    fixture.push("b").await;
    let (second, _) = jobs(fixture.lease(&lost).await);
    assert_eq!(names(&second), ["b"]);
    assert_ne!(second[0].token, first[0].token);
}

#[tokio::test]
async fn call_ids_are_forgotten_when_they_expire() {
    let fixture = Fixture::new().await;
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
        assert_eq!(fixture.lease_up_to(1).await.len(), 1);
    }
    assert_eq!(fixture.snapshot().holders.len(), 3);
    fixture.advance(LEASE, &mut []);
    assert!(matches!(fixture.lease(&call(1)).await, Leased::Empty { .. }));
    assert!(fixture.snapshot().holders.is_empty());
}

#[tokio::test]
async fn a_call_id_is_kept_while_a_late_repetition_could_lease() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.push("b").await;
    let slow = call(1);
    let (first, _) = jobs(fixture.lease(&slow).await);
    for lease in first {
        assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
    }
    // Its sender has had the reply; this is a copy that was long on its way.
    let (late, _) = jobs(fixture.lease(&slow).await);
    assert_eq!(names(&late), Vec::<String>::new());
    assert_eq!(ids(&fixture.snapshot().ready), ["b"]);
}

#[tokio::test]
async fn what_has_no_payload_is_withdrawn_with_all_it_has() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    for (key, value) in [("attempts", "2"), ("opts", "{}")] {
        fixture.on_key("HSET", key, &["ghost", value]);
    }
    fixture.on_key("ZADD", "ready", &["1763740800000", "ghost"]);
    let (leases, removed) = jobs(fixture.lease(&call(9)).await);
    assert_eq!((names(&leases), removed), (vec!["a".into()], 1));
    let after = fixture.snapshot();
    assert!(after.ready.is_empty() && after.attempts.is_empty() && after.opts.is_empty());
}

#[tokio::test]
async fn what_is_withdrawn_is_not_empty() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.plain_push("a", "newer", 0);
    fixture.push("b").await;
    fixture.advance(Duration::from_secs(5), &mut []);
    fixture.on_key("ZADD", "ready", &["XX", "1763740800000", "a"]);
    let (leases, removed) = jobs(fixture.lease(&call(1)).await);
    assert_eq!((leases.len(), removed), (0, 1));
    assert!(fixture.snapshot().holders.is_empty(), "a call that holds nothing is not remembered");
    assert_eq!(fixture.lease_up_to(1).await.len(), 1, "b was behind it");
}

#[tokio::test]
async fn a_superseded_job_loses_its_attempts_when_it_is_withdrawn() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, fixture::nack()).await;
    fixture.advance(fixture::BACKOFF, &mut []);
    fixture.promote().await;
    fixture.plain_push("a", "newer", fixture.now_ms() + 60_000);
    assert_eq!(ids(&fixture.snapshot().attempts), ["a"]);
    let (leases, removed) = jobs(fixture.lease(&call(9)).await);
    assert_eq!((leases.len(), removed), (0, 1));
    assert!(fixture.snapshot().attempts.is_empty());
}

#[tokio::test]
async fn a_leased_id_put_into_ready_by_hand_is_not_leased_twice() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.push("b").await;
    fixture.on_key("ZADD", "ready", &["1763740800000", "a"]);
    let (leases, removed) = jobs(fixture.lease(&call(9)).await);
    assert_eq!((names(&leases), removed), (vec!["b".into()], 1));
    assert_eq!(leases[0].payload, "b");
    assert!(fixture.snapshot().ready.is_empty());
    assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done, "the first lease holds");

    // Alone it is removed as well.
    fixture.push("c").await;
    let lease = fixture.lease_only("c").await;
    fixture.on_key("ZADD", "ready", &["1763740800000", "c"]);
    let (leases, removed) = jobs(fixture.lease(&call(9)).await);
    assert_eq!((leases.len(), removed), (0, 1));
    assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
}

#[tokio::test]
async fn failures_and_crashes_are_told_apart() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.on_key("HSET", "attempts", &["a", "2000007"]);
    let lease = fixture.lease_only("a").await;
    assert_eq!((lease.failures, lease.crashes), (7, 2));
}

#[tokio::test]
async fn options_that_cannot_be_read_come_with_the_reason() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.on_key("HSET", "opts", &["a", "{"]);
    let lease = fixture.lease_only("a").await;
    assert!(lease.options.unwrap_err().to_string().contains("EOF"));
}

#[tokio::test]
async fn an_extension_needs_the_newest_token() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.push("b").await;
    let leases = fixture.lease_up_to(2).await;
    let by = Duration::from_millis(1_500);
    let stale = Token::expiring_at_us(leases[1].token.expires_at_us() - 1);
    let extend = [
        Extension { id: id("a"), token: leases[0].token.clone(), by },
        Extension { id: id("b"), token: stale, by },
        Extension { id: id("nobody"), token: leases[0].token.clone(), by },
    ];
    let reply = fixture.turn(&Turn { extend: extend.iter().collect(), ..Turn::default() }).await;
    let extended = reply.extended.unwrap();
    let later = leases[0].token.expires_at_us() + 1_500_000;
    assert_eq!(extended, [Some(Token::expiring_at_us(later)), None, None]);
    let after = fixture.snapshot();
    assert_eq!(after.unack[b"a".as_slice()], later as f64);
    assert_eq!(after.unack[b"b".as_slice()], leases[1].token.expires_at_us() as f64);
    assert_eq!(after.unack.len(), 2);
}

#[tokio::test]
async fn each_lease_is_extended_by_its_own_time_and_repeats_are_harmless() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    fixture.push("b").await;
    let leases = fixture.lease_up_to(2).await;
    let extend: Vec<Extension> = leases
        .iter()
        .zip([1_000, 2_000, 1_000])
        .map(|(lease, ms)| Extension {
            id: lease.id.clone(),
            token: lease.token.clone(),
            by: Duration::from_millis(ms),
        })
        .collect();
    let twice: Vec<Extension> = extend.iter().chain(&extend).cloned().collect();
    let reply = fixture.turn(&Turn { extend: twice.iter().collect(), ..Turn::default() }).await;
    let extended = reply.extended.unwrap();
    assert_eq!(extended[..2], extended[2..]);
    let old = leases[0].token.expires_at_us();
    let expected = [1_000_000, 2_000_000].map(|us| Some(Token::expiring_at_us(old + us)));
    assert_eq!(extended[..2], expected);
}

/// After a failover that lost an extension, the job may be leased anew, and that lease may expire in the very
/// microsecond to which the first runner extends again.
#[tokio::test]
async fn an_extension_does_not_take_a_lease_of_another_for_its_own() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    let later = lease.token.expires_at_us() + LEASE.as_micros() as u64;
    fixture.on_key("ZADD", "unack", &[&later.to_string(), "a"]);
    assert_eq!(fixture.extend(&lease, LEASE).await, None);
    fixture.on_key("ZADD", "unack", &[&lease.token.expires_at_us().to_string(), "a"]);
    let extended = fixture.extend(&lease, LEASE).await;
    assert_eq!(extended, Some(Token::expiring_at_us(later)));
    assert_eq!(fixture.extend(&lease, LEASE).await, extended, "a repetition");
}

#[tokio::test]
async fn an_extended_lease_outlives_its_first_expiry() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let mut lease = fixture.lease_only("a").await;
    lease.token = fixture.extend(&lease, LEASE).await.unwrap();
    fixture.advance(LEASE, &mut [&mut lease]);
    assert!(fixture.reclaim().await.jobs.is_empty());
    let stale = twin(&lease);
    fixture.advance(LEASE, &mut [&mut lease]);
    assert_eq!(fixture.reclaim().await.jobs.len(), 1);
    assert_eq!(fixture.extend(&lease, LEASE).await, None);
    assert_eq!(fixture.settle(stale, Verdict::Ack).await, Settled::Lost);
}

#[tokio::test]
async fn a_call_after_its_last_moment_leases_nothing() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let now_ms = fixture.now_ms();
    let late = LeaseCall { last_at_ms: Some(now_ms - 1), ..call(9) };
    assert!(matches!(fixture.lease(&late).await, Leased::Late));
    assert!(fixture.snapshot().unack.is_empty());
    let in_time = LeaseCall { last_at_ms: Some(now_ms + 60_000), ..late };
    assert_eq!(names(&jobs(fixture.lease(&in_time).await).0), ["a"]);
    // What was leased in time is given again at any time.
    let repeated = LeaseCall { last_at_ms: Some(now_ms - 1), ..in_time };
    assert_eq!(names(&jobs(fixture.lease(&repeated).await).0), ["a"]);
}

#[tokio::test]
async fn a_bad_wish_is_the_callers_fault_and_spoils_no_other_part_of_the_turn() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    let bad = LeaseCall { jobs: 0, ..call(0) };
    let settle = [lease.settle(Verdict::Ack)];
    let turn = Turn { settle: settle.iter().collect(), lease: Some(&bad), ..Turn::default() };
    let reply = fixture.queue.turn(&fixture.shard, &turn).await.unwrap();
    assert_eq!(reply.settled.unwrap(), [Settled::Done]);
    assert!(reply.leased.is_none());
    match reply.error {
        Some(error @ QueueError::BadCall(_)) => {
            assert!(error.is_final());
            assert!(error.to_string().contains("lease takes 1 to 1000 jobs"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_answer_of_the_script_says_whether_it_is_a_repetition() {
    let fixture = Fixture::new().await;
    fixture.push_job(NewJob { payload: Bytes::from("p"), ..job("a") }, IfExists::Reject).await;
    let first: Vec<redis::Value> =
        script::LEASE.call(&fixture, &["1", "1000", "x", "0", "0", "", "1"]);
    let again: Vec<redis::Value> =
        script::LEASE.call(&fixture, &["1", "1000", "x", "0", "0", "", "1"]);
    assert_eq!(first[0], redis::Value::BulkString(b"ok".to_vec()));
    assert_eq!(again[0], redis::Value::BulkString(b"again".to_vec()));
    assert_eq!((first.len(), first[1].clone()), (again.len(), again[1].clone()));
}
