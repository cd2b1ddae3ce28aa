//! Settling and extending with nothing but the id and the token.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::time::Duration;

use duebox_queue::{IfExists, JobState, Limits, Settled, Token, Verdict};

use super::{glance, ids, options, pull, until_subscribed};
use crate::fixture::{BACKOFF, Fixture, id, job, nack, release};

#[tokio::test]
async fn whoever_has_id_and_token_can_settle() {
    let fixture = Fixture::new().await;
    let (queue, topic) = (&fixture.queue, &fixture.topic);
    for (name, verdict, word) in [
        ("acked", Verdict::Ack, Settled::Done),
        ("nacked", nack(), Settled::Retry),
        ("dropped", Verdict::Drop { info: "{}".to_owned() }, Settled::Dead),
        ("delayed", Verdict::Release { delay: BACKOFF }, Settled::Released),
    ] {
        fixture.push(name).await;
        let lease = pull(&fixture, &glance(1)).await.leases.remove(0);
        // All that is left of it, as text.
        let token: Token = lease.token.expires_at_us().to_string().parse().unwrap();
        let held = queue.leased_job(topic, &lease.id).await.unwrap().unwrap();
        assert_eq!((&held.token, held.failures, held.crashes), (&token, 0, 0));
        let settled = queue.settle_one(topic, &lease.id, &token, verdict.clone()).await.unwrap();
        assert_eq!(settled, word, "{name}");
        let again = queue.settle_one(topic, &lease.id, &token, verdict).await.unwrap();
        assert_eq!(again, Settled::Lost, "{name}");
        assert!(queue.leased_job(topic, &lease.id).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_job_that_is_released_by_its_token_is_due_at_once() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let due = fixture.snapshot().ready[b"a".as_slice()];
    let lease = pull(&fixture, &glance(1)).await.leases.remove(0);
    let released = fixture.queue.settle_one(&fixture.topic, &lease.id, &lease.token, release());
    assert_eq!(released.await.unwrap(), Settled::Released);
    let after = fixture.snapshot();
    let now_due = after.ready[b"a".as_slice()];
    assert!((due..=after.now_us as f64 / 1_000.0).contains(&now_due), "{now_due}");
    assert_eq!(ids(&fixture, &glance(1)).await, ["a"]);
}

#[tokio::test]
async fn a_lease_is_extended_by_its_token_under_a_name() {
    let fixture = Fixture::new().await;
    let (queue, topic) = (&fixture.queue, &fixture.topic);
    fixture.push("a").await;
    let lease = pull(&fixture, &glance(1)).await.leases.remove(0);
    let holder = async || {
        let job = queue.get(topic, &id("a")).await.unwrap().unwrap();
        assert_eq!(job.state, JobState::Unack);
        job.lease.unwrap().holder
    };
    assert_eq!(holder().await.as_deref(), Some("consumer:7"));
    let by = Duration::from_secs(5);
    let later = queue.extend_one(topic, "other:2", &lease.id, &lease.token, by).await.unwrap();
    let later = later.unwrap();
    assert_eq!(later.expires_at_us(), lease.token.expires_at_us() + 5_000_000);
    assert_eq!(holder().await.as_deref(), Some("other:2"));
    // The same again is the same answer; one with a token of long ago is lost.
    let again = queue.extend_one(topic, "other:2", &lease.id, &lease.token, by).await.unwrap();
    assert_eq!(again, Some(later.clone()));
    let stale = Token::expiring_at_us(later.expires_at_us() - 77);
    assert_eq!(queue.extend_one(topic, "me", &lease.id, &stale, by).await.unwrap(), None);
    let stale = queue.settle_one(topic, &lease.id, &lease.token, Verdict::Ack).await.unwrap();
    assert_eq!(stale, Settled::Lost);
    assert!(queue.extend_one(topic, "a name", &lease.id, &later, by).await.is_err());
    let acked = queue.settle_one(topic, &lease.id, &later, Verdict::Ack).await.unwrap();
    assert_eq!(acked, Settled::Done);
}

/// A topic of many shards is one topic to its consumers: its jobs come from all of them, and are found
/// again where they are.
#[tokio::test]
async fn the_jobs_of_all_shards_are_pulled_and_settled() {
    let fixture = Fixture::new().await;
    let (queue, topic) = (&fixture.queue, &fixture.topic);
    queue.configure(topic, &Limits { shards: NonZero::new(4), ..Limits::default() }).await.unwrap();
    let jobs: Vec<_> = (0..60).map(|n| job(&format!("job-{n}"))).collect();
    fixture.push_many(&jobs, IfExists::Reject).await;
    let leases = pull(&fixture, &glance(1_000)).await.leases;
    assert_eq!(leases.len(), 60);
    let tokens: BTreeSet<u64> = leases.iter().map(|lease| lease.token.expires_at_us()).collect();
    assert_eq!(tokens.len(), 4, "each shard has a lease call of its own");
    for lease in &leases {
        let held = queue.leased_job(topic, &lease.id).await.unwrap().unwrap();
        assert_eq!(held.token, lease.token);
        let by = Duration::from_secs(5);
        let later = queue.extend_one(topic, "me", &lease.id, &lease.token, by).await.unwrap();
        let stale = queue.settle_one(topic, &lease.id, &lease.token, Verdict::Ack).await.unwrap();
        let done = queue.settle_one(topic, &lease.id, &later.unwrap(), Verdict::Ack).await.unwrap();
        assert_eq!((stale, done), (Settled::Lost, Settled::Done));
    }
    assert_eq!(ids(&fixture, &glance(1)).await, [""; 0]);

    // A options is counted over all of them, and a push to any of them wakes.
    fixture.push_many(&jobs, IfExists::Reject).await;
    assert_eq!(ids(&fixture, &glance(7)).await.len(), 7);
    assert_eq!(ids(&fixture, &glance(1_000)).await.len(), 53);
    for name in ["a", "b", "c", "d", "e"] {
        let (options, fresh) = (options(1), job(name));
        let (pulled, ()) = tokio::join!(pull(&fixture, &options), async {
            until_subscribed(&fixture).await;
            fixture.push_job(fresh, IfExists::Reject).await;
        });
        assert_eq!(pulled.leases[0].id, id(name));
    }
}

/// A consumer that still counts with one shard finds a lease in another one.
#[tokio::test]
async fn a_lease_is_found_though_the_number_of_shards_has_changed() {
    for verb in ["settle", "extend", "look"] {
        let fixture = Fixture::new().await;
        let (queue, topic) = (&fixture.queue, &fixture.topic);
        // Caches that there is one shard.
        assert!(queue.leased_job(topic, &id("a")).await.unwrap().is_none());
        fixture.on_key("HSET", "meta", &["shards", "3", "shards_seen", "1 3"]);
        let third = fixture.in_shard(topic.shard(2)).await;
        third.on_key("HSET", "jobs", &["a", "p"]);
        let token = (third.snapshot().now_us + 60_000_000).to_string();
        third.on_key("ZADD", "unack", &[&token, "a"]);
        let token: Token = token.parse().unwrap();
        match verb {
            "settle" => {
                let settled = queue.settle_one(topic, &id("a"), &token, Verdict::Ack).await;
                assert_eq!(settled.unwrap(), Settled::Done);
            }
            "extend" => {
                let by = Duration::from_secs(5);
                let extended = queue.extend_one(topic, "me", &id("a"), &token, by).await;
                assert!(extended.unwrap().is_some());
            }
            _ => assert!(queue.leased_job(topic, &id("a")).await.unwrap().is_some()),
        }
    }
}

/// An id that is leased in several shards has several leases. Each was extended, and the replies were lost.
#[tokio::test]
async fn a_lease_is_found_though_its_id_is_leased_in_other_shards_too() {
    let fixture = Fixture::new().await;
    let (queue, topic) = (&fixture.queue, &fixture.topic);
    fixture.on_key("HSET", "meta", &["shards", "3", "shards_seen", "3"]);
    let mut tokens = Vec::new();
    for number in 0..3 {
        let shard = fixture.in_shard(topic.shard(number)).await;
        let token = shard.snapshot().now_us / 2 * 2 + 60_000_000;
        shard.on_key("HSET", "jobs", &["a", "p"]);
        // As a first try has left it, whose reply was lost.
        let later = (token + 5_000_000).to_string();
        shard.on_key("ZADD", "unack", &[&later, "a"]);
        shard.on_key("ZADD", "holders", &[&later, &format!("me:+{later}")]);
        tokens.push(token.to_string().parse::<Token>().unwrap());
    }
    for token in &tokens {
        let by = Duration::from_secs(5);
        let extended = queue.extend_one(topic, "me", &id("a"), token, by).await.unwrap();
        assert!(extended.is_some(), "{token:?}");
    }
}
