//! Jobs leased ahead: if the runner dies they have not crashed, and from then on they are handed out only to
//! start at once.

use std::time::Duration;

use duebox_queue::{Extension, Lease, LeaseCall, Leased, LeasedJobs, Settled, Turn, Verdict};

use crate::fixture::{Fixture, HOLDER, LEASE, call, id, nack};
use crate::snapshot::{Snapshot, ids};

/// Leases what is ready, of which so many start at once: their ids, and the suspects that stay.
async fn lease(fixture: &Fixture, at_once: usize) -> (Vec<Lease>, u64) {
    match fixture.lease(&LeaseCall { at_once, ..call(9) }).await {
        Leased::Jobs(LeasedJobs { leases, suspects, .. }) => (leases, suspects),
        Leased::Empty { .. } => (Vec::new(), 0),
        other => panic!("{other:?}"),
    }
}

fn names(leases: &[Lease]) -> Vec<String> {
    leases.iter().map(|lease| lease.id.to_string()).collect()
}

/// The runner dies; its leases expire and are reclaimed, and what is to be retried is ready again.
async fn die(fixture: &Fixture) -> Vec<(String, Settled)> {
    fixture.advance(LEASE, &mut []);
    let reclaimed = fixture.reclaim().await.jobs;
    fixture.advance(Duration::from_secs(3_600), &mut []);
    fixture.promote().await;
    reclaimed.into_iter().map(|(id, word)| (id.to_string(), word)).collect()
}

#[tokio::test]
async fn only_a_job_that_started_can_be_buried_as_crashed() {
    let fixture = Fixture::new().await;
    for name in ["killer", "one", "two"] {
        fixture.push(name).await;
    }
    // The killer and two others are leased ahead: which of them started is unknown.
    assert_eq!(lease(&fixture, 0).await.0.len(), 3);
    die(&fixture).await;
    // From now on one job starts at once, and the runner dies of one of the three.
    let (mut reclaimed, mut acked) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let (mut leases, _) = lease(&fixture, 1).await;
        assert!(leases.len() <= 1, "suspects start one by one");
        match leases.pop() {
            Some(lease) if lease.id == id("killer") => reclaimed.extend(die(&fixture).await),
            Some(lease) => {
                assert_eq!(lease.crashes, 0, "{} has never started", lease.id);
                acked.push(lease.id.to_string());
                fixture.settle(lease, Verdict::Ack).await;
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
    let fixture = Fixture::new().await;
    fixture.push("suspect").await;
    lease(&fixture, 0).await;
    die(&fixture).await;
    fixture.push("z-fresh").await;
    let (leases, suspects) = lease(&fixture, 0).await;
    assert_eq!((names(&leases), suspects), (vec!["z-fresh".to_owned()], 1));
    assert_eq!(ids(&fixture.snapshot().ready), ["suspect"]);
    let (leases, suspects) = lease(&fixture, 0).await;
    assert_eq!((names(&leases), suspects), (vec![], 1), "the answer says why");
    let (leases, suspects) = lease(&fixture, 1).await;
    assert_eq!((names(&leases), suspects), (vec!["suspect".to_owned()], 0));
}

#[tokio::test]
async fn a_verdict_clears_a_suspect_and_a_release_does_not() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    lease(&fixture, 0).await;
    die(&fixture).await;
    assert_eq!(Snapshot::text(&fixture.snapshot().attempts, "a"), "2000000000000000");
    let (mut leases, _) = lease(&fixture, 1).await;
    fixture.settle(leases.remove(0), crate::fixture::release()).await;
    assert_eq!(Snapshot::text(&fixture.snapshot().attempts, "a"), "2000000000000000");
    let (mut leases, _) = lease(&fixture, 1).await;
    assert_eq!((leases[0].failures, leases[0].crashes, leases[0].snoozes), (0, 0, 0));
    fixture.settle(leases.remove(0), nack()).await;
    assert_eq!(Snapshot::text(&fixture.snapshot().attempts, "a"), "1");
}

#[tokio::test]
async fn a_job_whose_lease_was_extended_has_started() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let (leases, _) = lease(&fixture, 0).await;
    let by = Duration::from_secs(5);
    let extension = Extension { id: id("a"), token: leases[0].token.clone(), by };
    for _ in 0..2 {
        let turn = Turn { holder: HOLDER, extend: vec![&extension], ..Turn::default() };
        let reply = fixture.turn(&turn).await;
        let token = reply.extended.unwrap().remove(0).unwrap();
        assert_eq!(token.expires_at_us(), leases[0].token.expires_at_us() - 1 + 5_000_000);
    }
    fixture.advance(by, &mut []);
    die(&fixture).await;
    assert_eq!(lease(&fixture, 9).await.0[0].crashes, 1);
}

#[tokio::test]
async fn a_repeated_call_says_again_which_jobs_start_at_once() {
    let fixture = Fixture::new().await;
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
    }
    let call = LeaseCall { at_once: 1, ..call(9) };
    let tokens = |leased| match leased {
        Leased::Jobs(jobs) => jobs.leases.into_iter().map(|l| (l.id, l.token)).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let first = tokens(fixture.lease(&call).await);
    assert_eq!(first[1].1.expires_at_us(), first[0].1.expires_at_us() + 1);
    assert_eq!(first[2].1, first[1].1);
    assert_eq!(tokens(fixture.lease(&call).await), first);
}
