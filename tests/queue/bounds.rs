//! No call moves many bytes at once, however large the payloads and what is kept of jobs.

use bytes::Bytes;
use duebox_job::{FollowUp, FollowUpDue, Options, TopicName};
use duebox_queue::{
    CALL_BYTES_MAX, DeadQuery, Finish, IfExists, LeaseCall, Leased, NewJob, PageQuery, RelayPass,
    Settled, Settlement, Verdict,
};

use crate::fixture::{Fixture, call, id, job};

/// A tenth of what one call moves.
const TENTH: usize = CALL_BYTES_MAX / 10;
const JOBS: usize = 30;

fn large(name: &str) -> NewJob {
    NewJob { payload: Bytes::from(vec![0; TENTH]), ..job(name) }
}

/// Leases jobs with large payloads, as many as there are.
async fn leased(fixture: &Fixture) -> Vec<duebox_queue::Lease> {
    let jobs: Vec<NewJob> = (0..JOBS).map(|n| large(&format!("j{n}"))).collect();
    fixture.push_many(&jobs, IfExists::Reject).await;
    fixture.lease_up_to(JOBS).await
}

#[tokio::test]
async fn one_lease_call_returns_no_more_bytes_than_it_asked_for() {
    let fixture = Fixture::new().await;
    let mut jobs: Vec<NewJob> = (0..100).map(|n| job(&format!("a{n:02}"))).collect();
    jobs.extend((0..JOBS).map(|n| large(&format!("b{n:02}"))));
    fixture.push_many(&jobs, IfExists::Reject).await;
    let (mut leased, mut calls) = (0, 0);
    while leased < jobs.len() {
        let call = LeaseCall { bytes_max: Some(CALL_BYTES_MAX as u64), ..call(1_000) };
        let Leased::Jobs(jobs) = fixture.lease(&call).await else { panic!("{leased}") };
        let bytes: usize = jobs.leases.iter().map(|lease| lease.payload.len()).sum();
        assert!(bytes <= CALL_BYTES_MAX, "{bytes}");
        assert!(jobs.leases.iter().all(|lease| lease.payload_bytes == lease.payload.len()));
        (leased, calls) = (leased + jobs.leases.len(), calls + 1);
    }
    assert!((3..=5).contains(&calls), "{calls}");
}

#[tokio::test]
async fn one_settle_call_takes_few_large_verdicts() {
    let fixture = Fixture::new().await;
    let drop = |lease: duebox_queue::Lease| lease.settle(Verdict::drop("no"));
    let verdicts: Vec<Settlement> = leased(&fixture).await.into_iter().map(drop).collect();
    let fitting = Settlement::fitting(&verdicts);
    assert!((8..=10).contains(&fitting), "{fitting}: it copies the payloads");
    let settled = fixture.queue.settle(&fixture.topic, &verdicts).await.unwrap();
    assert_eq!(settled, [Settled::Dead; JOBS]);

    let fixture = Fixture::new().await;
    let keep = |lease: duebox_queue::Lease| {
        let result = Some(Bytes::from(vec![0; TENTH]));
        lease.settle(Verdict::Finish(Finish { result, ..Finish::default() }))
    };
    let verdicts: Vec<Settlement> = leased(&fixture).await.into_iter().map(keep).collect();
    let fitting = Settlement::fitting(&verdicts);
    assert!((8..=10).contains(&fitting), "{fitting}: it sends the results");

    let fixture = Fixture::new().await;
    let ack = |lease: duebox_queue::Lease| lease.settle(Verdict::Ack);
    let verdicts: Vec<Settlement> = leased(&fixture).await.into_iter().map(ack).collect();
    assert_eq!(Settlement::fitting(&verdicts), JOBS, "an ack touches no payload");
}

#[tokio::test]
async fn one_relay_call_moves_few_large_follow_ups() {
    let fixture = Fixture::new().await;
    let sms = fixture.beside("sms").await;
    let push = |lease: duebox_queue::Lease| {
        let follow_ups = vec![FollowUp {
            topic: TopicName::new("sms").unwrap(),
            id: id(&format!("{}.1", lease.id)),
            due: FollowUpDue::AfterMs(0),
            payload: Bytes::from(vec![0; TENTH]),
            options: Options::default(),
        }];
        lease.settle(Verdict::Finish(Finish { follow_ups, ..Finish::default() }))
    };
    let verdicts: Vec<Settlement> = leased(&fixture).await.into_iter().map(push).collect();
    fixture.queue.settle(&fixture.topic, &verdicts).await.unwrap();
    let stored: usize = fixture.snapshot().outbox.values().map(Vec::len).sum();
    assert!(stored < JOBS * (TENTH + 200), "{stored}: zero bytes are stored as they are");
    let mut pushed = 0;
    while pushed < JOBS as u64 {
        let relayed = fixture.queue.relay(&fixture.shard, &mut RelayPass::default()).await.unwrap();
        assert!((8..=10).contains(&relayed.pushed) || pushed > 20, "{relayed:?}");
        pushed += relayed.pushed;
    }
    assert_eq!(sms.snapshot().jobs.len(), JOBS);
}

#[tokio::test]
async fn a_page_ends_early_when_what_is_known_of_the_jobs_is_large() {
    let fixture = Fixture::new().await;
    let reason = "x".repeat(4 * TENTH);
    let bury = |lease: duebox_queue::Lease| lease.settle(Verdict::drop(&reason));
    let verdicts: Vec<Settlement> = leased(&fixture).await.into_iter().map(bury).collect();
    fixture.queue.settle(&fixture.topic, &verdicts).await.unwrap();
    let (mut after, mut met, mut pages) = (None, Vec::new(), 0);
    loop {
        let query = DeadQuery {
            page: PageQuery { after, limit: 1_000, ..PageQuery::default() },
            ..DeadQuery::default()
        };
        let page = fixture.queue.list_dead(&fixture.topic, &query).await.unwrap();
        let bytes: usize = page.jobs.iter().flat_map(|job| &job.reason).map(String::len).sum();
        assert!(bytes <= 4 << 20, "{bytes}");
        met.extend(page.jobs.into_iter().map(|job| job.id.to_string()));
        (after, pages) = (page.next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    met.sort();
    met.dedup();
    assert_eq!((met.len(), pages), (JOBS, 4));
}
