//! The store of a topic: each verb against a model of it near its bounds, two writers at once, and what is
//! over. Times are whole hours, far from the moment of the test.

mod model;

use std::collections::BTreeMap;
use std::time::Duration;

use duebox_harness::{RedisServer, eventually};
use duebox_queue::{
    Checkup, FindingKind as Kind, KV_BYTES_MAX, KV_NAMES_MAX, KvCondition, KvWrite, QueueError,
    Unexamined,
};
use fastrand::Rng;
use model::{BYTES_LEFT, Model, NAMES_LEFT};

use crate::fixture::Fixture;
use crate::script::{KV_ADD, KV_DELETE, KV_GET, KV_PRUNE, KV_SET};

/// Steps of the random life.
const STEPS: usize = 100_000;
const HOUR: Duration = Duration::from_secs(3_600);

impl Fixture {
    async fn set(&self, name: &str, value: &str, condition: KvCondition) -> KvWrite<()> {
        self.keep(name, value, None, condition).await
    }

    async fn keep(
        &self,
        name: &str,
        value: &str,
        ttl: Option<Duration>,
        condition: KvCondition,
    ) -> KvWrite<()> {
        let (name, value) = (name.as_bytes(), value.as_bytes());
        self.queue.kv_set(&self.topic, name, value, ttl, condition).await.unwrap()
    }

    async fn value(&self, name: &str) -> Option<(Vec<u8>, u64)> {
        let found = self.queue.kv_get(&self.topic, name.as_bytes()).await.unwrap();
        found.map(|entry| (entry.value.to_vec(), entry.revision))
    }

    async fn add(&self, name: &str, delta: i64) -> KvWrite<i64> {
        self.queue.kv_add(&self.topic, name.as_bytes(), delta).await.unwrap()
    }

    async fn delete(&self, name: &str) -> bool {
        self.queue.kv_delete(&self.topic, name.as_bytes()).await.unwrap()
    }

    /// Lets the times of the store pass, and nothing else of the topic.
    fn pass(&self, by: Duration) {
        let key = self.key("kv:at");
        let range = redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1).arg("WITHSCORES").clone();
        let times: BTreeMap<String, f64> = self.redis(&range);
        for (name, at) in times {
            let later = at - by.as_millis() as f64;
            let _: redis::Value = self.redis(redis::cmd("ZADD").arg(&key).arg(later).arg(name));
        }
    }

    /// Names that stand in the way, with nothing under them, and bytes that are counted.
    fn fill(&self, names: usize, bytes: usize) {
        let all: Vec<usize> = (0..names).collect();
        for some in all.chunks(10_000) {
            let mut set = redis::cmd("HSET");
            set.arg(self.key("kv"));
            for number in some {
                set.arg(format!("fill-{number}")).arg("");
            }
            let _: redis::Value = self.redis(&set);
        }
        self.on_key("HSET", "meta", &["kv_bytes", &bytes.to_string()]);
    }

    fn counted_bytes(&self) -> usize {
        let bytes = self.snapshot().meta.get(&b"kv_bytes"[..]).cloned().unwrap_or_default();
        String::from_utf8(bytes).unwrap().parse().unwrap_or(0)
    }
}

/// A life of one store, with how often each answer came.
struct Life {
    fixture: Fixture,
    model: Model,
    random: Rng,
    answers: BTreeMap<&'static str, usize>,
}

impl Life {
    async fn step(&mut self) {
        let name = format!("n{}", self.random.u32(..20));
        let word = match self.random.u32(..100) {
            0..35 => self.set(&name).await,
            35..55 => self.add(&name).await,
            55..70 => {
                let is_there = self.model.there(&name).is_some();
                self.model.kept.remove(&name);
                assert_eq!(self.fixture.delete(&name).await, is_there, "delete {name}");
                if is_there { "deleted" } else { "nothing to delete" }
            }
            70..99 => {
                self.look(&name).await;
                return;
            }
            _ => {
                // No two of these numbers have a common multiple that is a time of this test.
                self.fixture.pass(101 * HOUR);
                self.model.hour += 101;
                return;
            }
        };
        *self.answers.entry(word).or_default() += 1;
        self.look(&name).await;
    }

    async fn set(&mut self, name: &str) -> &'static str {
        let value = match self.random.u32(..3) {
            0 => self.random.i64(..).to_string(),
            1 => "x".repeat(self.random.usize(..600)),
            _ => self.random.u32(..9).to_string(),
        };
        let hours = self.random.bool().then(|| 100 * self.random.u64(1..4));
        let revision = self.model.there(name).map(|(_, revision, _)| *revision);
        let condition = match (self.random.u32(..4), revision) {
            (0 | 1, _) => KvCondition::Always,
            (2, _) => KvCondition::IfAbsent,
            (_, Some(revision)) if self.random.bool() => KvCondition::IfRevision(revision),
            _ => KvCondition::IfRevision(self.random.u64(..1 << 50)),
        };
        let holds = match condition {
            KvCondition::Always => true,
            KvCondition::IfAbsent => revision.is_none(),
            KvCondition::IfRevision(wanted) => revision == Some(wanted),
        };
        let until = hours.map(|hours| self.model.hour + hours);
        let wanted = match holds {
            false => KvWrite::Conflict,
            true => self.model.write(name, value.clone(), until, ()),
        };
        let ttl = hours.map(|hours| HOUR * u32::try_from(hours).unwrap());
        assert_eq!(self.fixture.keep(name, &value, ttl, condition).await, wanted, "set {name}");
        word(wanted)
    }

    async fn add(&mut self, name: &str) -> &'static str {
        let delta = match self.random.u32(..4) {
            0 => self.random.i64(..),
            _ => self.random.i64(-99..99),
        };
        let wanted = self.model.add(name, delta);
        assert_eq!(self.fixture.add(name, delta).await, wanted, "add {delta} to {name}");
        word(wanted)
    }

    /// Compares one name, and learns the revision of what was written since.
    async fn look(&mut self, name: &str) {
        let found = self.fixture.value(name).await;
        let wanted = self.model.there(name).cloned();
        let value = |value: &str| value.as_bytes().to_vec();
        assert_eq!(
            found.as_ref().map(|(value, _)| value.clone()),
            wanted.as_ref().map(|(kept, ..)| value(kept)),
            "get {name}"
        );
        let (Some((_, revision)), Some((_, known, _))) = (found, wanted) else { return };
        if known != 0 {
            assert_eq!(revision, known, "the revision of {name}");
            return;
        }
        assert!(self.model.revisions.insert((name.to_owned(), revision)), "{name} {revision}");
        self.model.kept.get_mut(name).unwrap().1 = revision;
    }
}

fn word<T>(write: KvWrite<T>) -> &'static str {
    match write {
        KvWrite::Done(_) => "done",
        KvWrite::Conflict => "conflict",
        KvWrite::Full => "full",
        KvWrite::NotANumber => "no number",
    }
}

#[tokio::test]
async fn a_random_life_near_the_bounds_follows_the_model() {
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    fixture.fill(KV_NAMES_MAX - NAMES_LEFT, KV_BYTES_MAX - BYTES_LEFT);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let random = Rng::with_seed(seed);
    let mut life = Life { fixture, model: Model::default(), random, answers: BTreeMap::new() };
    for _ in 0..STEPS {
        life.step().await;
    }
    for answer in ["done", "conflict", "full", "no number", "deleted", "nothing to delete"] {
        let count = life.answers.get(answer).copied().unwrap_or(0);
        assert!(count > STEPS / 1_000, "{answer}: {count} of {:?}", life.answers);
    }
    let (fixture, model) = (&life.fixture, &life.model);
    while fixture.queue.kv_prune(&fixture.topic).await.unwrap() > 0 {}
    let there = model.kept.keys().filter_map(|name| Some((name, model.there(name)?)));
    let bytes: usize = there.map(|(name, (value, ..))| name.len() + value.len()).sum();
    assert_eq!(fixture.counted_bytes(), KV_BYTES_MAX - BYTES_LEFT + bytes);
}

#[tokio::test]
async fn what_is_over_is_gone_at_once_and_leaves_nothing() {
    let fixture = Fixture::new().await;
    for number in 0..2_500 {
        let name = format!("short-{number}");
        fixture.keep(&name, "v", Some(HOUR), KvCondition::Always).await;
    }
    fixture.keep("long", "v", Some(3 * HOUR), KvCondition::Always).await;
    fixture.pass(2 * HOUR);
    assert_eq!(
        (fixture.value("short-2400").await, fixture.delete("short-2400").await),
        (None, false)
    );
    // A writing verb takes a hundred along; a batch of a thousand is what others ask for.
    assert_eq!(fixture.snapshot().kv.len(), 2_501 - 100 - 1);
    let swept =
        [fixture.sweep_store().await, fixture.sweep_store().await, fixture.sweep_store().await];
    assert_eq!(swept, [1_000, 1_000, 399]);
    assert_eq!(fixture.counted_bytes(), "longv".len());
    fixture.pass(2 * HOUR);
    assert_eq!(fixture.sweep_store().await, 1);
    assert_eq!(fixture.keys(), Vec::<String>::new());
}

impl Fixture {
    async fn sweep_store(&self) -> u64 {
        self.queue.kv_prune(&self.topic).await.unwrap()
    }
}

#[tokio::test]
async fn room_is_made_of_all_that_is_over_however_little_each_takes() {
    let fixture = Fixture::new().await;
    for number in 0..9_000 {
        let name = format!("{number:06}");
        fixture.keep(&name, "", Some(HOUR), KvCondition::Always).await;
    }
    fixture.on_key("HINCRBY", "meta", &["kv_bytes", &(KV_BYTES_MAX - 54_000).to_string()]);
    let value = "x".repeat(50_000);
    assert_eq!(fixture.set("big", &value, KvCondition::Always).await, KvWrite::Full);
    fixture.pass(2 * HOUR);
    assert_eq!(fixture.set("big", &value, KvCondition::Always).await, KvWrite::Done(()));
    assert_eq!(fixture.set("too", &value, KvCondition::Always).await, KvWrite::Full);
    assert_eq!(fixture.snapshot().kv_at.len(), 0, "all of it was over");
}

#[tokio::test]
async fn a_topic_that_is_tidied_loses_what_is_over() {
    let fixture = Fixture::new().await;
    fixture.keep("a", "v", Some(HOUR), KvCondition::Always).await;
    let keep = duebox_queue::RetentionLimits {
        dead_for: HOUR,
        dead_most: 9,
        done_for: HOUR,
        done_most: 9,
    };
    let tidy = async || fixture.queue.prune_ended(&fixture.shard, &keep).await.unwrap().values;
    assert_eq!(tidy().await, 0);
    fixture.pass(2 * HOUR);
    assert_eq!((tidy().await, fixture.keys().len()), (1, 0));
}

#[tokio::test]
async fn all_shards_of_a_topic_share_one_store() {
    let fixture = Fixture::new().await;
    let third = fixture.in_shard(fixture.topic.shard(2)).await;
    third.set("a", "v", KvCondition::Always).await;
    assert_eq!(fixture.value("a").await, third.value("a").await);
    assert_eq!((third.keys().len(), fixture.snapshot().kv.len()), (0, 1));
}

/// Two runners that count, one by `add`, one by compare-and-set, and both ways at once.
#[tokio::test]
async fn two_writers_lose_nothing() {
    const EACH: i64 = 300;
    let server = RedisServer::start();
    let fixture = Fixture::on(&server).await;
    let counter = |mine: Fixture| async move {
        for _ in 0..EACH {
            assert!(matches!(mine.add("added", 1).await, KvWrite::Done(_)));
            loop {
                let found = mine.value("swapped").await;
                let (value, condition) = match found {
                    None => (0, KvCondition::IfAbsent),
                    Some((value, revision)) => {
                        let value: i64 = String::from_utf8(value).unwrap().parse().unwrap();
                        (value, KvCondition::IfRevision(revision))
                    }
                };
                if mine.set("swapped", &(value + 1).to_string(), condition).await
                    == KvWrite::Done(())
                {
                    break;
                }
            }
        }
    };
    let topic = fixture.topic.as_str();
    tokio::join!(counter(fixture.beside(topic).await), counter(fixture.beside(topic).await));
    for name in ["added", "swapped"] {
        assert_eq!(fixture.value(name).await.unwrap().0, (2 * EACH).to_string().into_bytes());
    }
}

#[tokio::test]
async fn plain_commands_may_read_and_what_they_write_is_a_value() {
    let fixture = Fixture::new().await;
    fixture.add("count", 41).await;
    let read = fixture.on_key("HGET", "kv", &["count"]);
    assert_eq!(read, redis::Value::BulkString(b"41".to_vec()));
    fixture.on_key("HSET", "kv", &["plain", "7"]);
    assert_eq!(fixture.value("plain").await, Some((b"7".to_vec(), 0)));
    assert_eq!(fixture.set("plain", "8", KvCondition::IfRevision(0)).await, KvWrite::Done(()));
    assert_eq!(fixture.add("plain", 1).await, KvWrite::Done(9));
}

#[tokio::test]
async fn a_redis_that_is_away_is_an_error_and_then_it_goes_on() {
    let mut server = RedisServer::with_args(&["--appendonly", "yes", "--appendfsync", "always"]);
    let fixture = Fixture::on(&server).await;
    fixture.set("a", "v", KvCondition::Always).await;
    server.stop();
    let error = fixture.queue.kv_get(&fixture.topic, b"a").await.unwrap_err();
    assert!(matches!(error, QueueError::NoReply(_)), "{error:?}");
    server.restart();
    let mut found = None;
    eventually!(
        {
            if let Ok(entry) = fixture.queue.kv_get(&fixture.topic, b"a").await {
                found = entry;
            }
            found.is_some()
        },
        "the connection comes back by itself"
    );
    assert_eq!(found.unwrap().value, "v");
}

#[tokio::test]
async fn malformed_calls_are_refused_and_change_nothing() {
    let fixture = Fixture::new().await;
    fixture.keep("a", "1", Some(HOUR), KvCondition::Always).await;
    fixture.keep("over", "1", Some(HOUR), KvCondition::Always).await;
    let before = fixture.snapshot().state();
    let (long, large) = ("n".repeat(257), "v".repeat(65_537));
    let calls: [(&crate::script::RawScript, &[&str]); 16] = [
        (&KV_SET, &[]),
        (&KV_SET, &["", "v", "0", "always"]),
        (&KV_SET, &[&long, "v", "0", "always"]),
        (&KV_SET, &["a"]),
        (&KV_SET, &["a", &large, "0", "always"]),
        (&KV_SET, &["a", "v", "-1", "always"]),
        (&KV_SET, &["a", "v", "315360000001", "always"]),
        (&KV_SET, &["a", "v", "0", "sometimes"]),
        (&KV_SET, &["a", "v", "0"]),
        (&KV_DELETE, &[""]),
        (&KV_DELETE, &[&long]),
        (&KV_ADD, &["", "1"]),
        (&KV_ADD, &["a", "1.5"]),
        (&KV_ADD, &["a", "111111111111111111111"]),
        (&KV_ADD, &["a"]),
        (&KV_PRUNE, &["1001"]),
    ];
    for (script, args) in calls {
        let error = script.try_call(&fixture, args).unwrap_err();
        assert_eq!(error.code(), Some("DUEBOX"), "{args:?}: {error}");
        assert_eq!(fixture.snapshot().state(), before, "{args:?} has changed a key");
    }
    let none: Vec<String> = KV_GET.call(&fixture, &["nothing"]);
    assert_eq!(none, Vec::<String>::new());
}

#[tokio::test]
async fn the_doctor_says_what_of_a_large_store_it_does_not_count() {
    let fixture = Fixture::new().await;
    fixture.fill(1_001, 5);
    let mut found = Vec::new();
    let mut tell = |finding: duebox_queue::Finding| found.push(finding.kind);
    let left_out = fixture.queue.examine(&fixture.shard, Checkup::LOOK, &mut tell).await.unwrap();
    assert_eq!((left_out, found), (vec![Unexamined::Values], vec![]));
    fixture.on_key("HDEL", "kv", &["fill-1"]);
    let mut found = Vec::new();
    let mut tell = |finding: duebox_queue::Finding| found.push(finding.kind);
    let left_out = fixture.queue.examine(&fixture.shard, Checkup::REPAIR, &mut tell).await.unwrap();
    assert_eq!((left_out, found), (vec![], vec![Kind::WrongBytes]));
    let names: usize = (0..1_001).filter(|n| *n != 1).map(|n| format!("fill-{n}").len()).sum();
    assert_eq!(fixture.counted_bytes(), names);
}
