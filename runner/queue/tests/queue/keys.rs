//! Keys: how many jobs of one run at once, who is next, and what becomes of a line.

use std::time::Duration;

use duebox_job::Options;
use duebox_queue::{
    Cancelled, Due, IfExists, Lease, NewJob, Pushed, Requeued, Rescheduled, Rules, Settled, Verdict,
};

use crate::ground::{BACKOFF, Ground, LEASE, call, drop_it, id, job, nack, release};
use crate::snapshot::{Place, ids};

const HOUR: Duration = Duration::from_secs(3_600);

async fn ground_with(per_key: u32, relaxed: bool) -> Ground {
    let ground = Ground::new().await;
    configure(&ground, per_key, relaxed).await;
    ground
}

async fn configure(ground: &Ground, per_key: u32, relaxed: bool) {
    let rules = Rules { per_key, relaxed, ..Rules::default() };
    ground.queue.configure(&ground.topic, &rules).await.unwrap();
}

fn keyed(name: &str, key: &str) -> NewJob {
    NewJob { options: Options::default().with_key(key).unwrap(), ..job(name) }
}

async fn push(ground: &Ground, key: &str, names: &[&str]) {
    for name in names {
        assert_eq!(ground.push_job(keyed(name, key), IfExists::Reject).await, Pushed::Pushed);
    }
}

fn names(leases: &[Lease]) -> Vec<String> {
    leases.iter().map(|lease| lease.id.to_string()).collect()
}

/// The ids in the line of a key, first come first.
fn line(ground: &Ground, key: &str) -> Vec<String> {
    let blocked = ground.snapshot().blocked;
    let of_key = blocked.keys().filter(|member| Place::of(member).key == key.as_bytes());
    of_key.map(|member| String::from_utf8(Place::id_of(member)).unwrap()).collect()
}

#[tokio::test]
async fn jobs_of_a_key_run_in_push_order_one_at_a_time() {
    let ground = ground_with(1, false).await;
    // Names in another order than the pushes.
    push(&ground, "k", &["c", "a", "b"]).await;
    assert_eq!(line(&ground, "k"), ["a", "b"]);
    for name in ["c", "a", "b"] {
        let lease = ground.lease_only(name).await;
        assert!(ground.lease_up_to(9).await.is_empty(), "one at a time");
        assert_eq!(ground.settle(lease, Verdict::Ack).await, Settled::Done);
    }
    assert_eq!(ground.snapshot().held(), ["meta"]);
}

#[tokio::test]
async fn as_many_run_at_once_as_the_rules_say() {
    let ground = ground_with(2, false).await;
    push(&ground, "k", &["a", "b", "c", "d"]).await;
    push(&ground, "other", &["o"]).await;
    let mut leases = ground.lease_up_to(9).await;
    assert_eq!(names(&leases), ["a", "b", "o"]);
    ground.settle(leases.remove(1), Verdict::Ack).await;
    assert_eq!(names(&ground.lease_up_to(9).await), ["c"]);
    assert_eq!(line(&ground, "k"), ["d"]);
}

#[tokio::test]
async fn a_job_in_retry_blocks_its_key_while_the_order_is_strict() {
    let ground = ground_with(1, false).await;
    push(&ground, "k", &["a", "b"]).await;
    let first = ground.lease_only("a").await;
    assert_eq!(ground.settle(first, nack()).await, Settled::Retry);
    assert!(ground.lease_up_to(9).await.is_empty());
    ground.advance(BACKOFF, &mut []);
    ground.promote().await;
    let second = ground.lease_only("a").await;
    assert_eq!(ground.settle(second, drop_it()).await, Settled::Dead);
    ground.lease_only("b").await;
}

#[tokio::test]
async fn the_next_passes_a_job_in_retry_while_the_order_is_relaxed() {
    let ground = ground_with(1, true).await;
    push(&ground, "k", &["a", "b"]).await;
    let first = ground.lease_only("a").await;
    assert_eq!(ground.settle(first, nack()).await, Settled::Retry);
    let passing = ground.lease_only("b").await;
    ground.advance(BACKOFF, &mut []);
    ground.promote().await;
    assert_eq!(line(&ground, "k"), ["a"], "it is due, and b has the turn");
    let snapshot = ground.snapshot();
    assert_eq!(ids(&snapshot.attempts), ["a"], "its attempt is still its own");
    let mut passing = passing;
    passing.token = duebox_queue::Token::expiring_at_us(snapshot.unack[b"b".as_slice()] as u64);
    assert_eq!(ground.settle(passing, Verdict::Ack).await, Settled::Done);
    assert_eq!(ground.lease_only("a").await.failures, 1);
}

#[tokio::test]
async fn a_released_job_stays_before_the_others_of_its_key() {
    let ground = ground_with(1, false).await;
    push(&ground, "k", &["a", "b"]).await;
    let lease = ground.lease_only("a").await;
    assert_eq!(ground.settle(lease, release()).await, Settled::Released);
    ground.lease_only("a").await;
}

#[tokio::test]
async fn a_crashed_job_gives_its_turn_on_when_it_is_buried() {
    let ground = ground_with(1, false).await;
    let options = Options::default().with_key("k").unwrap().with_max_crashes(1);
    ground.push_job(NewJob { options, ..job("a") }, IfExists::Reject).await;
    push(&ground, "k", &["b"]).await;
    ground.lease_only("a").await;
    ground.advance(LEASE, &mut []);
    assert_eq!(ground.reclaim().await.jobs, [(id("a"), Settled::Dead)]);
    ground.lease_only("b").await;
}

#[tokio::test]
async fn a_noisy_key_queues_up_behind_the_others() {
    let ground = ground_with(1, false).await;
    push(&ground, "noisy", &["n1", "n2", "n3"]).await;
    ground.advance(Duration::from_secs(1), &mut []);
    ground.push("quiet").await;
    let mut lease = ground.lease_up_to(1).await.remove(0);
    assert_eq!(lease.id, id("n1"));
    ground.advance(Duration::from_secs(1), &mut [&mut lease]);
    ground.settle(lease, Verdict::Ack).await;
    // n2 is due for longer, but comes to ready only now; what it was due is told all the same.
    let leases = ground.lease_up_to(2).await;
    assert_eq!(names(&leases), ["quiet", "n2"]);
    assert!(leases[1].due_at_ms < leases[0].due_at_ms);
}

#[tokio::test]
async fn whoever_ends_lets_the_next_through() {
    for end in ["cancel", "replace", "reschedule", "expire", "supersede"] {
        let ground = ground_with(1, false).await;
        let options = Options::default().with_key("k").unwrap().with_ttl(HOUR);
        ground.push_job(NewJob { options, ..job("a") }, IfExists::Reject).await;
        push(&ground, "k", &["b"]).await;
        let later = Due::In(HOUR);
        match end {
            "cancel" => drop(ground.queue.cancel(&ground.topic, &id("a")).await.unwrap()),
            "replace" => {
                let other = NewJob { due: later, ..keyed("a", "k") };
                assert_eq!(ground.push_job(other, IfExists::Replace).await, Pushed::Replaced);
            }
            "reschedule" => {
                let to = ground.queue.reschedule(&ground.topic, &id("a"), later).await.unwrap();
                assert_eq!(to, Rescheduled::Pending);
            }
            "expire" => {
                ground.advance(HOUR + Duration::from_secs(1), &mut []);
                assert!(ground.lease_up_to(1).await.is_empty());
                assert_eq!(ids(&ground.snapshot().dead), ["a"]);
            }
            _ => {
                ground.plain_push("a", "newer", ground.now_ms() + 60_000);
                assert!(ground.lease_up_to(1).await.is_empty());
            }
        }
        assert!(line(&ground, "k").is_empty(), "{end}");
        ground.lease_only("b").await;
    }
}

#[tokio::test]
async fn a_job_in_line_is_alive_for_every_verb() {
    let ground = ground_with(1, false).await;
    push(&ground, "k", &["a", "b", "c"]).await;
    let (queue, topic) = (&ground.queue, &ground.topic);
    let before = ground.snapshot().state();
    assert_eq!(ground.push_job(keyed("b", "k"), IfExists::Reject).await, Pushed::Exists);
    assert_eq!(ground.push_job(keyed("b", "k"), IfExists::Keep).await, Pushed::Kept);
    assert_eq!(queue.requeue(topic, &[id("b")]).await.unwrap(), [Requeued::None]);
    assert_eq!(ground.snapshot().state(), before);

    assert_eq!(
        queue.reschedule(topic, &id("b"), Due::In(HOUR)).await.unwrap(),
        Rescheduled::Pending
    );
    assert_eq!(line(&ground, "k"), ["c"]);
    assert_eq!(queue.reschedule(topic, &id("b"), Due::Now).await.unwrap(), Rescheduled::Blocked);
    assert_eq!(line(&ground, "k"), ["c", "b"], "at the place of its new due time");
    let early = Due::At(ground.now_ms() - 60_000);
    assert_eq!(queue.reschedule(topic, &id("b"), early).await.unwrap(), Rescheduled::Blocked);
    assert_eq!(line(&ground, "k"), ["b", "c"]);
    assert_eq!(queue.cancel(topic, &id("b")).await.unwrap(), Cancelled::Cancelled);
    assert_eq!(line(&ground, "k"), ["c"]);
    // A dead one whose id stands in line stays dead.
    ground.lease_only("a").await;
    ground.plain_push("c", "newer", 0);
    ground.promote().await;
    assert_eq!(line(&ground, "k"), ["c"], "the newer push has taken the place of the older");
}

#[tokio::test]
async fn a_dead_job_whose_id_stands_in_line_is_not_requeued() {
    let ground = ground_with(1, false).await;
    push(&ground, "k", &["a"]).await;
    let lease = ground.lease_only("a").await;
    ground.settle(lease, drop_it()).await;
    push(&ground, "k", &["b", "a"]).await;
    assert_eq!(line(&ground, "k"), ["a"]);
    let before = ground.snapshot().state();
    let requeued = ground.queue.requeue(&ground.topic, &[id("a")]).await.unwrap();
    assert_eq!(requeued, [Requeued::Exists]);
    assert_eq!(ground.snapshot().state(), before);
}

/// One of two jobs that are replaced together was let through into ready by the other's turn, and
/// stood in its line as well.
#[tokio::test]
async fn two_of_a_key_replaced_together_stand_in_one_place_each() {
    let ground = ground_with(1, false).await;
    push(&ground, "k", &["a", "b", "c"]).await;
    let both = [keyed("a", "k"), keyed("b", "k")];
    assert_eq!(ground.push_many(&both, IfExists::Replace).await, [Pushed::Replaced; 2]);
    assert_eq!(ids(&ground.snapshot().ready), ["c"]);
    assert_eq!(line(&ground, "k"), ["a", "b"]);
}

/// What was ready before there was a rule about keys, and is superseded there, was still handed out
/// while the newer push stood in line.
#[tokio::test]
async fn a_superseded_job_of_before_the_rule_is_not_handed_out() {
    let ground = Ground::new().await;
    push(&ground, "k", &["old"]).await;
    configure(&ground, 1, false).await;
    push(&ground, "k", &["turn"]).await;
    ground.plain_push("old", "newer", 0);
    ground.promote().await;
    assert_eq!(ids(&ground.snapshot().ready), ["turn"]);
    assert_eq!(line(&ground, "k"), ["old"]);
}

#[tokio::test]
async fn a_line_empties_when_keys_are_no_longer_minded() {
    let ground = ground_with(1, false).await;
    let all: Vec<NewJob> = (0..250).map(|n| keyed(&format!("j{n}"), "k")).collect();
    ground.push_many(&all, IfExists::Reject).await;
    assert_eq!(line(&ground, "k").len(), 249);
    configure(&ground, 0, false).await;
    let mut done = 0;
    for _ in 0..9 {
        let leases = ground.lease_up_to(1_000).await;
        let acks: Vec<_> = leases.into_iter().map(|lease| lease.settle(Verdict::Ack)).collect();
        if acks.is_empty() {
            break;
        }
        done += ground.settle_many(&acks).await.len();
    }
    assert_eq!(done, 250);
    assert!(ground.snapshot().turns.is_empty() && ground.snapshot().blocked.is_empty());
}

/// The superseded one's turn was given on, and whoever slept was not woken.
#[tokio::test]
async fn a_repeated_call_that_gives_a_turn_on_wakes() {
    let ground = ground_with(1, false).await;
    push(&ground, "k", &["a", "b"]).await;
    let lost = call(9);
    ground.lease(&lost).await;
    ground.plain_push("a", "newer", ground.now_ms() + 60_000);
    ground.promote().await;
    let asleep_until = ground.snapshot().wake().unwrap();
    ground.lease(&lost).await;
    assert_eq!(ids(&ground.snapshot().ready), ["b"]);
    assert!(ground.snapshot().wake().unwrap() < asleep_until);
}
