//! Settling and extending with nothing but the id and the token.

use std::collections::BTreeSet;
use std::time::Duration;

use duebox_queue::{IfExists, JobState, Rules, Settled, Token, Verdict};

use super::{glance, ids, pull, until_subscribed, wish};
use crate::ground::{BACKOFF, Ground, id, job, nack, release};

#[tokio::test]
async fn whoever_has_id_and_token_can_settle() {
    let ground = Ground::new().await;
    let (queue, topic) = (&ground.queue, &ground.topic);
    for (name, verdict, word) in [
        ("acked", Verdict::Ack, Settled::Done),
        ("nacked", nack(), Settled::Retry),
        ("dropped", Verdict::Drop { info: "{}".to_owned() }, Settled::Dead),
        ("delayed", Verdict::Release { delay: BACKOFF }, Settled::Released),
    ] {
        ground.push(name).await;
        let lease = pull(&ground, &glance(1)).await.leases.remove(0);
        // All that is left of it, as text.
        let token: Token = lease.token.expires_at_us().to_string().parse().unwrap();
        let held = queue.held(topic, &lease.id).await.unwrap().unwrap();
        assert_eq!((&held.token, held.failures, held.crashes), (&token, 0, 0));
        let said = queue.settle_one(topic, &lease.id, &token, verdict.clone()).await.unwrap();
        assert_eq!(said, word, "{name}");
        let again = queue.settle_one(topic, &lease.id, &token, verdict).await.unwrap();
        assert_eq!(again, Settled::Lost, "{name}");
        assert!(queue.held(topic, &lease.id).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_job_that_is_released_by_its_token_is_due_at_once() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let due = ground.snapshot().ready[b"a".as_slice()];
    let lease = pull(&ground, &glance(1)).await.leases.remove(0);
    let released = ground.queue.settle_one(&ground.topic, &lease.id, &lease.token, release());
    assert_eq!(released.await.unwrap(), Settled::Released);
    let after = ground.snapshot();
    let now_due = after.ready[b"a".as_slice()];
    assert!((due..=after.now_us as f64 / 1_000.0).contains(&now_due), "{now_due}");
    assert_eq!(ids(&ground, &glance(1)).await, ["a"]);
}

#[tokio::test]
async fn a_lease_is_extended_by_its_token_under_a_name() {
    let ground = Ground::new().await;
    let (queue, topic) = (&ground.queue, &ground.topic);
    ground.push("a").await;
    let lease = pull(&ground, &glance(1)).await.leases.remove(0);
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
    let ground = Ground::new().await;
    let (queue, topic) = (&ground.queue, &ground.topic);
    queue.configure(topic, &Rules { shards: 4, ..Rules::default() }).await.unwrap();
    let jobs: Vec<_> = (0..60).map(|n| job(&format!("job-{n}"))).collect();
    ground.push_many(&jobs, IfExists::Reject).await;
    let leases = pull(&ground, &glance(1_000)).await.leases;
    assert_eq!(leases.len(), 60);
    let tokens: BTreeSet<u64> = leases.iter().map(|lease| lease.token.expires_at_us()).collect();
    assert_eq!(tokens.len(), 4, "each shard has a lease call of its own");
    for lease in &leases {
        let held = queue.held(topic, &lease.id).await.unwrap().unwrap();
        assert_eq!(held.token, lease.token);
        let by = Duration::from_secs(5);
        let later = queue.extend_one(topic, "me", &lease.id, &lease.token, by).await.unwrap();
        let stale = queue.settle_one(topic, &lease.id, &lease.token, Verdict::Ack).await.unwrap();
        let done = queue.settle_one(topic, &lease.id, &later.unwrap(), Verdict::Ack).await.unwrap();
        assert_eq!((stale, done), (Settled::Lost, Settled::Done));
    }
    assert_eq!(ids(&ground, &glance(1)).await, [""; 0]);

    // A wish is counted over all of them, and a push to any of them wakes.
    ground.push_many(&jobs, IfExists::Reject).await;
    assert_eq!(ids(&ground, &glance(7)).await.len(), 7);
    assert_eq!(ids(&ground, &glance(1_000)).await.len(), 53);
    for name in ["a", "b", "c", "d", "e"] {
        let (wish, fresh) = (wish(1), job(name));
        let (pulled, ()) = tokio::join!(pull(&ground, &wish), async {
            until_subscribed(&ground).await;
            ground.push_job(fresh, IfExists::Reject).await;
        });
        assert_eq!(pulled.leases[0].id, id(name));
    }
}
