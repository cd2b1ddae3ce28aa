//! The rules of a topic: priorities, rate, running jobs, waiting jobs, ttl; and what a lease call may
//! ask for itself: bytes, and age.

use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{Options, Priority, Rate};
use duebox_queue::{
    Due, Finish, IfExists, LeaseCall, Leased, LeasedJobs, Limits, NewJob, Pushed, Settled, Verdict,
};

use crate::fixture::{Fixture, LEASE, call, drop_it, id, job, job_in, nack, release};
use crate::snapshot::{Snapshot, ids};

const HOUR: Duration = Duration::from_secs(3_600);

async fn ground_with(rules: Limits) -> Fixture {
    let fixture = Fixture::new().await;
    assert!(fixture.queue.configure(&fixture.topic, &rules).await.unwrap());
    assert!(!fixture.queue.configure(&fixture.topic, &rules).await.unwrap(), "the same again");
    fixture
}

fn jobs(leased: Leased) -> LeasedJobs {
    match leased {
        Leased::Jobs(jobs) => jobs,
        other => panic!("{other:?}"),
    }
}

fn names(leased: &LeasedJobs) -> Vec<String> {
    leased.leases.iter().map(|lease| lease.id.to_string()).collect()
}

async fn push_ranked(fixture: &Fixture, priority: Priority, prefix: &str, count: usize) {
    let ranked = |n| NewJob {
        options: Options::default().with_priority(priority),
        ..job(&format!("{prefix}{n}"))
    };
    let jobs: Vec<NewJob> = (0..count).map(ranked).collect();
    fixture.push_many(&jobs, IfExists::Reject).await;
}

#[tokio::test]
async fn higher_priorities_go_first_and_keep_their_due_times() {
    let fixture = Fixture::new().await;
    push_ranked(&fixture, Priority::Low, "l", 1).await;
    fixture.advance(HOUR, &mut []);
    push_ranked(&fixture, Priority::Normal, "n", 1).await;
    fixture.advance(HOUR, &mut []);
    push_ranked(&fixture, Priority::High, "h", 1).await;
    let now = fixture.now_ms();
    let leased = jobs(fixture.lease(&call(9)).await);
    assert_eq!(names(&leased), ["h0", "n0", "l0"]);
    for (lease, hours) in leased.leases.iter().zip([0, 1, 2]) {
        let waited = now - lease.due_at_ms;
        assert!((hours * 3_600_000..hours * 3_600_000 + 60_000).contains(&waited), "{lease:?}");
    }
    // A released one is back under its priority, one that failed too.
    for lease in leased.leases {
        let verdict = if lease.id == id("h0") { nack() } else { release() };
        fixture.settle(lease, verdict).await;
    }
    fixture.advance(HOUR, &mut []);
    fixture.promote().await;
    assert_eq!(names(&jobs(fixture.lease(&call(9)).await)), ["h0", "n0", "l0"]);
}

#[tokio::test]
async fn of_ten_jobs_six_are_high_three_normal_and_one_low() {
    let fixture = ground_with(Limits { priorities: true, ..Limits::default() }).await;
    for (priority, prefix) in Priority::ALL.into_iter().zip(["h", "n", "l"]) {
        push_ranked(&fixture, priority, prefix, 40).await;
    }
    let count = |names: &[String], prefix| names.iter().filter(|n| n.starts_with(prefix)).count();
    // However the leases are cut into calls.
    for calls in [&[10][..], &[3, 3, 4], &[1; 10], &[20]] {
        let mut leased = Vec::new();
        for n in calls {
            leased.extend(names(&jobs(fixture.lease(&call(*n)).await)));
        }
        let tens = leased.len() / 10;
        let shares = ["h", "n", "l"].map(|prefix| count(&leased, prefix));
        assert_eq!(shares, [6 * tens, 3 * tens, tens], "{calls:?}");
    }
}

#[tokio::test]
async fn what_a_priority_does_not_use_goes_to_the_highest_of_the_others() {
    let fixture = ground_with(Limits { priorities: true, ..Limits::default() }).await;
    push_ranked(&fixture, Priority::Low, "l", 9).await;
    push_ranked(&fixture, Priority::Normal, "n", 3).await;
    let leased = names(&jobs(fixture.lease(&call(6)).await));
    assert_eq!(leased.iter().filter(|name| name.starts_with('n')).count(), 3);
    assert_eq!(names(&jobs(fixture.lease(&call(9)).await)).len(), 6, "the low ones go on alone");
}

#[tokio::test]
async fn a_rate_lets_a_burst_start_and_then_one_after_the_other() {
    let rate = Some(Rate::parse("2/h").unwrap());
    let fixture = ground_with(Limits { rate, burst: NonZero::new(3), ..Limits::default() }).await;
    for n in 0..9 {
        fixture.push(&format!("j{n}")).await;
    }
    let first = jobs(fixture.lease(&call(9)).await);
    assert_eq!(first.leases.len(), 3);
    let half = HOUR / 2;
    let wait = first.wait.unwrap();
    assert!(wait <= half && wait > half - Duration::from_secs(60), "{wait:?}");
    match fixture.lease(&call(9)).await {
        Leased::Limited { wait: Some(wait) } => assert!(wait <= half, "{wait:?}"),
        other => panic!("{other:?}"),
    }
    // Not a moment before, and after an hour two.
    fixture.advance(half - Duration::from_secs(60), &mut []);
    assert!(matches!(fixture.lease(&call(9)).await, Leased::Limited { .. }));
    fixture.advance(half + Duration::from_secs(60), &mut []);
    assert_eq!(jobs(fixture.lease(&call(9)).await).leases.len(), 2);
    // A topic that slept for long has its burst, and no more.
    fixture.advance(HOUR * 20, &mut []);
    assert_eq!(jobs(fixture.lease(&call(9)).await).leases.len(), 3);
}

#[tokio::test]
async fn a_repeated_call_costs_no_rate() {
    let rate = Some(Rate::parse("1/h").unwrap());
    let fixture = ground_with(Limits { rate, burst: NonZero::new(2), ..Limits::default() }).await;
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
    }
    let lost = call(1);
    for _ in 0..3 {
        assert_eq!(names(&jobs(fixture.lease(&lost).await)), ["a"]);
    }
    assert_eq!(names(&jobs(fixture.lease(&call(9)).await)), ["b"]);
}

#[tokio::test]
async fn no_more_run_than_may_and_an_end_lets_the_next_start() {
    let fixture = ground_with(Limits { max_running: NonZero::new(2), ..Limits::default() }).await;
    for name in ["a", "b", "c"] {
        fixture.push(name).await;
    }
    let mut leases = fixture.lease_up_to(9).await;
    assert_eq!(leases.len(), 2);
    assert!(matches!(fixture.lease(&call(9)).await, Leased::Limited { wait: None }));
    assert_eq!(Snapshot::text(&fixture.snapshot().meta, "waiting"), "1");
    let asleep = Due::In(Duration::from_secs(60));
    fixture.push_job(NewJob { due: asleep, ..job("later") }, IfExists::Reject).await;
    fixture.promote().await;
    let asleep_until = fixture.snapshot().wake().unwrap();
    fixture.settle(leases.remove(0), Verdict::Ack).await;
    let after = fixture.snapshot();
    assert!(after.wake().unwrap() < asleep_until, "sleeping runners are woken");
    assert_eq!(after.number("waiting"), None);
    assert_eq!(fixture.lease_up_to(9).await.len(), 1);
    // A runner that died frees its places too.
    fixture.push("d").await;
    assert!(matches!(fixture.lease(&call(9)).await, Leased::Limited { wait: None }));
    fixture.advance(LEASE, &mut []);
    assert_eq!(fixture.reclaim().await.jobs.len(), 2);
    assert_eq!(fixture.snapshot().number("waiting"), None);
}

#[tokio::test]
async fn a_full_topic_refuses_pushes_by_name_and_takes_them_when_there_is_room() {
    let fixture = ground_with(Limits {
        max_pending: NonZero::new(3),
        per_key: NonZero::new(1),
        ..Limits::default()
    })
    .await;
    let keyed = |name| NewJob { options: Options::default().with_key("k").unwrap(), ..job(name) };
    fixture.push_many(&[keyed("turn"), keyed("line"), job_in("later", 60)], IfExists::Reject).await;
    let before = fixture.snapshot().state();
    let batch = [job("a"), job("turn"), job("b")];
    let words = fixture.push_many(&batch, IfExists::Reject).await;
    assert_eq!(words, [Pushed::Full, Pushed::Exists, Pushed::Full]);
    assert_eq!(fixture.snapshot().state(), before, "a refused push has changed a key");
    // Taking the place of one that waits adds none; following a leased one does.
    assert_eq!(fixture.push_job(job("later"), IfExists::Replace).await, Pushed::Replaced);
    let lease = fixture.lease_up_to(1).await.remove(0);
    let name = lease.id.to_string();
    assert_eq!(fixture.push_job(job("a"), IfExists::Reject).await, Pushed::Pushed, "one has left");
    assert_eq!(fixture.push_job(job(&name), IfExists::Replace).await, Pushed::Full);
    fixture.settle(lease, nack()).await;
    assert_eq!(fixture.push_job(job("b"), IfExists::Reject).await, Pushed::Full);
}

#[tokio::test]
async fn a_job_that_was_not_started_in_time_is_dead_by_name_or_forgotten() {
    let fixture = ground_with(Limits { ttl: Some(HOUR), ..Limits::default() }).await;
    let own = |name: &str, ttl| NewJob { options: Options::default().with_ttl(ttl), ..job(name) };
    let all = [own("never", Duration::ZERO), own("shorter", HOUR / 2), job("topic")];
    fixture.push_many(&all, IfExists::Reject).await;
    fixture.push_job(job_in("later", 7_200), IfExists::Reject).await;
    fixture.advance(HOUR * 3 / 4, &mut []);
    let leased = jobs(fixture.lease(&call(1)).await);
    assert_eq!((leased.expired, leased.leases.len()), (0, 1));
    let [lease] = leased.leases.try_into().unwrap();
    assert_eq!(lease.id, id("never"));
    fixture.settle(lease, release()).await;
    fixture.advance(HOUR, &mut []);
    fixture.promote().await;
    let discarding = LeaseCall { expired_info: None, jobs: 2, ..call(9) };
    let leased = jobs(fixture.lease(&discarding).await);
    assert_eq!((names(&leased), leased.expired), (vec!["never".to_owned()], 1), "oldest first");
    let leased = jobs(fixture.lease(&call(9)).await);
    assert_eq!((leased.leases.len(), leased.expired), (0, 1));
    let after = fixture.snapshot();
    assert_eq!(ids(&after.dead), ["topic"]);
    assert!(Snapshot::text(&after.dead_info, "topic").contains(r#""class":"expired""#));
    assert_eq!(ids(&after.jobs), ["later", "never"]);
}

#[tokio::test]
async fn a_job_that_was_started_does_not_expire() {
    let fixture = ground_with(Limits { ttl: Some(HOUR), ..Limits::default() }).await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, nack()).await;
    fixture.advance(HOUR * 9, &mut []);
    fixture.promote().await;
    fixture.advance(HOUR * 9, &mut []);
    assert_eq!(fixture.lease_only("a").await.failures, 1);
}

#[tokio::test]
async fn a_call_takes_so_many_bytes_and_one_job_at_least() {
    let fixture = Fixture::new().await;
    let sized = |name: &str, bytes| NewJob { payload: Bytes::from(vec![0; bytes]), ..job(name) };
    let all = [sized("a", 100), sized("b", 100), sized("c", 100), sized("d", 9_000)];
    fixture.push_many(&all, IfExists::Reject).await;
    let up_to = |bytes| LeaseCall { bytes_max: Some(bytes), ..call(9) };
    let leased = jobs(fixture.lease(&up_to(250)).await);
    assert_eq!((names(&leased), leased.wait), (vec!["a".into(), "b".into()], Some(Duration::ZERO)));
    assert_eq!(names(&jobs(fixture.lease(&up_to(250)).await)), ["c"]);
    assert_eq!(names(&jobs(fixture.lease(&up_to(250)).await)), ["d"], "larger than all, and alone");
}

#[tokio::test]
async fn a_call_can_want_jobs_of_some_age() {
    let fixture = Fixture::new().await;
    push_ranked(&fixture, Priority::Low, "old", 1).await;
    fixture.advance(HOUR, &mut []);
    push_ranked(&fixture, Priority::High, "young", 1).await;
    let aged = || LeaseCall { min_age: HOUR / 2, ..call(9) };
    assert_eq!(names(&jobs(fixture.lease(&aged()).await)), ["old0"]);
    match fixture.lease(&aged()).await {
        Leased::Empty { wait: Some(wait) } => assert!(wait <= HOUR / 2, "{wait:?}"),
        other => panic!("{other:?}"),
    }
    fixture.advance(HOUR / 2, &mut []);
    assert_eq!(names(&jobs(fixture.lease(&aged()).await)), ["young0"]);
}

#[tokio::test]
async fn an_id_is_held_for_a_while_after_its_job_is_done() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let lease = fixture.lease_only("a").await;
    let finish = Finish { unique_for: HOUR, ..Finish::default() };
    assert_eq!(fixture.settle(lease, Verdict::Finish(finish)).await, Settled::Done);
    let before = fixture.snapshot().state();
    for (mode, word) in [
        (IfExists::Reject, Pushed::Held),
        (IfExists::Replace, Pushed::Held),
        (IfExists::Keep, Pushed::Kept),
    ] {
        assert_eq!(fixture.push_job(job("a"), mode).await, word);
        assert_eq!(fixture.snapshot().state(), before);
    }
    // Plain pushes are not refused; what they push is alive as any other.
    fixture.plain_push("a", "p", 0);
    fixture.promote().await;
    assert_eq!(fixture.push_job(job("a"), IfExists::Reject).await, Pushed::Exists);
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, Verdict::Ack).await;
    assert_eq!(fixture.push_job(job("a"), IfExists::Reject).await, Pushed::Held);
    fixture.advance(HOUR, &mut []);
    assert_eq!(fixture.push_job(job("a"), IfExists::Reject).await, Pushed::Pushed);
    // Only an ack holds.
    let lease = fixture.lease_only("a").await;
    fixture.settle(lease, drop_it()).await;
    assert_eq!(fixture.push_job(job("a"), IfExists::Reject).await, Pushed::Pushed);
}

#[tokio::test]
async fn a_paused_topic_stays_paused_and_wakes_when_it_is_resumed() {
    let fixture = Fixture::new().await;
    fixture.push("a").await;
    let (queue, topic) = (&fixture.queue, &fixture.topic);
    assert!(queue.pause(topic).await.unwrap());
    assert!(!queue.pause(topic).await.unwrap(), "it is paused already");
    assert!(matches!(fixture.lease(&call(9)).await, Leased::Paused));
    let later = Due::In(Duration::from_secs(60));
    fixture.push_job(NewJob { due: later, ..job("b") }, IfExists::Reject).await;
    fixture.promote().await;
    let asleep_until = fixture.snapshot().wake().unwrap();
    assert!(queue.resume(topic).await.unwrap());
    assert!(!queue.resume(topic).await.unwrap());
    assert!(fixture.snapshot().wake().unwrap() < asleep_until);
    fixture.lease_only("a").await;
}
