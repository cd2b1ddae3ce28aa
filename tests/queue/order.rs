//! Jobs that fall due in the same millisecond run in the order of their pushes.

use std::time::Duration;

use duebox_job::{Options, Priority};
use duebox_queue::{Due, IfExists, Lease, LeaseCall, Leased, NewJob, Promotion, Turn, Verdict};

use crate::fixture::{Fixture, call, job, release};

const MANY: usize = 10_000;
const HOUR: Duration = Duration::from_secs(3_600);

fn counted() -> Vec<String> {
    (1..=MANY).map(|number| format!("x-{number}")).collect()
}

fn random() -> Vec<String> {
    let mut rng = fastrand::Rng::with_seed(15);
    (0..MANY).map(|_| format!("{:032x}", rng.u128(..))).collect()
}

/// Pushes the jobs in a few calls, as a producer does that has many.
async fn push_all(fixture: &Fixture, names: &[String], due: Due, options: &Options) {
    for names in names.chunks(700) {
        let jobs: Vec<NewJob> = names
            .iter()
            .map(|name| NewJob { due, options: options.clone(), ..job(name) })
            .collect();
        let pushed = fixture.push_many(&jobs, IfExists::Reject).await;
        assert!(pushed.iter().all(|word| word.is_stored()));
    }
}

async fn lease(fixture: &Fixture, jobs: usize) -> Vec<Lease> {
    match fixture.lease(&LeaseCall { at_once: 1, ..call(jobs) }).await {
        Leased::Jobs(jobs) => jobs.leases,
        Leased::Empty { .. } => Vec::new(),
        other => panic!("{other:?}"),
    }
}

/// Works as a runner with `concurrency = 1` does that leases far ahead: it acks some of what it leased, and
/// releases the others.
async fn work_off(fixture: &Fixture) -> Vec<String> {
    let mut ran = Vec::new();
    for turn in 0.. {
        let promote = Some(Promotion { jobs: 1_000, skip: 0, discards_bad: false });
        fixture.turn(&Turn { promote, ..Turn::default() }).await;
        let leases = lease(fixture, [1_000, 7, 300, 40][turn % 4]).await;
        if leases.is_empty() {
            return ran;
        }
        let most = leases.len() - leases.len() / 5;
        let settled: Vec<_> = leases
            .into_iter()
            .enumerate()
            .map(|(at, lease)| {
                if at >= most {
                    return lease.settle(release());
                }
                ran.push(lease.id.to_string());
                lease.settle(Verdict::Ack)
            })
            .collect();
        fixture.settle_many(&settled).await;
    }
    ran
}

/// The first place at which two orders differ.
fn assert_same_order(ran: &[String], pushed: &[String], what: &str) {
    assert_eq!(ran.len(), pushed.len(), "{what}");
    let differ = ran.iter().zip(pushed).position(|(ran, pushed)| ran != pushed);
    let Some(at) = differ else { return };
    let near = at.saturating_sub(2)..(at + 4).min(ran.len());
    panic!("{what}, job {at}: {:?} ran instead of {:?}", &ran[near.clone()], &pushed[near]);
}

#[tokio::test]
async fn ten_thousand_jobs_run_in_the_order_of_their_pushes() {
    for (names, what) in [(counted(), "counted ids"), (random(), "random ids")] {
        let fixture = Fixture::new().await;
        push_all(&fixture, &names, Due::Now, &Options::default()).await;
        assert_same_order(&work_off(&fixture).await, &names, what);

        // All in one millisecond of the past, and of the future.
        let now = fixture.now_ms();
        push_all(&fixture, &names, Due::At(now - 5_000), &Options::default()).await;
        assert_same_order(&work_off(&fixture).await, &names, what);
        push_all(&fixture, &names, Due::At(now + 3_600_000), &Options::default()).await;
        assert_eq!(work_off(&fixture).await, [""; 0], "none is early");
        fixture.advance(HOUR + Duration::from_secs(60), &mut []);
        assert_same_order(&work_off(&fixture).await, &names, what);
    }
}

/// Ids that count up need few places: an order of priorities has 32 in a millisecond.
#[tokio::test]
async fn jobs_of_one_priority_keep_their_order() {
    let fixture = Fixture::new().await;
    let names = counted();
    for priority in [Priority::Low, Priority::High] {
        let options = Options::default().with_priority(priority);
        push_all(&fixture, &names, Due::Now, &options).await;
        assert_same_order(&work_off(&fixture).await, &names, "priority");
    }
}

#[tokio::test]
async fn calls_in_the_same_millisecond_keep_their_order() {
    let fixture = Fixture::new().await;
    let at = Due::At(fixture.now_ms() - 1_000);
    let names: Vec<String> = (1..=300).rev().map(|number| format!("x-{number}")).collect();
    for name in &names {
        fixture.push_job(NewJob { due: at, ..job(name) }, IfExists::Reject).await;
    }
    assert_same_order(&work_off(&fixture).await, &names, "single pushes");
}

#[tokio::test]
async fn due_times_are_shown_in_whole_milliseconds() {
    let fixture = Fixture::new().await;
    let due = fixture.now_ms() - 1_000;
    let names: Vec<String> = (1..=300).rev().map(|number| format!("x-{number}")).collect();
    push_all(&fixture, &names, Due::At(due), &Options::default()).await;
    for job in fixture.queue.list_live(&fixture.topic, 1_000).await.unwrap() {
        assert_eq!(job.at_ms, due, "{}", job.id);
    }
    let found = fixture.queue.get(&fixture.topic, &crate::fixture::id("x-7")).await.unwrap();
    assert_eq!(found.unwrap().due_at_ms, Some(due));
    assert!(lease(&fixture, 300).await.iter().all(|lease| lease.due_at_ms == due));
}
