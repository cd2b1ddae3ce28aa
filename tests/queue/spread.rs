//! Jobs of a topic are spread over its shards, and found again whatever the number of shards was when
//! they were pushed.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, FollowUpDue, Options, Shard, TopicName};
use duebox_queue::{
    Cancelled, Due, Finish, IfExists, JobState, Leased, Limits, NewJob, Pushed, Requeued,
    Rescheduled, Settled, Turn, Verdict,
};

use crate::fixture::{Fixture, call, drop_it, id, job, job_in};

impl Fixture {
    /// Splits the topic over so many slots, as the daemon does at its start.
    async fn split(&self, shards: u32) {
        let rules = Limits { shards: NonZero::new(shards), ..Limits::default() };
        self.queue.configure(&self.topic, &rules).await.unwrap();
    }

    async fn shards(&self) -> Vec<Shard> {
        self.queue.shards(&self.topic).await.unwrap().all().collect()
    }

    /// Leases what is ready in a shard.
    async fn lease_in(&self, shard: &Shard) -> Vec<duebox_queue::Lease> {
        let call = call(1_000);
        let turn = Turn { lease: Some(&call), ..Turn::default() };
        match self.queue.turn(shard, &turn).await.unwrap().leased {
            Some(Leased::Jobs(jobs)) => jobs.leases,
            Some(Leased::Empty { .. }) => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    async fn settle_in(
        &self,
        shard: &Shard,
        lease: duebox_queue::Lease,
        verdict: Verdict,
    ) -> Settled {
        let settlement = lease.settle(verdict);
        let turn = Turn { settle: vec![&settlement], ..Turn::default() };
        let reply = self.queue.turn(shard, &turn).await.unwrap();
        reply.settled.unwrap()[0]
    }

    /// Runs everything that is ready, and answers how often each id ran.
    async fn run_all(&self) -> BTreeMap<String, usize> {
        let mut ran = BTreeMap::new();
        for shard in self.shards().await {
            loop {
                let leases = self.lease_in(&shard).await;
                if leases.is_empty() {
                    break;
                }
                for lease in &leases {
                    *ran.entry(lease.id.to_string()).or_default() += 1;
                }
                let settle: Vec<_> =
                    leases.into_iter().map(|lease| lease.settle(Verdict::Ack)).collect();
                let turn = Turn { settle: settle.iter().collect(), ..Turn::default() };
                let words = self.queue.turn(&shard, &turn).await.unwrap().settled.unwrap();
                assert!(words.iter().all(|word| *word == Settled::Done), "{words:?}");
            }
        }
        ran
    }

    async fn shard_of(&self, name: &str) -> Option<u32> {
        let mut found = Vec::new();
        for shard in self.shards().await {
            let key = self.key("jobs").replace(self.topic.as_str(), shard.tag());
            if self.redis(redis::cmd("HEXISTS").arg(key).arg(name)) {
                found.push(shard.number());
            }
        }
        assert!(found.len() < 2, "{name} is in the shards {found:?}");
        found.pop()
    }
}

fn names(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|n| format!("job-{n}")).collect()
}

fn jobs(names: &[String]) -> Vec<NewJob> {
    names.iter().map(|name| job(name)).collect()
}

fn keyed(name: &str, key: &str) -> NewJob {
    NewJob { options: Options::default().with_key(key).unwrap(), ..job(name) }
}

/// Each of these once.
fn once(names: &[String]) -> BTreeMap<String, usize> {
    names.iter().map(|name| (name.clone(), 1)).collect()
}

#[tokio::test]
async fn thousands_of_jobs_are_spread_and_each_runs_once() {
    let fixture = Fixture::new().await;
    fixture.split(3).await;
    let names = names(0, 5_000);
    let words = fixture.push_many(&jobs(&names), IfExists::Reject).await;
    assert!(words.iter().all(|word| *word == Pushed::Pushed));
    let mut counts = [0_usize; 3];
    for name in &names {
        let home = crc32(name.as_bytes()) % 3;
        counts[home as usize] += 1;
    }
    for (shard, count) in fixture.shards().await.iter().zip(counts) {
        let key = fixture.key("ready").replace(fixture.topic.as_str(), shard.tag());
        assert_eq!(fixture.redis::<usize>(redis::cmd("ZCARD").arg(key)), count);
        assert!(count > 1_500, "{counts:?}");
    }
    let again = fixture.push_many(&jobs(&names), IfExists::Reject).await;
    assert!(again.iter().all(|word| *word == Pushed::Exists));
    assert_eq!(fixture.run_all().await, once(&names));
    let depths =
        fixture.queue.depths(std::slice::from_ref(&fixture.topic)).await.unwrap().remove(0);
    assert_eq!((depths.ready, depths.unack), (0, 0));
}

/// The words of a push are in the order of its jobs, wherever each goes.
#[tokio::test]
async fn outcomes_keep_the_order_of_the_jobs() {
    let fixture = Fixture::new().await;
    fixture.split(5).await;
    let odd: Vec<String> = names(0, 400).into_iter().skip(1).step_by(2).collect();
    fixture.push_many(&jobs(&odd), IfExists::Reject).await;
    let all = names(0, 400);
    let words = fixture.push_many(&jobs(&all), IfExists::Reject).await;
    for (at, word) in words.into_iter().enumerate() {
        assert_eq!(word, if at % 2 == 1 { Pushed::Exists } else { Pushed::Pushed }, "{at}");
    }
    let twice = fixture.push_many(&[job("x"), job("y"), job("x")], IfExists::Keep).await;
    assert_eq!(twice, [Pushed::Pushed, Pushed::Pushed, Pushed::Kept]);
}

#[tokio::test]
async fn jobs_of_one_key_meet_in_one_shard() {
    let fixture = Fixture::new().await;
    fixture.split(7).await;
    let names = names(0, 50);
    let jobs: Vec<NewJob> = names.iter().map(|name| keyed(name, "user 42")).collect();
    fixture.push_many(&jobs, IfExists::Reject).await;
    let mut met = BTreeSet::new();
    for name in &names {
        met.insert(fixture.shard_of(name).await.unwrap());
    }
    assert_eq!(met, BTreeSet::from([crc32(b"user 42") % 7]));
    // By id they are found all the same.
    let cancelled = fixture.queue.cancel(&fixture.topic, &id("job-7")).await.unwrap();
    assert_eq!(cancelled, Cancelled::Cancelled);
    assert_eq!(fixture.run_all().await.len(), 49);
}

/// The number of shards goes 1 → 4 → 2 → 5 with a backlog: each job is served where it is, known by
/// its id to everybody, and runs once.
#[tokio::test]
async fn nothing_is_lost_or_doubled_when_the_number_changes() {
    let fixture = Fixture::new().await;
    let mut pushed = Vec::new();
    for (round, shards) in [1, 4, 2, 5].into_iter().enumerate() {
        fixture.split(shards).await;
        let known = fixture.push_many(&jobs(&pushed), IfExists::Reject).await;
        assert!(known.iter().all(|word| *word == Pushed::Exists), "{shards} shards");
        let kept = fixture.push_many(&jobs(&pushed), IfExists::Keep).await;
        assert!(kept.iter().all(|word| *word == Pushed::Kept), "{shards} shards");
        let new = names(round * 500, (round + 1) * 500);
        let words = fixture.push_many(&jobs(&new), IfExists::Reject).await;
        assert!(words.iter().all(|word| *word == Pushed::Pushed), "{shards} shards");
        pushed.extend(new);
    }
    assert_eq!(fixture.shards().await.len(), 5);
    let mut moved = 0;
    for name in &pushed {
        let home = crc32(name.as_bytes()) % 5;
        moved += usize::from(fixture.shard_of(name).await != Some(home));
    }
    assert!(moved > 700, "only {moved} jobs were pushed elsewhere than they would go now");
    let replaced = fixture.push_many(&jobs(&pushed), IfExists::Replace).await;
    assert!(replaced.iter().all(|word| *word == Pushed::Replaced));
    let (gone, kept) = pushed.split_at(300);
    let ids: Vec<_> = gone.iter().map(|name| id(name)).collect();
    let words = fixture.queue.cancel_many(&fixture.topic, &ids).await.unwrap();
    assert!(words.iter().all(|word| *word == Cancelled::Cancelled));
    assert_eq!(fixture.run_all().await, once(kept));
}

#[tokio::test]
async fn a_job_is_cancelled_moved_and_found_in_any_shard() {
    let fixture = Fixture::new().await;
    fixture.split(4).await;
    let names = names(0, 40);
    let later: Vec<NewJob> = names.iter().map(|name| job_in(name, 3_600)).collect();
    fixture.push_many(&later, IfExists::Reject).await;
    fixture.split(3).await;
    let queue = &fixture.queue;
    for name in &names {
        let found = queue.get(&fixture.topic, &id(name)).await.unwrap().unwrap();
        assert_eq!(found.state, JobState::Pending, "{name}");
    }
    let (sooner, cancelled) = names.split_at(20);
    for name in sooner {
        let moved = queue.reschedule(&fixture.topic, &id(name), Due::Now).await.unwrap();
        assert_eq!(moved, Rescheduled::Ready, "{name}");
    }
    for name in cancelled {
        assert_eq!(
            queue.cancel(&fixture.topic, &id(name)).await.unwrap(),
            Cancelled::Cancelled,
            "{name}"
        );
    }
    let nobody = id("nobody");
    assert_eq!(queue.cancel(&fixture.topic, &nobody).await.unwrap(), Cancelled::None);
    let moved = queue.reschedule(&fixture.topic, &nobody, Due::Now).await.unwrap();
    assert_eq!(moved, Rescheduled::None);
    let early = Due::At(1_000);
    let bad = queue.reschedule(&fixture.topic, &id(&sooner[0]), early).await.unwrap();
    assert_eq!(bad, Rescheduled::BadDue);
    assert_eq!(fixture.run_all().await, once(sooner));
}

/// An id that lives elsewhere than it would go now is leased, cancelled, held: a push meets it there.
#[tokio::test]
async fn a_push_meets_its_id_in_the_old_shard() {
    let fixture = Fixture::new().await;
    fixture.split(2).await;
    // At home in another of 3 shards than of 2.
    let name = names(0, 100).into_iter().find(|name| crc32(name.as_bytes()) % 3 == 2).unwrap();
    fixture.push(&name).await;
    fixture.split(3).await;
    let old = fixture.topic.shard(fixture.shard_of(&name).await.unwrap());
    assert_ne!(old.number(), 2);
    let lease = fixture.lease_in(&old).await.remove(0);
    let successor = fixture.push_job(job(&name), IfExists::Replace).await;
    assert_eq!(successor, Pushed::Successor);
    assert_eq!(fixture.queue.cancel(&fixture.topic, &id(&name)).await.unwrap(), Cancelled::Leased);
    // It still runs, so its id stays taken.
    assert_eq!(fixture.push_job(job(&name), IfExists::Reject).await, Pushed::Successor);
    fixture.queue.cancel(&fixture.topic, &id(&name)).await.unwrap();
    let held = Finish { unique_for: Duration::from_secs(600), ..Finish::default() };
    assert_eq!(fixture.settle_in(&old, lease, Verdict::Finish(held)).await, Settled::Done);
    assert_eq!(fixture.push_job(job(&name), IfExists::Reject).await, Pushed::Held);
    assert_eq!(fixture.shard_of(&name).await, None);
}

#[tokio::test]
async fn a_dead_job_stays_dead_while_its_id_lives_in_another_shard() {
    let fixture = Fixture::new().await;
    fixture.split(2).await;
    let name = names(0, 100).into_iter().find(|name| crc32(name.as_bytes()) % 3 == 2).unwrap();
    fixture.push(&name).await;
    let old = fixture.topic.shard(fixture.shard_of(&name).await.unwrap());
    let lease = fixture.lease_in(&old).await.remove(0);
    assert_eq!(fixture.settle_in(&old, lease, drop_it()).await, Settled::Dead);
    fixture.split(3).await;
    fixture.push(&name).await;
    assert_eq!(fixture.shard_of(&name).await, Some(2));
    let ids = [id(&name), id("nobody")];
    let words = fixture.queue.requeue(&fixture.topic, &ids).await.unwrap();
    assert_eq!(words, [Requeued::Exists, Requeued::None]);
    assert_eq!(fixture.run_all().await, once(std::slice::from_ref(&name)));
    let words = fixture.queue.requeue(&fixture.topic, &ids).await.unwrap();
    assert_eq!(words, [Requeued::Ok, Requeued::None]);
    assert_eq!(fixture.run_all().await, once(&[name]));
}

#[tokio::test]
async fn earlier_numbers_are_forgotten_once_nothing_is_left() {
    let fixture = Fixture::new().await;
    let forgets = async || fixture.queue.forget_old_shards(&fixture.topic).await.unwrap();
    let seen = || -> Option<String> {
        fixture.redis(redis::cmd("HGET").arg(fixture.key("meta")).arg("shards_seen"))
    };
    assert!(forgets().await);
    fixture.split(4).await;
    fixture.push("a").await;
    fixture.split(2).await;
    assert_eq!((forgets().await, seen().as_deref()), (false, Some("4 2")));
    assert_eq!(fixture.run_all().await.len(), 1);
    assert_eq!((forgets().await, seen().as_deref()), (true, Some("2")));
    assert_eq!(fixture.shards().await.len(), 2);
    // What is dead may be asked for, too.
    let shard = fixture.topic.shard(1);
    let name = names(0, 99).into_iter().find(|name| crc32(name.as_bytes()) % 2 == 1).unwrap();
    fixture.push(&name).await;
    let lease = fixture.lease_in(&shard).await.remove(0);
    assert_eq!(fixture.settle_in(&shard, lease, drop_it()).await, Settled::Dead);
    fixture.split(1).await;
    assert_eq!((forgets().await, seen().as_deref()), (false, Some("2 1")));
    assert_eq!(fixture.queue.prune(&fixture.topic, &[id(&name)]).await.unwrap(), 1);
    assert_eq!((forgets().await, seen()), (true, None));
    assert_eq!(fixture.shards().await, std::slice::from_ref(&fixture.shard));
}

#[tokio::test]
async fn follow_ups_go_to_their_shards() {
    let fixture = Fixture::new().await;
    let parent = TopicName::new("parent").unwrap();
    fixture.split(4).await;
    let children = names(0, 60);
    let follow_ups = children.iter().map(|name| FollowUp {
        topic: fixture.topic.clone(),
        id: id(name),
        due: FollowUpDue::AfterMs(0),
        payload: Bytes::from_static(b"child"),
        options: Options::default(),
    });
    fixture.queue.push(&parent, &[job("p")], IfExists::Reject).await.unwrap();
    let lease = fixture.lease_in(&parent.first_shard()).await.remove(0);
    let finish = Finish { follow_ups: follow_ups.collect(), ..Finish::default() };
    assert_eq!(
        fixture.settle_in(&parent.first_shard(), lease, Verdict::Finish(finish)).await,
        Settled::Done
    );
    let relayed = fixture
        .queue
        .relay(&parent.first_shard(), &mut duebox_queue::RelayPass::default())
        .await
        .unwrap();
    assert_eq!((relayed.pushed, relayed.kept, relayed.faults.len()), (60, 0, 0));
    for name in &children {
        assert_eq!(fixture.shard_of(name).await, Some(crc32(name.as_bytes()) % 4), "{name}");
    }
    assert_eq!(fixture.run_all().await, once(&children));
}

/// Tables apart, as any language's own: the polynomial of zlib, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 }
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}
