//! The rules of a topic: priorities, rate, running jobs, waiting jobs, ttl; and what a lease call may
//! ask for itself: bytes, and age.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{Options, Priority, Rate};
use duebox_queue::{
    Due, Finish, IfExists, LeaseCall, Leased, LeasedJobs, NewJob, Pushed, Rules, Settled, Verdict,
};

use crate::ground::{Ground, LEASE, call, drop_it, id, job, job_in, nack, release};
use crate::snapshot::{Snapshot, ids};

const HOUR: Duration = Duration::from_secs(3_600);

async fn ground_with(rules: Rules) -> Ground {
    let ground = Ground::new().await;
    assert!(ground.queue.configure(&ground.topic, &rules).await.unwrap());
    assert!(!ground.queue.configure(&ground.topic, &rules).await.unwrap(), "the same again");
    ground
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

async fn push_ranked(ground: &Ground, priority: Priority, prefix: &str, count: usize) {
    let ranked = |n| NewJob {
        options: Options::default().with_priority(priority),
        ..job(&format!("{prefix}{n}"))
    };
    let jobs: Vec<NewJob> = (0..count).map(ranked).collect();
    ground.push_many(&jobs, IfExists::Reject).await;
}

#[tokio::test]
async fn higher_priorities_go_first_and_keep_their_due_times() {
    let ground = Ground::new().await;
    push_ranked(&ground, Priority::Low, "l", 1).await;
    ground.advance(HOUR, &mut []);
    push_ranked(&ground, Priority::Normal, "n", 1).await;
    ground.advance(HOUR, &mut []);
    push_ranked(&ground, Priority::High, "h", 1).await;
    let now = ground.now_ms();
    let leased = jobs(ground.lease(&call(9)).await);
    assert_eq!(names(&leased), ["h0", "n0", "l0"]);
    for (lease, hours) in leased.leases.iter().zip([0, 1, 2]) {
        let waited = now - lease.due_at_ms;
        assert!((hours * 3_600_000..hours * 3_600_000 + 60_000).contains(&waited), "{lease:?}");
    }
    // A released one is back under its priority, one that failed too.
    for lease in leased.leases {
        let verdict = if lease.id == id("h0") { nack() } else { release() };
        ground.settle(lease, verdict).await;
    }
    ground.advance(HOUR, &mut []);
    ground.promote().await;
    assert_eq!(names(&jobs(ground.lease(&call(9)).await)), ["h0", "n0", "l0"]);
}

#[tokio::test]
async fn of_ten_jobs_six_are_high_three_normal_and_one_low() {
    let ground = ground_with(Rules { priorities: true, ..Rules::default() }).await;
    for (priority, prefix) in Priority::ALL.into_iter().zip(["h", "n", "l"]) {
        push_ranked(&ground, priority, prefix, 40).await;
    }
    let count = |names: &[String], prefix| names.iter().filter(|n| n.starts_with(prefix)).count();
    // However the leases are cut into calls.
    for calls in [&[10][..], &[3, 3, 4], &[1; 10], &[20]] {
        let mut leased = Vec::new();
        for n in calls {
            leased.extend(names(&jobs(ground.lease(&call(*n)).await)));
        }
        let tens = leased.len() / 10;
        let shares = ["h", "n", "l"].map(|prefix| count(&leased, prefix));
        assert_eq!(shares, [6 * tens, 3 * tens, tens], "{calls:?}");
    }
}

#[tokio::test]
async fn what_a_priority_does_not_use_goes_to_the_highest_of_the_others() {
    let ground = ground_with(Rules { priorities: true, ..Rules::default() }).await;
    push_ranked(&ground, Priority::Low, "l", 9).await;
    push_ranked(&ground, Priority::Normal, "n", 3).await;
    let leased = names(&jobs(ground.lease(&call(6)).await));
    assert_eq!(leased.iter().filter(|name| name.starts_with('n')).count(), 3);
    assert_eq!(names(&jobs(ground.lease(&call(9)).await)).len(), 6, "the low ones go on alone");
}

#[tokio::test]
async fn a_rate_lets_a_burst_start_and_then_one_after_the_other() {
    let rate = Some(Rate::parse("2/h").unwrap());
    let ground = ground_with(Rules { rate, burst: 3, ..Rules::default() }).await;
    for n in 0..9 {
        ground.push(&format!("j{n}")).await;
    }
    let first = jobs(ground.lease(&call(9)).await);
    assert_eq!(first.leases.len(), 3);
    let half = HOUR / 2;
    let wait = first.wait.unwrap();
    assert!(wait <= half && wait > half - Duration::from_secs(60), "{wait:?}");
    match ground.lease(&call(9)).await {
        Leased::Limited { wait: Some(wait) } => assert!(wait <= half, "{wait:?}"),
        other => panic!("{other:?}"),
    }
    // Not a moment before, and after an hour two.
    ground.advance(half - Duration::from_secs(60), &mut []);
    assert!(matches!(ground.lease(&call(9)).await, Leased::Limited { .. }));
    ground.advance(half + Duration::from_secs(60), &mut []);
    assert_eq!(jobs(ground.lease(&call(9)).await).leases.len(), 2);
    // A topic that slept for long has its burst, and no more.
    ground.advance(HOUR * 20, &mut []);
    assert_eq!(jobs(ground.lease(&call(9)).await).leases.len(), 3);
}

#[tokio::test]
async fn a_repeated_call_costs_no_rate() {
    let rate = Some(Rate::parse("1/h").unwrap());
    let ground = ground_with(Rules { rate, burst: 2, ..Rules::default() }).await;
    for name in ["a", "b", "c"] {
        ground.push(name).await;
    }
    let lost = call(1);
    for _ in 0..3 {
        assert_eq!(names(&jobs(ground.lease(&lost).await)), ["a"]);
    }
    assert_eq!(names(&jobs(ground.lease(&call(9)).await)), ["b"]);
}

#[tokio::test]
async fn no_more_run_than_may_and_an_end_lets_the_next_start() {
    let ground = ground_with(Rules { max_running: 2, ..Rules::default() }).await;
    for name in ["a", "b", "c"] {
        ground.push(name).await;
    }
    let mut leases = ground.lease_up_to(9).await;
    assert_eq!(leases.len(), 2);
    assert!(matches!(ground.lease(&call(9)).await, Leased::Limited { wait: None }));
    assert_eq!(Snapshot::text(&ground.snapshot().meta, "waiting"), "1");
    let asleep = Due::In(Duration::from_secs(60));
    ground.push_job(NewJob { due: asleep, ..job("later") }, IfExists::Reject).await;
    ground.promote().await;
    let asleep_until = ground.snapshot().wake().unwrap();
    ground.settle(leases.remove(0), Verdict::Ack).await;
    let after = ground.snapshot();
    assert!(after.wake().unwrap() < asleep_until, "whoever sleeps is woken");
    assert_eq!(after.number("waiting"), None);
    assert_eq!(ground.lease_up_to(9).await.len(), 1);
    // A runner that died frees its places too.
    ground.push("d").await;
    assert!(matches!(ground.lease(&call(9)).await, Leased::Limited { wait: None }));
    ground.advance(LEASE, &mut []);
    assert_eq!(ground.reclaim().await.jobs.len(), 2);
    assert_eq!(ground.snapshot().number("waiting"), None);
}

#[tokio::test]
async fn a_full_topic_refuses_pushes_by_name_and_takes_them_when_there_is_room() {
    let ground = ground_with(Rules { max_pending: 3, per_key: 1, ..Rules::default() }).await;
    let keyed = |name| NewJob { options: Options::default().with_key("k").unwrap(), ..job(name) };
    ground.push_many(&[keyed("turn"), keyed("line"), job_in("later", 60)], IfExists::Reject).await;
    let before = ground.snapshot().state();
    let batch = [job("a"), job("turn"), job("b")];
    let words = ground.push_many(&batch, IfExists::Reject).await;
    assert_eq!(words, [Pushed::Full, Pushed::Exists, Pushed::Full]);
    assert_eq!(ground.snapshot().state(), before, "a refused push has changed a key");
    // Taking the place of one that waits adds none; following a leased one does.
    assert_eq!(ground.push_job(job("later"), IfExists::Replace).await, Pushed::Replaced);
    let lease = ground.lease_up_to(1).await.remove(0);
    let name = lease.id.to_string();
    assert_eq!(ground.push_job(job("a"), IfExists::Reject).await, Pushed::Pushed, "one has left");
    assert_eq!(ground.push_job(job(&name), IfExists::Replace).await, Pushed::Full);
    ground.settle(lease, nack()).await;
    assert_eq!(ground.push_job(job("b"), IfExists::Reject).await, Pushed::Full);
}

#[tokio::test]
async fn a_job_that_was_not_started_in_time_is_dead_by_name_or_forgotten() {
    let ground = ground_with(Rules { ttl: HOUR, ..Rules::default() }).await;
    let own = |name: &str, ttl| NewJob { options: Options::default().with_ttl(ttl), ..job(name) };
    let all = [job("topic"), own("shorter", HOUR / 2), own("never", Duration::ZERO)];
    ground.push_many(&all, IfExists::Reject).await;
    ground.push_job(job_in("later", 7_200), IfExists::Reject).await;
    ground.advance(HOUR * 3 / 4, &mut []);
    let leased = jobs(ground.lease(&call(1)).await);
    assert_eq!((leased.expired, leased.leases.len()), (0, 1));
    let [lease] = leased.leases.try_into().unwrap();
    assert_eq!(lease.id, id("never"));
    ground.settle(lease, release()).await;
    ground.advance(HOUR, &mut []);
    ground.promote().await;
    let discarding = LeaseCall { expired_info: String::new(), jobs: 2, ..call(9) };
    let leased = jobs(ground.lease(&discarding).await);
    assert_eq!((names(&leased), leased.expired), (vec!["never".to_owned()], 1), "oldest first");
    let leased = jobs(ground.lease(&call(9)).await);
    assert_eq!((leased.leases.len(), leased.expired), (0, 1));
    let after = ground.snapshot();
    assert_eq!(ids(&after.dead), ["topic"]);
    assert!(Snapshot::text(&after.dead_info, "topic").contains(r#""class":"expired""#));
    assert_eq!(ids(&after.jobs), ["later", "never"]);
}

#[tokio::test]
async fn a_job_that_was_started_does_not_expire() {
    let ground = ground_with(Rules { ttl: HOUR, ..Rules::default() }).await;
    ground.push("a").await;
    let lease = ground.lease_only("a").await;
    ground.settle(lease, nack()).await;
    ground.advance(HOUR * 9, &mut []);
    ground.promote().await;
    ground.advance(HOUR * 9, &mut []);
    assert_eq!(ground.lease_only("a").await.failures, 1);
}

#[tokio::test]
async fn a_call_takes_so_many_bytes_and_one_job_at_least() {
    let ground = Ground::new().await;
    let sized = |name: &str, bytes| NewJob { payload: Bytes::from(vec![0; bytes]), ..job(name) };
    let all = [sized("a", 100), sized("b", 100), sized("c", 100), sized("d", 9_000)];
    ground.push_many(&all, IfExists::Reject).await;
    let up_to = |bytes| LeaseCall { bytes_max: Some(bytes), ..call(9) };
    let leased = jobs(ground.lease(&up_to(250)).await);
    assert_eq!((names(&leased), leased.wait), (vec!["a".into(), "b".into()], Some(Duration::ZERO)));
    assert_eq!(names(&jobs(ground.lease(&up_to(250)).await)), ["c"]);
    assert_eq!(names(&jobs(ground.lease(&up_to(250)).await)), ["d"], "larger than all, and alone");
}

#[tokio::test]
async fn a_call_can_want_jobs_of_some_age() {
    let ground = Ground::new().await;
    push_ranked(&ground, Priority::Low, "old", 1).await;
    ground.advance(HOUR, &mut []);
    push_ranked(&ground, Priority::High, "young", 1).await;
    let aged = || LeaseCall { min_age: HOUR / 2, ..call(9) };
    assert_eq!(names(&jobs(ground.lease(&aged()).await)), ["old0"]);
    match ground.lease(&aged()).await {
        Leased::Empty { wait: Some(wait) } => assert!(wait <= HOUR / 2, "{wait:?}"),
        other => panic!("{other:?}"),
    }
    ground.advance(HOUR / 2, &mut []);
    assert_eq!(names(&jobs(ground.lease(&aged()).await)), ["young0"]);
}

#[tokio::test]
async fn an_id_is_held_for_a_while_after_its_job_is_done() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let lease = ground.lease_only("a").await;
    let finish = Finish { unique_for: HOUR, ..Finish::default() };
    assert_eq!(ground.settle(lease, Verdict::Finish(finish)).await, Settled::Done);
    let before = ground.snapshot().state();
    for (mode, word) in [
        (IfExists::Reject, Pushed::Held),
        (IfExists::Replace, Pushed::Held),
        (IfExists::Keep, Pushed::Kept),
    ] {
        assert_eq!(ground.push_job(job("a"), mode).await, word);
        assert_eq!(ground.snapshot().state(), before);
    }
    // Plain pushes are not refused; what they push is alive as any other.
    ground.plain_push("a", "p", 0);
    ground.promote().await;
    assert_eq!(ground.push_job(job("a"), IfExists::Reject).await, Pushed::Exists);
    let lease = ground.lease_only("a").await;
    ground.settle(lease, Verdict::Ack).await;
    assert_eq!(ground.push_job(job("a"), IfExists::Reject).await, Pushed::Held);
    ground.advance(HOUR, &mut []);
    assert_eq!(ground.push_job(job("a"), IfExists::Reject).await, Pushed::Pushed);
    // Only an ack holds.
    let lease = ground.lease_only("a").await;
    ground.settle(lease, drop_it()).await;
    assert_eq!(ground.push_job(job("a"), IfExists::Reject).await, Pushed::Pushed);
}

#[tokio::test]
async fn a_paused_topic_stays_paused_and_wakes_when_it_is_resumed() {
    let ground = Ground::new().await;
    ground.push("a").await;
    let (queue, topic) = (&ground.queue, &ground.topic);
    assert!(queue.pause(topic).await.unwrap());
    assert!(!queue.pause(topic).await.unwrap(), "it is paused already");
    assert!(matches!(ground.lease(&call(9)).await, Leased::Paused));
    let later = Due::In(Duration::from_secs(60));
    ground.push_job(NewJob { due: later, ..job("b") }, IfExists::Reject).await;
    ground.promote().await;
    let asleep_until = ground.snapshot().wake().unwrap();
    assert!(queue.resume(topic).await.unwrap());
    assert!(!queue.resume(topic).await.unwrap());
    assert!(ground.snapshot().wake().unwrap() < asleep_until);
    ground.lease_only("a").await;
}
