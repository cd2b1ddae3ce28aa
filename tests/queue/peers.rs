//! The faults of other queues, each tried on this one. What they are and where they were found is in
//! docs/internals/queue-tests.md, "Faults of other queues". A cron line that fires once a replica is in `tick.rs`, and end
//! to end in the tests of schedules.

use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::Options;
use duebox_queue::{
    Due, Finish, IfExists, LeaseCall, Leased, Limits, NewJob, Pushed, Rescheduled, Settled, Token,
    Verdict,
};

use crate::fixture::{BACKOFF, Fixture, LEASE, call, drop_it, id, job, job_in, nack, twin};
use crate::script::{CANCEL, LEASE as LEASE_SCRIPT, PROMOTE, PUSH, RECLAIM};
use crate::snapshot::{Snapshot, ids};

const DAY: Duration = Duration::from_secs(86_400);

/// A runner that takes a whole backlog, and dies before it starts most of it, spends no attempt of
/// the jobs; and however often runners die, what was never started is there to be looked at.
#[tokio::test]
async fn prefetch_that_burns_retries() {
    let fixture = Fixture::new().await;
    for n in 0..20 {
        fixture.push(&format!("j{n}")).await;
    }
    for crashes in 0..3 {
        let leases = fixture.lease_up_to(1_000).await;
        assert_eq!(leases.len(), 20);
        let spent: Vec<_> = leases.iter().map(|lease| (lease.failures, lease.crashes)).collect();
        assert_eq!(spent, [(0, crashes); 20], "a runner's death is not a failure of a job");
        fixture.advance(LEASE, &mut []);
        let ended = fixture.reclaim().await.jobs;
        let word = if crashes < 2 { Settled::Retry } else { Settled::Dead };
        assert!(ended.len() == 20 && ended.iter().all(|(_, became)| *became == word), "{ended:?}");
        fixture.advance(BACKOFF, &mut []);
        fixture.promote().await;
    }
    let after = fixture.snapshot();
    assert_eq!((after.dead.len(), after.jobs.len()), (20, 0));
    assert!(Snapshot::text(&after.dead_info, "j7").contains("crashed"));
    // A runner that lives gives back what it did not start, which costs nothing at all.
    fixture.push("given-back").await;
    for _ in 0..9 {
        let lease = fixture.lease_only("given-back").await;
        assert_eq!((lease.failures, lease.crashes), (0, 0));
        fixture.settle(lease, Verdict::Release { delay: Duration::ZERO }).await;
    }
}

/// The nack of a runner whose lease is over finds that out, and puts the job nowhere a second time.
#[tokio::test]
async fn late_nack_that_re_inserts() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let late = fixture.lease_only("a").await;
    fixture.advance(LEASE, &mut []);
    assert_eq!(fixture.reclaim().await.jobs, [(id("a"), Settled::Retry)]);
    let before = fixture.snapshot().state();
    assert_eq!(fixture.settle(twin(&late), nack()).await, Settled::Lost);
    assert_eq!(fixture.snapshot().state(), before);

    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    let now = fixture.lease_only("a").await;
    let before = fixture.snapshot().state();
    assert_eq!(fixture.settle(late, nack()).await, Settled::Lost, "though it is leased again");
    assert_eq!(fixture.snapshot().state(), before);
    assert_eq!((now.failures, now.crashes), (0, 1), "one death, and no retry was spent twice");
}

/// The ack of a runner whose lease is over leaves no id without a payload anywhere.
#[tokio::test]
async fn late_ack_that_leaves_a_ghost() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let late = fixture.lease_only("a").await;
    fixture.advance(LEASE, &mut []);
    fixture.reclaim().await;
    assert_eq!(fixture.settle(twin(&late), Verdict::Ack).await, Settled::Lost);
    assert_eq!(ids(&fixture.snapshot().retry), ["a"]);
    assert_eq!(ids(&fixture.snapshot().jobs), ["a"], "what waits has its payload");
    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    let now = fixture.lease_only("a").await;
    assert_eq!(fixture.settle(now, Verdict::Ack).await, Settled::Done);
    assert_eq!(fixture.settle(late, Verdict::Ack).await, Settled::Lost);
    assert!(fixture.snapshot().held().iter().all(|key| *key == "meta"));
}

/// Due times are milliseconds of the clock of Redis, from the push to the lease: they are never cut
/// to seconds.
#[tokio::test]
async fn second_truncated_times_that_fire_early() {
    let fixture = Fixture::new().await;
    for ms in [1, 499, 999, 1_001] {
        let (name, due) = (format!("in-{ms}"), Due::In(Duration::from_millis(ms)));
        let before = fixture.now_ms();
        fixture.push_job(NewJob { due, ..job(&name) }, IfExists::Reject).await;
        let score = fixture.snapshot().pending.get(name.as_bytes()).copied();
        // Where a whole millisecond went by meanwhile, it may be due and promoted already.
        assert!(score.is_none_or(|score| score >= (before + ms) as f64), "{ms} ms: {score:?}");
    }
    // Less than a second before its time a job is not promoted, and after it, it is.
    let due = Due::In(Duration::from_millis(30_900));
    fixture.push_job(NewJob { due, ..job("later") }, IfExists::Reject).await;
    fixture.advance(Duration::from_secs(30), &mut []);
    let snapshot = fixture.snapshot();
    let promoted = fixture.promote().await;
    let early = (snapshot.pending[b"later".as_slice()] as u64).saturating_sub(fixture.now_ms());
    if early > 0 {
        assert!(ids(&fixture.snapshot().pending).contains(&"later".to_owned()), "{promoted:?}");
    }
    fixture.advance(Duration::from_millis(901), &mut []);
    fixture.promote().await;
    assert!(ids(&fixture.snapshot().ready).contains(&"later".to_owned()));
}

/// Lua's `unpack` ends at about 8,000 values: no script takes more ids than it can carry, and what is
/// larger is cut into calls.
#[tokio::test]
async fn unpack_limit() {
    let fixture = Fixture::new().await;
    let options = Options::default().with_max_attempts(2).with_key("k").unwrap();
    let jobs: Vec<NewJob> =
        (0..9_000).map(|n| NewJob { options: options.clone(), ..job(&format!("j{n}")) }).collect();
    let words = fixture.push_many(&jobs, IfExists::Reject).await;
    assert!(words.len() == 9_000 && words.iter().all(|word| *word == Pushed::Pushed));
    let leases = fixture.lease_up_to(9_000).await;
    assert_eq!(leases.len(), 1_000);
    let drops: Vec<_> = leases.into_iter().map(|lease| lease.settle(drop_it())).collect();
    assert!(fixture.settle_many(&drops).await.iter().all(|word| *word == Settled::Dead));
    let all: Vec<_> = jobs.iter().map(|job| job.id.clone()).collect();
    let cancelled = fixture.queue.cancel_many(&fixture.topic, &all).await.unwrap();
    assert_eq!(cancelled.len(), 9_000);
    assert!(fixture.snapshot().jobs.is_empty());
    let too_many: Vec<String> = (0..8_001).map(|n| n.to_string()).collect();
    let refused = CANCEL.try_call(&fixture, &too_many).unwrap_err();
    assert_eq!(refused.code(), Some("DUEBOX"), "refused by name, and not by Lua: {refused}");
}

/// No script looks at more than it was asked to, and a thousand is the most that it can be asked.
#[tokio::test]
async fn unbounded_range_in_one_script() {
    let fixture = Fixture::new().await;
    let jobs: Vec<NewJob> = (0..3_000).map(|n| job_in(&format!("j{n}"), 1)).collect();
    fixture.push_many(&jobs, IfExists::Reject).await;
    fixture.advance(Duration::from_secs(2), &mut []);
    assert_eq!(fixture.promote_some(1_000, 0).await.moved, 1_000);
    assert_eq!(fixture.promote_some(100_000, 0).await.moved, 1_000, "the queue asks for no more");
    assert!(PROMOTE.try_call(&fixture, &["100000", "0", "dead"]).is_err());
    assert!(LEASE_SCRIPT.try_call(&fixture, &["100000", "1000", "c", "0", "0", "", "1"]).is_err());
    assert!(RECLAIM.try_call(&fixture, &["100000", "3", "0", "{}"]).is_err());
    // A range of leases that ran out together is worked off in pieces, too.
    for _ in 0..2 {
        assert_eq!(fixture.lease_up_to(1_000).await.len(), 1_000);
    }
    fixture.advance(LEASE, &mut []);
    assert_eq!(fixture.reclaim().await.jobs.len(), 1_000);
    assert_eq!(fixture.reclaim().await.jobs.len(), 1_000);
    assert_eq!(fixture.reclaim().await.jobs.len(), 0);
}

/// A payload stands as long as its job does: no key of the queue runs out by itself, however late a
/// job comes to run.
#[tokio::test]
async fn payload_that_expires_before_its_job() {
    let fixture = Fixture::new().await;
    fixture.push("ready").await;
    fixture.push_job(job_in("pending", 60), IfExists::Reject).await;
    fixture.push("leased").await;
    fixture.lease_up_to(1).await;
    for name in fixture.snapshot().held() {
        let ttl: i64 = fixture.redis(redis::cmd("PTTL").arg(fixture.key(name)));
        assert_eq!(ttl, -1, "{name} would run out");
    }
    fixture.advance(DAY * 365, &mut []);
    fixture.reclaim().await;
    fixture.advance(BACKOFF, &mut []);
    fixture.promote().await;
    let mut payloads: Vec<_> = fixture.lease_up_to(9).await;
    payloads.sort_by(|a, b| a.id.cmp(&b.id));
    let payloads: Vec<&[u8]> = payloads.iter().map(|lease| &lease.payload[..]).collect();
    assert_eq!(payloads, [&b"leased"[..], b"pending", b"ready"]);
}

/// A retry that is due comes to ready under its due time: new jobs that pour in do not go before it.
#[tokio::test]
async fn retry_starvation_by_new_jobs() {
    let fixture = Fixture::new().await;
    fixture.push("tried").await;
    let lease = fixture.lease_only("tried").await;
    fixture.settle(lease, nack()).await;
    fixture.advance(BACKOFF + Duration::from_secs(1), &mut []);
    let new: Vec<NewJob> = (0..1_500).map(|n| job(&format!("new-{n}"))).collect();
    fixture.push_many(&new, IfExists::Reject).await;
    for n in 0..1_500 {
        fixture.plain_push(&format!("plain-{n}"), "p", 0);
    }
    // Even a promote of one id has a place for it.
    fixture.promote_some(1, 0).await;
    assert_eq!(fixture.lease_up_to(1).await[0].id, id("tried"));
}

/// A push that is refused, for whatever reason, leaves no lock on its id.
#[tokio::test]
async fn unique_lock_leaked_on_id_conflict() {
    let fixture = Fixture::new().await;
    let rules = Limits { max_pending: NonZero::new(1), ..Limits::default() };
    fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
    fixture.push("a").await;
    let before = fixture.snapshot().state();
    assert_eq!(fixture.push_job(job("a"), IfExists::Reject).await, Pushed::Exists);
    assert_eq!(fixture.push_job(job("b"), IfExists::Reject).await, Pushed::Full);
    let bad = NewJob { due: Due::At(5), ..job("c") };
    assert_eq!(fixture.push_job(bad, IfExists::Reject).await, Pushed::BadDue);
    assert_eq!(fixture.snapshot().state(), before);
    // And one that is held is free at its time, whatever was tried meanwhile.
    let lease = fixture.lease_only("a").await;
    let finish = Finish { unique_for: DAY, ..Finish::default() };
    fixture.settle(lease, Verdict::Finish(finish)).await;
    for _ in 0..3 {
        fixture.advance(DAY / 4, &mut []);
        assert_eq!(fixture.push_job(job("a"), IfExists::Replace).await, Pushed::Held);
    }
    fixture.advance(DAY / 4, &mut []);
    assert_eq!(fixture.push_job(job("a"), IfExists::Reject).await, Pushed::Pushed);
}

/// Whatever stands in a payload or an id, or was written as options: it is handed out once like any
/// other, and holds up no other job.
#[tokio::test]
async fn undecodable_job_that_hot_loops_its_bucket() {
    let fixture = Fixture::new().await;
    fixture.plain_push_bytes(b"\xff\x00 {", b"\x80\xff not json", "0");
    fixture.plain_push("", "of an id without a character", 0);
    fixture.plain_push("odd", "p", 0);
    fixture.on_key("HSET", "opts", &["odd", "{\"key\":"]);
    fixture.on_key("ZADD", "pending", &["0", "without a payload"]);
    fixture.plain_push("bad", "p", "inf");
    let promoted = fixture.promote().await;
    assert_eq!((promoted.moved, promoted.bad, promoted.more), (4, 1, false));
    let leases = fixture.lease_up_to(9).await;
    assert_eq!(leases.len(), 3, "what has no payload is not a job");
    let bad: Vec<_> = leases.iter().filter(|lease| lease.options.is_err()).collect();
    assert_eq!(bad.len(), 1, "options that cannot be read are reported as such");
    for lease in leases {
        assert_eq!(fixture.settle(lease, Verdict::Ack).await, Settled::Done);
    }
    assert!(matches!(fixture.lease(&call(9)).await, Leased::Empty { .. }), "nothing comes again");
    assert_eq!(fixture.promote().await.next_due_in, None, "and no runner need wake for it");
}

/// Bucket races of schedulers without scripts: of two that promote and lease at the same time, each
/// job comes to one.
#[tokio::test]
async fn bucket_race_that_pushes_a_job_twice() {
    let fixture = Fixture::new().await;
    let jobs: Vec<NewJob> = (0..600).map(|n| job_in(&format!("j{n}"), 1)).collect();
    fixture.push_many(&jobs, IfExists::Reject).await;
    fixture.advance(Duration::from_secs(2), &mut []);
    let runner = async |runner: usize| {
        let mut had = Vec::new();
        for n in 0..40 {
            fixture.promote_some(50, 0).await;
            let call = LeaseCall::new(20, LEASE, format!("runner-{runner}:{n}"));
            if let Leased::Jobs(jobs) = fixture.lease(&call).await {
                had.extend(jobs.leases.into_iter().map(|lease| lease.id));
            }
        }
        had
    };
    let (one, two) = tokio::join!(runner(1), runner(2));
    let mut all: Vec<_> = one.iter().chain(&two).collect();
    assert_eq!(all.len(), 600);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 600, "some job came to both");
    assert!(!one.is_empty() && !two.is_empty());
}

/// An extension, a reschedule or a settle that makes no sense says so and changes nothing.
#[tokio::test]
async fn requests_that_make_no_sense_say_so() {
    let fixture = Fixture::new().await;
    fixture.push("dead").await;
    let lease = fixture.lease_only("dead").await;
    let gone = twin(&lease);
    fixture.settle(lease, drop_it()).await;
    let (queue, topic) = (&fixture.queue, &fixture.topic);
    let before = fixture.snapshot().state();
    assert_eq!(queue.reschedule(topic, &id("dead"), Due::Now).await.unwrap(), Rescheduled::None);
    assert_eq!(fixture.extend(&gone, LEASE).await, None);
    assert_eq!(fixture.settle(gone, Verdict::Ack).await, Settled::Lost);
    let nobodys = duebox_queue::Lease { token: Token::expiring_at_us(0), ..fake() };
    assert_eq!(fixture.settle(nobodys, Verdict::Ack).await, Settled::Lost);
    let words: Vec<String> = PUSH.call(&fixture, &["replace", "", "dead", "yesterday", "p", ""]);
    assert_eq!(words, ["bad_due"]);
    assert_eq!(fixture.snapshot().state(), before);
}

fn fake() -> duebox_queue::Lease {
    duebox_queue::Lease {
        id: id("nobody"),
        token: Token::expiring_at_us(1),
        due_at_ms: 0,
        place: 0.0,
        payload: Bytes::new(),
        payload_bytes: 0,
        options: Ok(Options::default()),
        failures: 0,
        crashes: 0,
        snoozes: 0,
    }
}
