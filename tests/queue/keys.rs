//! Keys: how many jobs of one run at once, which is next, and what happens to the key's queue.

use std::num::NonZero;
use std::time::Duration;

use duebox_job::Options;
use duebox_queue::{
    Cancelled, Due, IfExists, Lease, Limits, NewJob, Pushed, Requeued, Rescheduled, Settled,
    Verdict,
};

use crate::fixture::{BACKOFF, Fixture, LEASE, call, drop_it, id, job, nack, release};
use crate::snapshot::{Place, ids};

const HOUR: Duration = Duration::from_secs(3_600);

async fn ground_with(per_key: u32, relaxed: bool) -> Fixture {
    let fixture = Fixture::new().await;
    configure(&fixture, per_key, relaxed).await;
    fixture
}

async fn configure(fixture: &Fixture, per_key: u32, relaxed: bool) {
    let rules = Limits { per_key: NonZero::new(per_key), relaxed, ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
}

fn keyed(name: &str, key: &str) -> NewJob {
    NewJob { options: Options::default().with_key(key).unwrap(), ..job(name) }
}

async fn push(fixture: &Fixture, key: &str, names: &[&str]) {
    for name in names {
        assert_eq!(fixture.push_job(keyed(name, key), IfExists::Reject).await, Pushed::Pushed);
    }
}

fn names(leases: &[Lease]) -> Vec<String> {
    leases.iter().map(|lease| lease.id.to_string()).collect()
}

/// The ids in the line of a key, first come first.
fn line(fixture: &Fixture, key: &str) -> Vec<String> {
    let blocked = fixture.snapshot().blocked;
    let of_key = blocked.keys().filter(|member| Place::of(member).key == key.as_bytes());
    of_key.map(|member| String::from_utf8(Place::id_of(member)).unwrap()).collect()
}

#[tokio::test]
async fn jobs_of_a_key_run_in_push_order_one_at_a_time() {
    let fixture = ground_with(1, false).await;
    // Names in another order than the pushes.
    push(&fixture, "k", &["c", "a", "b"]).await;
    assert_eq!(line(&fixture, "k"), ["a", "b"]);
    for name in ["c", "a", "b"] {
        let lease = fixture.lease_only(name).await;
        assert!(fixture.lease_up_to(9).await.is_empty(), "one at a time");
        assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
    }
    assert_eq!(fixture.snapshot().held(), ["meta"]);
}

#[tokio::test]
async fn as_many_run_at_once_as_the_rules_say() {
    let fixture = ground_with(2, false).await;
    push(&fixture, "k", &["a", "b", "c", "d"]).await;
    push(&fixture, "other", &["o"]).await;
    let mut leases = fixture.lease_up_to(9).await;
    assert_eq!(names(&leases), ["a", "b", "o"]);
    fixture.settle(leases.remove(1), Verdict::Ack).await;
    assert_eq!(names(&fixture.lease_up_to(9).await), ["c"]);
    assert_eq!(line(&fixture, "k"), ["d"]);
}

#[tokio::test]
async fn a_job_in_retry_blocks_its_key_while_the_order_is_strict() {
    let fixture = ground_with(1, false).await;
    push(&fixture, "k", &["a", "b"]).await;
    let first = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(first, nack()).await, Settled::Retry);
    assert!(fixture.lease_up_to(9).await.is_empty());
    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    let second = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(second, drop_it()).await, Settled::Dead);
    fixture.lease_only("b").await;
}

#[tokio::test]
async fn the_next_passes_a_job_in_retry_while_the_order_is_relaxed() {
    let fixture = ground_with(1, true).await;
    push(&fixture, "k", &["a", "b"]).await;
    let first = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(first, nack()).await, Settled::Retry);
    let passing = fixture.lease_only("b").await;
    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    assert_eq!(line(&fixture, "k"), ["a"], "it is due, and b has the turn");
    let snapshot = fixture.snapshot();
    assert_eq!(ids(&snapshot.attempts), ["a"], "its attempt is still its own");
    let mut passing = passing;
    passing.token = duebox_queue::Token::expiring_at_us(snapshot.unack[b"b".as_slice()] as u64);
    assert_eq!(fixture.settle(passing, Verdict::Ack).await, Settled::Done);
    assert_eq!(fixture.lease_only("a").await.failures, 1);
}

#[tokio::test]
async fn a_released_job_stays_before_the_others_of_its_key() {
    let fixture = ground_with(1, false).await;
    push(&fixture, "k", &["a", "b"]).await;
    let lease = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(lease, release()).await, Settled::Released);
    fixture.lease_only("a").await;
}

#[tokio::test]
async fn a_crashed_job_gives_its_turn_on_when_it_is_buried() {
    let fixture = ground_with(1, false).await;
    let options = Options::default().with_key("k").unwrap().with_max_crashes(1);
    fixture.push_job(NewJob { options, ..job("a") }, IfExists::Reject).await;
    push(&fixture, "k", &["b"]).await;
    fixture.lease_only("a").await;
    fixture.advance(LEASE, &mut []);
    assert_eq!(fixture.reclaim().await.jobs, [(id("a"), Settled::Dead)]);
    fixture.lease_only("b").await;
}

#[tokio::test]
async fn a_noisy_key_queues_up_behind_the_others() {
    let fixture = ground_with(1, false).await;
    push(&fixture, "noisy", &["n1", "n2", "n3"]).await;
    fixture.advance(Duration::from_secs(1), &mut []);
    fixture.push("quiet").await;
    let mut lease = fixture.lease_up_to(1).await.remove(0);
    assert_eq!(lease.id, id("n1"));
    fixture.advance(Duration::from_secs(1), &mut [&mut lease]);
    fixture.settle(lease, Verdict::Ack).await;
    // n2 is due for longer, but comes to ready only now; its due time is still reported.
    let leases = fixture.lease_up_to(2).await;
    assert_eq!(names(&leases), ["quiet", "n2"]);
    assert!(leases[1].due_at_ms < leases[0].due_at_ms);
}

#[tokio::test]
async fn whoever_ends_lets_the_next_through() {
    for end in ["cancel", "replace", "reschedule", "expire", "supersede"] {
        let fixture = ground_with(1, false).await;
        let options = Options::default().with_key("k").unwrap().with_ttl(HOUR);
        fixture.push_job(NewJob { options, ..job("a") }, IfExists::Reject).await;
        push(&fixture, "k", &["b"]).await;
        let later = Due::In(HOUR);
        match end {
            "cancel" => drop(fixture.queue.cancel(&fixture.topic, &id("a")).await.unwrap()),
            "replace" => {
                let other = NewJob { due: later, ..keyed("a", "k") };
                assert_eq!(fixture.push_job(other, IfExists::Replace).await, Pushed::Replaced);
            }
            "reschedule" => {
                let to = fixture.queue.reschedule(&fixture.topic, &id("a"), later).await.unwrap();
                assert_eq!(to, Rescheduled::Pending);
            }
            "expire" => {
                fixture.advance(HOUR + Duration::from_secs(1), &mut []);
                assert!(fixture.lease_up_to(1).await.is_empty());
                assert_eq!(ids(&fixture.snapshot().dead), ["a"]);
            }
            _ => {
                fixture.plain_push("a", "newer", fixture.now_ms() + 60_000);
                assert!(fixture.lease_up_to(1).await.is_empty());
            }
        }
        assert!(line(&fixture, "k").is_empty(), "{end}");
        fixture.lease_only("b").await;
    }
}

#[tokio::test]
async fn a_job_in_line_is_alive_for_every_verb() {
    let fixture = ground_with(1, false).await;
    push(&fixture, "k", &["a", "b", "c"]).await;
    let (queue, topic) = (&fixture.queue, &fixture.topic);
    let before = fixture.snapshot().state();
    assert_eq!(fixture.push_job(keyed("b", "k"), IfExists::Reject).await, Pushed::Exists);
    assert_eq!(fixture.push_job(keyed("b", "k"), IfExists::Keep).await, Pushed::Kept);
    assert_eq!(queue.requeue(topic, &[id("b")]).await.unwrap(), [Requeued::None]);
    assert_eq!(fixture.snapshot().state(), before);

    assert_eq!(
        queue.reschedule(topic, &id("b"), Due::In(HOUR)).await.unwrap(),
        Rescheduled::Pending
    );
    assert_eq!(line(&fixture, "k"), ["c"]);
    assert_eq!(queue.reschedule(topic, &id("b"), Due::Now).await.unwrap(), Rescheduled::Blocked);
    assert_eq!(line(&fixture, "k"), ["c", "b"], "at the place of its new due time");
    let early = Due::At(fixture.now_ms() - 60_000);
    assert_eq!(queue.reschedule(topic, &id("b"), early).await.unwrap(), Rescheduled::Blocked);
    assert_eq!(line(&fixture, "k"), ["b", "c"]);
    assert_eq!(queue.cancel(topic, &id("b")).await.unwrap(), Cancelled::Cancelled);
    assert_eq!(line(&fixture, "k"), ["c"]);
    // A dead one whose id stands in line stays dead.
    fixture.lease_only("a").await;
    fixture.plain_push("c", "newer", 0);
    fixture.promote().await;
    assert_eq!(line(&fixture, "k"), ["c"], "the newer push has taken the place of the older");
}

#[tokio::test]
async fn a_dead_job_whose_id_stands_in_line_is_not_requeued() {
    let fixture = ground_with(1, false).await;
    push(&fixture, "k", &["a"]).await;
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, drop_it()).await;
    push(&fixture, "k", &["b", "a"]).await;
    assert_eq!(line(&fixture, "k"), ["a"]);
    let before = fixture.snapshot().state();
    let requeued = fixture.queue.requeue(&fixture.topic, &[id("a")]).await.unwrap();
    assert_eq!(requeued, [Requeued::Exists]);
    assert_eq!(fixture.snapshot().state(), before);
}

/// One of two jobs that are replaced together was let through into ready by the other's turn, and
/// stood in its line as well.
#[tokio::test]
async fn two_of_a_key_replaced_together_stand_in_one_place_each() {
    let fixture = ground_with(1, false).await;
    push(&fixture, "k", &["a", "b", "c"]).await;
    let both = [keyed("a", "k"), keyed("b", "k")];
    assert_eq!(fixture.push_many(&both, IfExists::Replace).await, [Pushed::Replaced; 2]);
    assert_eq!(ids(&fixture.snapshot().ready), ["c"]);
    assert_eq!(line(&fixture, "k"), ["a", "b"]);
}

/// What was ready before there was a rule about keys, and is superseded there, was still handed out
/// while the newer push stood in line.
#[tokio::test]
async fn a_superseded_job_of_before_the_rule_is_not_handed_out() {
    let fixture = Fixture::new().await;
    push(&fixture, "k", &["old"]).await;
    configure(&fixture, 1, false).await;
    push(&fixture, "k", &["turn"]).await;
    fixture.plain_push("old", "newer", 0);
    fixture.promote().await;
    assert_eq!(ids(&fixture.snapshot().ready), ["turn"]);
    assert_eq!(line(&fixture, "k"), ["old"]);
}

#[tokio::test]
async fn a_line_empties_when_keys_are_no_longer_minded() {
    let fixture = ground_with(1, false).await;
    let all: Vec<NewJob> = (0..250).map(|n| keyed(&format!("j{n}"), "k")).collect();
    fixture.push_many(&all, IfExists::Reject).await;
    assert_eq!(line(&fixture, "k").len(), 249);
    configure(&fixture, 0, false).await;
    let mut done = 0;
    for _ in 0..9 {
        let leases = fixture.lease_up_to(1_000).await;
        let acks: Vec<_> = leases.into_iter().map(|lease| lease.settle(Verdict::Ack)).collect();
        if acks.is_empty() {
            break;
        }
        done += fixture.settle_many(&acks).await.len();
    }
    assert_eq!(done, 250);
    assert!(fixture.snapshot().turns.is_empty() && fixture.snapshot().blocked.is_empty());
}

/// The superseded job's permit went to the next, and sleeping runners were not woken.
#[tokio::test]
async fn a_repeated_call_that_gives_a_turn_on_wakes() {
    let fixture = ground_with(1, false).await;
    push(&fixture, "k", &["a", "b"]).await;
    let lost = call(9);
    fixture.lease(&lost).await;
    fixture.plain_push("a", "newer", fixture.now_ms() + 60_000);
    fixture.promote().await;
    let asleep_until = fixture.snapshot().wake().unwrap();
    fixture.lease(&lost).await;
    assert_eq!(ids(&fixture.snapshot().ready), ["b"]);
    assert!(fixture.snapshot().wake().unwrap() < asleep_until);
}
