//! Every verb of a topic, called at least once, so that its script runs on the server of the test.

use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, FollowUpDue, JobId, Options, Priority, Rate, Shard, TopicName};
use duebox_queue::{
    Cancelled, Checkup, ConnectionSettings, DeadQuery, Due, Extension, Finding, Finish, IfExists,
    JobQuery, JobState, KvCondition, KvWrite, Lease, LeaseCall, Leased, Limits, NewJob, PageQuery,
    Promotion, Pushed, Queue, ReclaimRule, RelayPass, Requeued, Rescheduled, RetentionLimits,
    Settled, Tick, Ticked, Turn, TurnReply, Verdict,
};
use redis::cmd;

use super::{RELAYED, SHARDS, TOPICS};
use crate::support::redis_state::key;

const LEASE: Duration = Duration::from_secs(15);
const BURIED: &str = r#"{"class":"nack","reason":"no"}"#;

/// Every verb of a topic.
pub(super) async fn of(queue: &Queue, topic: &str) {
    let mut life = Life::new(queue, topic);
    life.waits_and_moves().await;
    life.runs_and_ends().await;
    life.is_kept_and_forgotten().await;
    life.keeps_values().await;
    life.is_repaired().await;
}

/// One topic of a queue, with short forms of its verbs.
struct Life<'q> {
    queue: &'q Queue,
    topic: TopicName,
    shard: Shard,
    calls: u32,
}

impl<'q> Life<'q> {
    fn new(queue: &'q Queue, topic: &str) -> Self {
        let topic = name(topic);
        Self { queue, shard: topic.first_shard(), topic, calls: 0 }
    }

    async fn turn(&self, turn: Turn<'_>) -> TurnReply {
        let reply = self.queue.turn(&self.shard, &turn).await.unwrap();
        assert!(reply.error.is_none(), "{:?}", reply.error);
        reply
    }

    async fn push(&self, jobs: &[NewJob], mode: IfExists) -> Vec<Pushed> {
        self.queue.push(&self.topic, jobs, mode).await.unwrap()
    }

    async fn lease_for(&mut self, jobs: usize, lasts: Duration) -> Vec<Lease> {
        self.calls += 1;
        let call = LeaseCall::new(jobs, lasts, format!("life:{}", self.calls));
        let promote = Some(Promotion { jobs: 100, skip: 0, discards_bad: false });
        let turn = Turn { promote, lease: Some(&call), ..Turn::default() };
        match self.turn(turn).await.leased {
            Some(Leased::Jobs(jobs)) => jobs.leases,
            _ => Vec::new(),
        }
    }

    async fn lease(&mut self) -> Lease {
        self.lease_for(1, LEASE).await.pop().expect("a job is due")
    }

    async fn settle(&self, lease: Lease, verdict: Verdict) -> Settled {
        let settlement = lease.settle(verdict);
        let turn = Turn { settle: vec![&settlement], ..Turn::default() };
        self.turn(turn).await.settled.unwrap()[0]
    }

    /// Job keys, priorities, rate, all ways to push, and all changes of waiting jobs.
    async fn waits_and_moves(&mut self) {
        let rules = Limits {
            per_key: NonZero::new(1),
            max_pending: NonZero::new(8),
            max_running: NonZero::new(50),
            rate: Some(Rate::parse("1000000/s").unwrap()),
            burst: NonZero::new(1_000),
            ttl: Some(Duration::from_secs(3_600)),
            priorities: true,
            ..Limits::default()
        };
        assert!(self.queue.configure(&self.topic, &rules).await.unwrap());
        let keyed_job = || Options::default().with_key("k").unwrap();
        let later = Due::In(Duration::from_secs(60));
        let jobs = [
            job("first", Due::Now, keyed_job()),
            job("second", Due::Now, keyed_job()),
            job("third", Due::Now, keyed_job()),
            job("later", later, Options::default()),
            job("urgent", Due::Now, Options::default().with_priority(Priority::High)),
            job("bad", Due::At(5), Options::default()),
        ];
        let words = self.push(&jobs, IfExists::Reject).await;
        assert_eq!(words[..5], [Pushed::Pushed; 5]);
        assert_eq!(words[5], Pushed::BadDue);
        let again = self.push(&jobs[3..4], IfExists::Replace).await;
        assert_eq!(again, [Pushed::Replaced]);
        let topic = &self.topic;
        let moved = self.queue.reschedule(topic, &id("third"), later).await.unwrap();
        assert_eq!(moved, Rescheduled::Pending);
        let moved = self.queue.reschedule(topic, &id("third"), Due::Now).await.unwrap();
        assert_eq!(moved, Rescheduled::Blocked);
        assert_eq!(self.queue.cancel(topic, &id("later")).await.unwrap(), Cancelled::Cancelled);
        assert!(self.queue.get(topic, &id("second")).await.unwrap().is_some());
        assert!(self.queue.pause(topic).await.unwrap());
        assert!(self.lease_for(1, LEASE).await.is_empty());
        assert!(self.queue.resume(&self.topic).await.unwrap());
        let asked = std::slice::from_ref(&self.shard);
        assert!(matches!(self.queue.peek(asked).await.unwrap()[0], Ok(Some(_))));
        let asked = std::slice::from_ref(&self.topic);
        assert_eq!(self.queue.depths(asked).await.unwrap()[0].blocked, 2);
    }

    /// Every way to extend or end a lease.
    async fn runs_and_ends(&mut self) {
        let urgent = self.lease().await;
        assert_eq!(urgent.id, id("urgent"));
        let extend = [Extension { id: urgent.id.clone(), token: urgent.token.clone(), by: LEASE }];
        let reply = self
            .turn(Turn { holder: "life", extend: extend.iter().collect(), ..Turn::default() })
            .await;
        assert!(reply.extended.unwrap()[0].is_some());
        let first = self.lease().await;
        let info = || BURIED.to_owned();
        let nack = Verdict::Nack { delay: Duration::ZERO, max_attempts: 5, info: info() };
        assert_eq!(self.settle(first, nack).await, Settled::Retry);
        let first = self.lease().await;
        let snooze = Verdict::Snooze {
            delay: Duration::ZERO,
            max_snoozes: 1,
            nack_delay: Duration::ZERO,
            max_attempts: 5,
            info: info(),
        };
        assert_eq!(self.settle(first, snooze).await, Settled::Snoozed);
        let first = self.lease().await;
        let release = Verdict::Release { delay: Duration::ZERO };
        assert_eq!(self.settle(first, release).await, Settled::Released);
        let first = self.lease().await;
        let finish = Finish {
            unique_for: Duration::from_secs(60),
            info: Some("{}".to_owned()),
            result: Some(Bytes::from_static(b"done")),
            follow_ups: TOPICS.iter().map(|to| follow_up(&self.topic, to)).collect(),
        };
        let first_job = job("first", Due::Now, Options::default());
        assert_eq!(self.settle(first, Verdict::Finish(finish)).await, Settled::Done);
        let held = self.push(&[first_job], IfExists::Reject).await;
        assert_eq!(held, [Pushed::Held]);
        let second = self.lease().await;
        let drop = Verdict::Drop { info: info() };
        assert_eq!(self.settle(second, drop).await, Settled::Dead);
        // The runner of the third job dies.
        assert_eq!(self.lease_for(1, Duration::from_millis(1)).await[0].id, id("third"));
        let rule = || ReclaimRule {
            max_crashes: NonZero::new(1),
            delay: Duration::ZERO,
            info: Some(BURIED),
            renewed_within: Duration::ZERO,
        };
        duebox_harness::eventually!({
            let reclaim = Turn { reclaim: Some(rule()), ..Turn::default() };
            let reclaimed = self.turn(reclaim).await.reclaimed.unwrap();
            reclaimed.jobs.iter().any(|job| *job == (id("third"), Settled::Dead))
        });
    }

    /// Follow-ups, ticks, the dead and the done, and the doctor.
    async fn is_kept_and_forgotten(&mut self) {
        let found = &mut |finding| panic!("{finding:?}");
        let unseen = self.queue.examine(&self.shard, Checkup::LOOK, found).await.unwrap();
        assert!(unseen.is_empty(), "{unseen:?}");
        let relayed = self.queue.relay(&self.shard, &mut RelayPass::default()).await.unwrap();
        assert_eq!((relayed.entries, relayed.pushed), (1, 2), "{relayed:?}");
        let until = self.queue.now_ms().await.unwrap();
        let tick = Tick {
            schedule: "beat",
            line: "every 1s",
            expected: None,
            until,
            payload: b"",
            times: &[until],
        };
        let ticked = self.queue.tick(&self.topic, &tick).await.unwrap();
        assert_eq!(ticked, Ticked::Done(vec![Pushed::Pushed]));
        let page = PageQuery { limit: 10, ..PageQuery::default() };
        let done = self.queue.list_done(&self.topic, &page).await.unwrap();
        let query = DeadQuery { page, ..DeadQuery::default() };
        let dead = self.queue.list_dead(&self.topic, &query).await.unwrap();
        assert_eq!(dead.jobs.len(), 2);
        assert_eq!(done.jobs.len(), 1);
        let all_dead = JobQuery::new(JobState::Dead);
        let listed = self.queue.list_state(&self.topic, &all_dead).await.unwrap();
        assert_eq!(listed.jobs.len(), 2);
        let recordings = [(id("second"), b"what it read".to_vec())];
        assert_eq!(self.queue.keep_recordings(&self.shard, &recordings).await.unwrap(), 1);
        let requeued = self.queue.requeue(&self.topic, &[id("second")]).await.unwrap();
        assert_eq!(requeued, [Requeued::Ok]);
        assert_eq!(self.queue.prune(&self.topic, &[id("third")]).await.unwrap(), 1);
        let day = Duration::from_secs(86_400);
        let keep = RetentionLimits { dead_for: day, dead_most: 10, done_for: day, done_most: 0 };
        assert_eq!(self.queue.prune_ended(&self.shard, &keep).await.unwrap().done, 1);
        self.queue.shards(&self.topic).await.unwrap();
        let asked = std::slice::from_ref(&self.shard);
        assert!(matches!(self.queue.outbox_lengths(asked).await.unwrap()[..], [Ok(0)]));
    }

    /// Handlers keep values in the topic's store.
    async fn keeps_values(&self) {
        let (queue, topic) = (self.queue, &self.topic);
        let condition = KvCondition::IfAbsent;
        let written = queue.kv_set(topic, b"cursor", b"40", Some(LEASE), condition).await.unwrap();
        assert_eq!(written, KvWrite::Done(()));
        assert_eq!(queue.kv_add(topic, b"cursor", 2).await.unwrap(), KvWrite::Done(42));
        let entry = queue.kv_get(topic, b"cursor").await.unwrap().unwrap();
        assert_eq!(entry.value, "42");
        assert_eq!(queue.kv_prune(topic).await.unwrap(), 0, "its time is not over");
        assert!(queue.kv_delete(topic, b"cursor").await.unwrap());
    }

    /// Malformed jobs are moved aside.
    async fn is_repaired(&mut self) {
        let topic = self.topic.as_str();
        let mut redis = self.queue.redis();
        let mut spoil = redis::pipe();
        spoil.cmd("HSET").arg(key(topic, "outbox")).arg("no").arg("entry");
        spoil
            .cmd("DEL")
            .arg(key(topic, "ticks"))
            .cmd("SET")
            .arg(key(topic, "ticks"))
            .arg("no hash");
        let () = spoil.query_async(&mut redis).await.unwrap();
        let mut repaired = 0;
        let found = &mut |finding: Finding| repaired += usize::from(finding.is_repaired());
        self.queue.examine(&self.shard, Checkup::REPAIR, found).await.unwrap();
        assert_eq!(repaired, 2);
    }
}

/// A topic with a job is split, and the job is found. Then the topic is emptied, and its earlier
/// number of shards is pruned.
pub(super) async fn is_split(url: &str) {
    let (topic, queue) = (name(SHARDS[0]), connect(url).await);
    let jobs: Vec<NewJob> =
        (0..20).map(|n| job(&format!("j{n}"), Due::Now, Options::default())).collect();
    let words = queue.push(&topic, &jobs[..1], IfExists::Reject).await.unwrap();
    assert_eq!(words, [Pushed::Pushed]);
    let rules = Limits { shards: NonZero::new(2), ..Limits::default() };
    let shards = [topic.shard(0), topic.shard(1)];
    queue.configure(&topic, &rules).await.unwrap();
    // A client that does not know the topic yet.
    let queue = connect(url).await;
    let words = queue.push(&topic, &jobs, IfExists::Reject).await.unwrap();
    assert_eq!(
        (words[0], words[1..].iter().all(|word| *word == Pushed::Pushed)),
        (Pushed::Exists, true)
    );
    let mut ran = 0;
    for shard in shards {
        let mut life = Life { queue: &queue, topic: topic.clone(), shard, calls: 0 };
        let leases = life.lease_for(20, LEASE).await;
        assert!(!leases.is_empty(), "all jobs went into one shard");
        for lease in leases {
            assert_eq!(life.settle(lease, Verdict::Ack).await, Settled::Done);
            ran += 1;
        }
    }
    assert_eq!(ran, 20);
    assert!(queue.forget_old_shards(&topic).await.unwrap());
}

/// A follow-up that its topic refuses stays in the outbox; the other one is removed from their entry.
pub(super) async fn is_trimmed(url: &str) {
    let [topic, sick, healthy] = RELAYED;
    let queue = connect(url).await;
    let mut life = Life::new(&queue, topic);
    let spoil = cmd("SET").arg(key(sick, "pending")).arg("no zset").to_owned();
    let () = spoil.query_async(&mut queue.redis()).await.unwrap();
    life.push(&[job("parent", Due::Now, Options::default())], IfExists::Reject).await;
    let lease = life.lease().await;
    let follow_ups = [sick, healthy].map(|to| follow_up(&life.topic, to));
    let finish = Finish { follow_ups: follow_ups.into(), ..Finish::default() };
    assert_eq!(life.settle(lease, Verdict::Finish(finish)).await, Settled::Done);
    let relayed = queue.relay(&life.shard, &mut RelayPass::default()).await.unwrap();
    assert_eq!((relayed.entries, relayed.pushed), (0, 1), "{relayed:?}");
}

pub(super) async fn connect(url: &str) -> Queue {
    let settings = ConnectionSettings::new(url);
    Queue::connect(&settings, "duebox").await.unwrap()
}

/// A job of one topic for another, for later.
fn follow_up(from: &TopicName, to: &str) -> FollowUp {
    FollowUp {
        topic: name(to),
        id: id(&format!("child-of-{from}")),
        due: FollowUpDue::AfterMs(3_600_000),
        payload: Bytes::new(),
        options: Options::default(),
    }
}

fn name(topic: &str) -> TopicName {
    TopicName::new(topic).unwrap()
}

fn id(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

fn job(name: &str, due: Due, options: Options) -> NewJob {
    NewJob { id: id(name), due, payload: Bytes::from_static(b"{}"), options }
}
