//! The key rules of Redis Cluster: a script uses only declared keys, all in one slot. The server runs in cluster
//! mode and owns only the slots of the topics, so it refuses other keys. `MONITOR` finds undeclared ones.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::num::NonZero;
use std::time::Duration;

use bytes::Bytes;
use duebox_harness::{RedisServer, eventually};
use duebox_job::{FollowUp, FollowUpDue, JobId, Options, Priority, Rate, Shard, TopicName};
use duebox_queue::{
    Cancelled, Checkup, ConnectionSettings, DeadQuery, Due, Extension, Finding, Finish, IfExists,
    KvCondition, KvWrite, Lease, LeaseCall, Leased, Limits, NewJob, PageQuery, Promotion, Pushed,
    Queue, ReclaimRule, RelayPass, Requeued, Rescheduled, RetentionLimits, Settled, Tick, Ticked,
    Turn, TurnReply, Verdict,
};
use redis::{Client, RedisResult, Script, cmd};

use crate::support::monitor::{Command, Monitor, calls};
use crate::support::redis_state::{Store, key};

const TOPICS: [&str; 2] = ["order.close", "mail"];
/// The slots of a topic with two shards.
const SHARDS: [&str; 2] = ["hot", "hot#1"];
/// A topic and the targets of its follow-ups, of which the first refuses them.
const RELAYED: [&str; 3] = ["trimmed", "sick", "healthy"];
const LEASE: Duration = Duration::from_secs(15);
const BURIED: &str = r#"{"class":"nack","reason":"no"}"#;

/// A server in cluster mode that has the slots of these topics, and of the set of topics.
fn cluster() -> RedisServer {
    let bus = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let redis = RedisServer::with_args(&[
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &bus.to_string(),
        "--cluster-require-full-coverage",
        "no",
    ]);
    let store = Store::new(&redis.url());
    let topics = TOPICS.iter().chain(&SHARDS).chain(&RELAYED).map(|topic| key(topic, "jobs"));
    for name in topics.chain(["duebox:topics".to_owned()]) {
        let slot: u16 = store.ask(cmd("CLUSTER").arg("KEYSLOT").arg(name));
        let _: String = store.ask(cmd("CLUSTER").arg("ADDSLOTS").arg(slot));
    }
    eventually("the cluster serves its slots", || {
        store.ask::<String>(cmd("CLUSTER").arg("INFO")).contains("cluster_state:ok")
    });
    redis
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

/// One topic of a queue, with short forms of its verbs.
struct Life<'q> {
    queue: &'q Queue,
    topic: TopicName,
    shard: Shard,
    calls: u32,
}

impl Life<'_> {
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
        let settle = &[lease.settle(verdict)];
        self.turn(Turn { settle, ..Turn::default() }).await.settled.unwrap()[0]
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
        assert!(self.queue.peek(asked).await.unwrap()[0].is_some());
        let asked = std::slice::from_ref(&self.topic);
        assert_eq!(self.queue.depths(asked).await.unwrap()[0].blocked, 2);
    }

    /// Every way to extend or end a lease.
    async fn runs_and_ends(&mut self) {
        let urgent = self.lease().await;
        assert_eq!(urgent.id, id("urgent"));
        let extend = [Extension { id: urgent.id.clone(), token: urgent.token.clone(), by: LEASE }];
        let reply = self.turn(Turn { holder: "life", extend: &extend, ..Turn::default() }).await;
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
            max_crashes: 1,
            delay: Duration::ZERO,
            info: Some(BURIED),
            outage_until_us: 0,
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
        let requeued = self.queue.requeue(&self.topic, &[id("second")]).await.unwrap();
        assert_eq!(requeued, [Requeued::Ok]);
        assert_eq!(self.queue.prune(&self.topic, &[id("third")]).await.unwrap(), 1);
        let day = Duration::from_secs(86_400);
        let keep = RetentionLimits { dead_for: day, dead_most: 10, done_for: day, done_most: 0 };
        assert_eq!(self.queue.prune_ended(&self.shard, &keep).await.unwrap().done, 1);
        self.queue.shards(&self.topic).await.unwrap();
        assert_eq!(
            self.queue.outbox_lengths(std::slice::from_ref(&self.shard)).await.unwrap(),
            [0]
        );
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
async fn is_split(redis: &RedisServer) {
    let (topic, queue) = (name(SHARDS[0]), connect(redis).await);
    let jobs: Vec<NewJob> =
        (0..20).map(|n| job(&format!("j{n}"), Due::Now, Options::default())).collect();
    let words = queue.push(&topic, &jobs[..1], IfExists::Reject).await.unwrap();
    assert_eq!(words, [Pushed::Pushed]);
    let rules = Limits { shards: NonZero::new(2), ..Limits::default() };
    let shards = [topic.shard(0), topic.shard(1)];
    queue.configure(&topic, &rules).await.unwrap();
    // A client that does not know the topic yet.
    let queue = connect(redis).await;
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
async fn is_trimmed(redis: &RedisServer) {
    let [topic, sick, healthy] = RELAYED;
    let (topic, queue) = (name(topic), connect(redis).await);
    let mut life =
        Life { queue: &queue, topic: topic.clone(), shard: topic.first_shard(), calls: 0 };
    let spoil = cmd("SET").arg(key(sick, "pending")).arg("no zset").to_owned();
    let () = spoil.query_async(&mut queue.redis()).await.unwrap();
    life.push(&[job("parent", Due::Now, Options::default())], IfExists::Reject).await;
    let lease = life.lease().await;
    let follow_ups = [sick, healthy].map(|to| follow_up(&topic, to));
    let finish = Finish { follow_ups: follow_ups.into(), ..Finish::default() };
    assert_eq!(life.settle(lease, Verdict::Finish(finish)).await, Settled::Done);
    let relayed = queue.relay(&life.shard, &mut RelayPass::default()).await.unwrap();
    assert_eq!((relayed.entries, relayed.pushed), (0, 1), "{relayed:?}");
}

async fn connect(redis: &RedisServer) -> Queue {
    let settings = ConnectionSettings { url: redis.url(), password: None };
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

/// The undeclared keys that scripts used.
fn undeclared(commands: &[Command]) -> BTreeSet<String> {
    let (mut declared, mut wrong) = (BTreeSet::new(), BTreeSet::new());
    for command in commands {
        if !command.of_script && command.is("EVALSHA") {
            let count: usize = command.words[2].parse().unwrap();
            declared = command.words[3..3 + count].iter().collect();
        }
        if command.of_script && !command.is("PUBLISH") {
            let keys = command.words[1..].iter().filter(|word| word.starts_with("duebox:"));
            // The doctor moves malformed keys to a name in the same slot.
            let is_aside = |name: &str| {
                let beside = name.split_once(":broken:").map(|(beside, _)| beside.to_owned());
                beside.is_some_and(|beside| declared.contains(&beside))
            };
            let bad = keys.filter(|key| !declared.contains(key) && !is_aside(key));
            wrong.extend(bad.map(|key| format!("{} {key}", command.words[0])));
        }
    }
    wrong
}

#[tokio::test]
async fn every_verb_uses_one_slot_and_its_declared_keys() {
    let redis = cluster();
    let monitor = Monitor::start(&redis);
    let queue = connect(&redis).await;
    for topic in TOPICS {
        let mut life =
            Life { queue: &queue, topic: name(topic), shard: name(topic).first_shard(), calls: 0 };
        life.waits_and_moves().await;
        life.runs_and_ends().await;
        life.is_kept_and_forgotten().await;
        life.keeps_values().await;
        life.is_repaired().await;
    }
    is_split(&redis).await;
    is_trimmed(&redis).await;
    let commands = monitor.commands(&redis);
    assert_eq!(undeclared(&commands), BTreeSet::new());
    let called = calls(&commands);
    let is_load = |command: &&Command| command.is("SCRIPT") && command.words[1] == "LOAD";
    let loaded: BTreeSet<&String> =
        commands.iter().filter(is_load).map(|load| &load.words[2]).collect();
    assert!(loaded.len() > 20, "the loading of scripts was not seen");
    for source in loaded {
        let is_called = called.contains_key(Script::new(source).get_hash());
        assert!(is_called, "nothing above calls this script, so it was not tested:\n{source}");
    }

    // The server also refuses a script that uses a key of another slot.
    let here = key(TOPICS[0], "jobs");
    let reach = "return redis.call('HLEN', ARGV[1])";
    let mut connection = Client::open(redis.url()).unwrap().get_connection().unwrap();
    let mut ask = |key: String| -> RedisResult<u64> {
        cmd("EVAL").arg(reach).arg(1).arg(&here).arg(key).query(&mut connection)
    };
    let refused = ask(key("elsewhere", "jobs")).unwrap_err();
    assert!(refused.to_string().contains("non local key"), "{refused}");
    assert!(ask(key(TOPICS[0], "opts")).is_ok());
}

#[test]
fn an_undeclared_key_is_detected() {
    let command = |of_script, words: &[&str]| Command {
        of_script,
        words: words.iter().map(|word| (*word).to_owned()).collect(),
    };
    let commands = [
        command(false, &["EVALSHA", "digest", "1", "duebox:{a}:jobs", "42"]),
        command(true, &["HGET", "duebox:{a}:jobs", "42"]),
        command(true, &["PUBLISH", "duebox:{a}:wake", "0"]),
        command(true, &["HGET", "duebox:{a}:opts", "42"]),
    ];
    assert_eq!(undeclared(&commands), BTreeSet::from(["HGET duebox:{a}:opts".to_owned()]));
}
