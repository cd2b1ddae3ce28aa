//! The doctor next to producers and runners: it changes nothing that is valid.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use duebox_job::{Options, Priority, TopicName};
use duebox_queue::{
    Checkup, Due, IfExists, LeaseCall, Leased, Limits, NewJob, Promotion, Queue, ReclaimRule, Turn,
    Verdict,
};

use super::finish;
use crate::fixture::{Fixture, drop_it, id, job, release};

/// Ids, keys and times that meet often.
fn some_job() -> NewJob {
    let name = format!("job-{}", fastrand::u32(..60));
    let mut options = Options::default();
    if fastrand::bool() {
        options = options.with_key(&format!("key-{}", fastrand::u32(..4))).unwrap();
    }
    options = options.with_priority(Priority::ALL[fastrand::usize(..3)]);
    let due = if fastrand::bool() { Due::Now } else { Due::In(Duration::from_millis(20)) };
    NewJob { due, options, ..job(&name) }
}

/// Does what producers and runners do, in any order, until the test ends.
async fn live(queue: &Queue, topic: &TopicName, steps: &AtomicU32, over: &AtomicBool) {
    let shard = topic.first_shard();
    let mut held = Vec::new();
    let mut calls = 0;
    while !over.load(Ordering::Relaxed) {
        steps.fetch_add(1, Ordering::Relaxed);
        let some_id = id(&format!("job-{}", fastrand::u32(..60)));
        match fastrand::u32(..14) {
            0..3 => drop(queue.push(topic, &[some_job()], IfExists::Replace).await.unwrap()),
            3 => drop(queue.cancel(topic, &some_id).await.unwrap()),
            4 => drop(queue.reschedule(topic, &some_id, some_job().due).await.unwrap()),
            5 => drop(queue.requeue(topic, &[some_id]).await.unwrap()),
            12 => drop(queue.relay(&shard, &mut duebox_queue::RelayPass::default()).await.unwrap()),
            13 => drop(queue.prune(topic, &[some_id]).await.unwrap()),
            6..9 => {
                calls += 1;
                let name = format!("{}:{calls}", fastrand::u64(..));
                let call = LeaseCall::new(5, Duration::from_millis(30), name);
                let turn = Turn {
                    reclaim: Some(ReclaimRule {
                        max_crashes: NonZero::new(9),
                        delay: Duration::from_millis(5),
                        info: Some(r#"{"class":"crashed"}"#),
                        renewed_within: Duration::ZERO,
                    }),
                    promote: Some(Promotion { jobs: 1_000, skip: 0, discards_bad: false }),
                    lease: Some(&call),
                    ..Turn::default()
                };
                let reply = queue.turn(&shard, &turn).await.unwrap();
                if let Some(Leased::Jobs(jobs)) = reply.leased {
                    held.extend(jobs.leases);
                }
            }
            _ if held.is_empty() => {}
            _ => {
                let lease = held.swap_remove(fastrand::usize(..held.len()));
                let brief = Duration::from_millis(5);
                let verdict = match fastrand::u32(..7) {
                    6 => Verdict::Snooze {
                        delay: brief,
                        max_snoozes: 2,
                        nack_delay: brief,
                        max_attempts: 3,
                        info: "{}".to_owned(),
                    },
                    0 => Verdict::Nack { delay: brief, max_attempts: 3, info: "{}".to_owned() },
                    1 => drop_it(),
                    2 => release(),
                    3 => finish(),
                    // Its lease expires.
                    4 => continue,
                    _ => Verdict::Ack,
                };
                let one = lease.settle(verdict);
                queue.turn(&shard, &Turn { settle: vec![&one], ..Turn::default() }).await.unwrap();
            }
        }
    }
}

/// The doctor with its knife out goes round while everybody works: it must find nothing, since nothing
/// is wrong, and so harm nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_those_who_work_it_finds_nothing() {
    const ROUNDS: usize = 60;
    for rules in [
        Limits { per_key: NonZero::new(1), priorities: true, ..Limits::default() },
        Limits {
            per_key: NonZero::new(2),
            relaxed: true,
            max_running: NonZero::new(20),
            ..Limits::default()
        },
    ] {
        let fixture = Fixture::new().await;
        fixture.queue.configure(&fixture.topic, &rules).await.unwrap();
        let (steps, over) = (AtomicU32::new(0), AtomicBool::new(false));
        let (queue, topic) = (&fixture.queue, &fixture.topic);
        let work =
            futures_util::future::join_all((0..6).map(|_| live(queue, topic, &steps, &over)));
        let doctor = async {
            let mut found = Vec::new();
            for _ in 0..ROUNDS {
                queue
                    .examine(&fixture.shard, Checkup::REPAIR, &mut |f| found.push(f))
                    .await
                    .unwrap();
            }
            over.store(true, Ordering::Relaxed);
            found
        };
        let (found, _) = futures_util::future::join(doctor, work).await;
        assert_eq!(found, [], "after {} steps", steps.load(Ordering::Relaxed));
        assert!(steps.load(Ordering::Relaxed) > 500, "they worked");
    }
}
