//! Many jobs, odd bytes, and nothing left behind.

use bytes::Bytes;
use duebox_job::JobId;
use duebox_queue::{IfExists, Lease, Leased, LeasedJobs, NewJob, Pushed, Settled, Turn, Verdict};

use crate::fixture::{BACKOFF, Fixture, call, job, job_in, nack};

/// Leases and acks until nothing is ready, at most `calls` times; answers how many were acked.
async fn drain(fixture: &Fixture, calls: usize) -> usize {
    let mut acked = 0;
    for _ in 0..calls {
        let leases = match fixture.lease(&call(1_000)).await {
            Leased::Jobs(LeasedJobs { leases, .. }) => leases,
            _ => return acked,
        };
        let settle: Vec<_> = leases.into_iter().map(|l| l.settle(Verdict::Ack)).collect();
        if settle.is_empty() {
            continue;
        }
        let settled = fixture.settle_many(&settle).await;
        assert!(settled.iter().all(|word| *word == Settled::Done));
        acked += settled.len();
    }
    panic!("not drained within {calls} calls");
}

async fn promote_all(fixture: &Fixture, calls: usize) -> u64 {
    let (mut moved, mut skip) = (0, 0);
    for _ in 0..calls {
        let promoted = fixture.promote_some(1_000, skip).await;
        moved += promoted.moved;
        skip += promoted.skipped;
        if !promoted.more {
            return moved;
        }
    }
    panic!("not promoted within {calls} calls");
}

#[tokio::test]
async fn three_thousand_jobs_go_through_every_state_and_leave_no_key() {
    let fixture = Fixture::new().await;
    let jobs: Vec<NewJob> = (0..3_000).map(|i| job_in(&format!("job-{i}"), 1 + i % 7)).collect();
    let pushed = fixture.push_many(&jobs, IfExists::Reject).await;
    assert!(pushed.len() == 3_000 && pushed.iter().all(|word| *word == Pushed::Pushed));
    let again = fixture.push_many(&jobs, IfExists::Reject).await;
    assert!(again.iter().all(|word| *word == Pushed::Exists));

    assert_eq!(promote_all(&fixture, 2).await, 0, "none is due");
    fixture.advance(std::time::Duration::from_secs(8), &mut []);
    assert_eq!(promote_all(&fixture, 5).await, 3_000);
    let mut failed = 0;
    for _ in 0..3 {
        let leases = fixture.lease_up_to(1_000).await;
        let settle: Vec<_> = leases.into_iter().map(|l| l.settle(nack())).collect();
        failed += fixture.settle_many(&settle).await.len();
    }
    assert_eq!((failed, fixture.snapshot().attempts.len()), (3_000, 3_000));
    fixture.advance(BACKOFF, &mut []);
    assert_eq!(promote_all(&fixture, 9).await, 3_000);

    let ids: Vec<JobId> = jobs[..1_500].iter().map(|job| job.id.clone()).collect();
    let cancelled = fixture.queue.cancel_many(&fixture.topic, &ids).await.unwrap();
    assert!(cancelled.iter().all(|word| word.word() == "cancelled"));
    assert_eq!(drain(&fixture, 9).await, 1_500);
    promote_all(&fixture, 1).await;
    assert_eq!(fixture.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn two_thousand_dead_jobs_are_requeued_and_pruned_in_batches() {
    let fixture = Fixture::new().await;
    let jobs: Vec<NewJob> = (0..2_500).map(|i| job(&format!("job-{i:04}"))).collect();
    fixture.push_many(&jobs, IfExists::Reject).await;
    for _ in 0..3 {
        let leases = fixture.lease_up_to(1_000).await;
        let dropped = |lease: Lease| lease.settle(Verdict::Drop { info: "{}".to_owned() });
        let settle: Vec<_> = leases.into_iter().map(dropped).collect();
        fixture.settle_many(&settle).await;
    }
    let dead = fixture.dead_ids(10_000).await;
    assert_eq!(dead.len(), 2_500);
    let requeued = fixture.queue.requeue(&fixture.topic, &dead[..1_200]).await.unwrap();
    assert!(requeued.len() == 1_200 && requeued.iter().all(|word| word.word() == "ok"));
    assert_eq!(fixture.queue.prune_above(&fixture.shard, 200).await.unwrap(), 1_000);
    assert_eq!(fixture.queue.prune_above(&fixture.shard, 200).await.unwrap(), 100);
    assert_eq!(fixture.queue.prune(&fixture.topic, &dead).await.unwrap(), 200);
    assert_eq!(drain(&fixture, 9).await, 1_200);
    promote_all(&fixture, 1).await;
    assert_eq!(fixture.keys(), Vec::<String>::new());
}

/// Runners that lease and ack at once: each job is given to one of them, and to that one once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_runners_one_has_each_job() {
    let fixture = Fixture::new().await;
    let jobs: Vec<NewJob> = (0..2_000).map(|i| job(&format!("job-{i}"))).collect();
    fixture.push_many(&jobs, IfExists::Reject).await;
    let mut runners = Vec::new();
    for _ in 0..8 {
        let (queue, shard) = (fixture.queue.clone(), fixture.shard.clone());
        runners.push(tokio::spawn(async move {
            let (mut had, mut settle) = (Vec::new(), Vec::new());
            loop {
                let call = call(7);
                let turn =
                    Turn { settle: settle.iter().collect(), lease: Some(&call), ..Turn::default() };
                let reply = queue.turn(&shard, &turn).await.unwrap();
                let settled = reply.settled.unwrap_or_default();
                assert!(settled.iter().all(|word| *word == Settled::Done));
                let Some(Leased::Jobs(LeasedJobs { leases, .. })) = reply.leased else {
                    return had;
                };
                had.extend(leases.iter().map(|lease| lease.id.clone()));
                settle = leases.into_iter().map(|lease| lease.settle(Verdict::Ack)).collect();
            }
        }));
    }
    let mut had = Vec::new();
    for runner in runners {
        had.extend(runner.await.unwrap());
    }
    had.sort();
    let mut pushed: Vec<JobId> = jobs.into_iter().map(|job| job.id).collect();
    pushed.sort();
    assert_eq!(had, pushed);
    fixture.promote().await;
    assert_eq!(fixture.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn ids_and_payloads_of_any_bytes_run() {
    let fixture = Fixture::new().await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let long = vec![0xab; 100_000];
    let ids: [&[u8]; 8] =
        [b"", b"\0", &[0xff, 0xfe], b" a b\r\n", b"1763740800000", b"nan", &every_byte, &long];
    for id in ids {
        fixture.plain_push_bytes(id, &every_byte, "0");
    }
    fixture.promote().await;
    let take = || async {
        let mut leases = fixture.lease_up_to(9).await;
        leases.sort_by(|a, b| a.id.cmp(&b.id));
        leases
    };
    let leases = take().await;
    let mut expected: Vec<JobId> = ids.iter().map(|id| JobId::from_redis(id.to_vec())).collect();
    expected.sort();
    assert_eq!(leases.iter().map(|lease| lease.id.clone()).collect::<Vec<_>>(), expected);
    assert!(leases.iter().all(|lease| lease.payload == every_byte[..]));

    // All verbs of their lives, the empty id among them.
    let failed: Vec<_> = leases.into_iter().map(|l| l.settle(nack())).collect();
    assert_eq!(fixture.settle_many(&failed).await, [Settled::Retry; 8]);
    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    let dropped = |l: Lease| l.settle(Verdict::Drop { info: "{}".to_owned() });
    let settle: Vec<_> = take().await.into_iter().map(dropped).collect();
    assert_eq!(fixture.settle_many(&settle).await, [Settled::Dead; 8]);
    let requeued = fixture.queue.requeue(&fixture.topic, &expected).await.unwrap();
    assert!(requeued.iter().all(|word| word.word() == "ok"));
    assert_eq!(drain(&fixture, 2).await, 8);
    fixture.promote().await;
    assert_eq!(fixture.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn a_payload_of_megabytes_survives() {
    let fixture = Fixture::new().await;
    let payload = Bytes::from(vec![b'x'; 8 << 20]);
    let new = NewJob { payload: payload.clone(), ..job("big") };
    fixture.push_job(new, IfExists::Reject).await;
    let lease = fixture.lease_only("big").await;
    assert_eq!(lease.payload, payload);
    assert_eq!(fixture.settle(lease, nack()).await, Settled::Retry);
    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    assert_eq!(fixture.lease_only("big").await.payload, payload);
}
