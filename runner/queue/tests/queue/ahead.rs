//! Jobs leased ahead: if the runner dies they have not crashed, and from then on they are handed out only to
//! start at once.

use std::time::Duration;

use duebox_queue::{Extension, Lease, LeaseCall, Leased, LeasedJobs, Settled, Turn, Verdict};

use crate::ground::{Ground, HOLDER, LEASE, call, id, nack};
use crate::snapshot::{Snapshot, ids};

/// Leases what is ready, of which so many start at once: their ids, and the suspects that stay.
async fn lease(ground: &Ground, at_once: usize) -> (Vec<Lease>, u64) {
    match ground.lease(&LeaseCall { at_once, ..call(9) }).await {
        Leased::Jobs(LeasedJobs { leases, suspects, .. }) => (leases, suspects),
        Leased::Empty { .. } => (Vec::new(), 0),
        other => panic!("{other:?}"),
    }
}

fn names(leases: &[Lease]) -> Vec<String> {
    leases.iter().map(|lease| lease.id.to_string()).collect()
}

/// The runner dies; its leases expire and are reclaimed, and what is to be retried is ready again.
async fn die(ground: &Ground) -> Vec<(String, Settled)> {
    ground.advance(LEASE, &mut []);
    let reclaimed = ground.reclaim().await.jobs;
    ground.advance(Duration::from_secs(3_600), &mut []);
    ground.promote().await;
    reclaimed.into_iter().map(|(id, word)| (id.to_string(), word)).collect()
}

#[tokio::test]
async fn only_a_job_that_started_can_be_buried_as_crashed() {
    let ground = Ground::new().await;
    for name in ["killer", "one", "two"] {
        ground.push(name).await;
    }
    // The killer and two others are leased ahead: nobody knows which of them started.
    assert_eq!(lease(&ground, 0).await.0.len(), 3);
    die(&ground).await;
    // From now on one job starts at once, and the runner dies of one of the three.
    let (mut reclaimed, mut acked) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let (mut leases, _) = lease(&ground, 1).await;
        assert!(leases.len() <= 1, "suspects start one by one");
        match leases.pop() {
            Some(lease) if lease.id == id("killer") => reclaimed.extend(die(&ground).await),
            Some(lease) => {
                assert_eq!(lease.crashes, 0, "{} has never started", lease.id);
                acked.push(lease.id.to_string());
                ground.settle(lease, Verdict::Ack).await;
            }
            None => break,
        }
    }
    let words: Vec<Settled> = reclaimed.iter().map(|(_, word)| *word).collect();
    assert_eq!(words, [Settled::Retry, Settled::Retry, Settled::Dead]);
    assert_eq!(acked, ["one", "two"]);
}

#[tokio::test]
async fn suspects_wait_for_a_call_that_starts_them_and_pass_no_one_by() {
    let ground = Ground::new().await;
    ground.push("suspect").await;
    lease(&ground, 0).await;
    die(&ground).await;
    ground.push("z-fresh").await;
    let (leases, suspects) = lease(&ground, 0).await;
    assert_eq!((names(&leases), suspects), (vec!["z-fresh".to_owned()], 1));
    assert_eq!(ids(&ground.snapshot().ready), ["suspect"]);
    let (leases, suspects) = lease(&ground, 0).await;
    assert_eq!((names(&leases), suspects), (vec![], 1), "the answer says why there is none");
    let (leases, suspects) = lease(&ground, 1).await;
    assert_eq!((names(&leases), suspects), (vec!["suspect".to_owned()], 0));
}

#[tokio::test]
async fn a_verdict_clears_a_suspect_and_a_release_does_not() {
    let ground = Ground::new().await;
    ground.push("a").await;
    lease(&ground, 0).await;
    die(&ground).await;
    assert_eq!(Snapshot::text(&ground.snapshot().attempts, "a"), "2000000000000000");
    let (mut leases, _) = lease(&ground, 1).await;
    ground.settle(leases.remove(0), crate::ground::release()).await;
    assert_eq!(Snapshot::text(&ground.snapshot().attempts, "a"), "2000000000000000");
    let (mut leases, _) = lease(&ground, 1).await;
    assert_eq!((leases[0].failures, leases[0].crashes, leases[0].snoozes), (0, 0, 0));
    ground.settle(leases.remove(0), nack()).await;
    assert_eq!(Snapshot::text(&ground.snapshot().attempts, "a"), "1");
}

#[tokio::test]
async fn a_job_whose_lease_was_extended_has_started() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let (leases, _) = lease(&ground, 0).await;
    let by = Duration::from_secs(5);
    let extend = &[Extension { id: id("a"), token: leases[0].token.clone(), by }];
    for _ in 0..2 {
        let reply = ground.turn(&Turn { holder: HOLDER, extend, ..Turn::default() }).await;
        let token = reply.extended.unwrap().remove(0).unwrap();
        assert_eq!(token.expires_at_us(), leases[0].token.expires_at_us() - 1 + 5_000_000);
    }
    ground.advance(by, &mut []);
    die(&ground).await;
    assert_eq!(lease(&ground, 9).await.0[0].crashes, 1);
}

#[tokio::test]
async fn a_repeated_call_says_again_which_jobs_start_at_once() {
    let ground = Ground::new().await;
    for name in ["a", "b", "c"] {
        ground.push(name).await;
    }
    let call = LeaseCall { at_once: 1, ..call(9) };
    let tokens = |leased| match leased {
        Leased::Jobs(jobs) => jobs.leases.into_iter().map(|l| (l.id, l.token)).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let first = tokens(ground.lease(&call).await);
    assert_eq!(first[1].1.expires_at_us(), first[0].1.expires_at_us() + 1);
    assert_eq!(first[2].1, first[1].1);
    assert_eq!(tokens(ground.lease(&call).await), first);
}
