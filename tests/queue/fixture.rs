//! What tests share: the server, a topic of its own for each test, and short forms of the verbs.
//!
//! Tests move time instead of waiting: [`Fixture::advance`] puts every time in the topic into the
//! past, tokens included. To the scripts this is the same as having waited.

use std::cell::RefCell;
use std::num::NonZero;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use duebox_harness::{RedisServer, TestRedis};
use duebox_job::{JobId, Options, Shard, TopicName};
use duebox_queue::{
    BATCH_MAX, ConnectionSettings, DeadQuery, Due, Extension, IfExists, Lease, LeaseCall, Leased,
    NewJob, PageQuery, Promoted, Promotion, Pushed, Queue, ReclaimRule, Reclaimed, Settled,
    Settlement, Token, Turn, Verdict,
};

use crate::snapshot::Snapshot;

/// How long a lease of these tests holds.
pub(crate) const LEASE: Duration = Duration::from_secs(15);
/// How long a nack of these tests waits.
pub(crate) const BACKOFF: Duration = Duration::from_secs(60);
/// Attempts that [`nack`] allows in all.
pub(crate) const ATTEMPTS: u32 = 3;
/// Crashes that [`Fixture::reclaim`] allows.
pub(crate) const CRASHES: u32 = 3;

/// The runner's name under which tests extend leases.
pub(crate) const HOLDER: &str = "tests";

/// The server lives as long as any test uses it; a static of its own would never be dropped.
static SERVER: Mutex<Weak<TestRedis>> = Mutex::new(Weak::new());
static TOPICS: AtomicU32 = AtomicU32::new(0);

fn shared_server() -> Arc<TestRedis> {
    let mut shared = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let server = Arc::new(TestRedis::start());
        *shared = Arc::downgrade(&server);
        server
    })
}

pub(crate) struct Fixture {
    pub(crate) queue: Queue,
    pub(crate) topic: TopicName,
    pub(crate) shard: Shard,
    prefix: String,
    client: redis::Client,
    redis: RefCell<redis::Connection>,
    /// Keeps the shared server alive; none where a test brought its own.
    server: Option<Arc<TestRedis>>,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let server = shared_server();
        let mut fixture = Self::of(&server).await;
        fixture.server = Some(server);
        fixture
    }

    /// On a server, or a cluster, of the test's own, which must outlive the fixture.
    pub(crate) async fn of(redis: &TestRedis) -> Self {
        Self::through(&redis.url(), &redis.primaries()[0]).await
    }

    /// On a server of the test's own, which must outlive the fixture.
    pub(crate) async fn on(server: &RedisServer) -> Self {
        Self::through(&server.url(), server).await
    }

    /// The same, with a queue that reaches the server at this address.
    pub(crate) async fn through(url: &str, server: &RedisServer) -> Self {
        let number = TOPICS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("due[{number}]");
        let topic = TopicName::new("order.close").unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        let client = client_of(&client, &tag_of(&topic.first_shard()));
        let redis = client.get_connection().unwrap();
        let settings = ConnectionSettings::new(url.to_owned());
        Self {
            queue: Queue::connect(&settings, &prefix).await.unwrap(),
            topic: topic.clone(),
            shard: topic.first_shard(),
            prefix,
            client,
            redis: RefCell::new(redis),
            server: None,
        }
    }

    /// Another topic of the same queue.
    pub(crate) async fn beside(&self, topic: &str) -> Self {
        self.in_shard(TopicName::new(topic).unwrap().first_shard()).await
    }

    /// A shard of a topic of the same queue.
    pub(crate) async fn in_shard(&self, shard: Shard) -> Self {
        let client = client_of(&self.client, &tag_of(&shard));
        let redis = client.get_connection().unwrap();
        Self {
            queue: self.queue.clone(),
            topic: shard.topic().clone(),
            shard,
            prefix: self.prefix.clone(),
            client,
            redis: RefCell::new(redis),
            server: self.server.clone(),
        }
    }

    // ---- plain Redis, as anybody may use it

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}:{{{}}}:{name}", self.prefix, self.shard.tag())
    }

    pub(crate) fn redis<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        self.at_its_server(|connection| command.query(connection)).unwrap()
    }

    /// Asks the server of the topic; in a cluster, that of another key if this one names it.
    fn at_its_server<T>(
        &self,
        ask: impl Fn(&mut redis::Connection) -> redis::RedisResult<T>,
    ) -> redis::RedisResult<T> {
        let answer = ask(&mut self.redis.borrow_mut());
        let Err(error) = &answer else { return answer };
        match error.redirect_node() {
            Some((place, _)) => {
                let there = redis::Client::open(format!("redis://{place}/")).unwrap();
                ask(&mut there.get_connection().unwrap())
            }
            None => answer,
        }
    }

    /// Runs a pipeline of plain commands, none of which may fail.
    pub(crate) fn exec(&self, commands: &redis::Pipeline) {
        self.at_its_server(|connection| commands.exec(connection)).unwrap();
    }

    /// Runs a pipeline of plain commands and reads its replies.
    pub(crate) fn query<T: redis::FromRedisValue>(&self, commands: &redis::Pipeline) -> T {
        self.at_its_server(|connection| commands.query(connection)).unwrap()
    }

    pub(crate) fn try_redis(&self, command: &redis::Cmd) -> redis::RedisResult<redis::Value> {
        self.at_its_server(|connection| command.query(connection))
    }

    /// Runs a command on one key of the topic.
    pub(crate) fn on_key(&self, command: &str, name: &str, args: &[&str]) -> redis::Value {
        self.redis(redis::cmd(command).arg(self.key(name)).arg(args))
    }

    /// Pushes as any producer may: two plain commands in a `MULTI`.
    pub(crate) fn plain_push(&self, id: &str, payload: &str, due: impl ToString) {
        self.plain_push_bytes(id.as_bytes(), payload.as_bytes(), &due.to_string());
    }

    pub(crate) fn plain_push_bytes(&self, id: &[u8], payload: &[u8], due: &str) {
        let mut push = redis::pipe();
        push.atomic();
        push.cmd("HSET").arg(self.key("jobs")).arg(id).arg(payload).ignore();
        push.cmd("ZADD").arg(self.key("pending")).arg(due).arg(id).ignore();
        let () = push.query(&mut *self.redis.borrow_mut()).unwrap();
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::read(&mut self.redis.borrow_mut(), &self.key(""))
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.snapshot().now_us / 1_000
    }

    /// What all keys of this queue begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A key, or a channel, that belongs to no topic.
    pub(crate) fn whole_key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }

    /// Hears a channel of this name.
    pub(crate) async fn listen_to(&self, channel: &str) -> redis::aio::PubSub {
        let client = client_of(&self.client, channel);
        let mut listener = client.get_async_pubsub().await.unwrap();
        listener.subscribe(channel).await.unwrap();
        listener
    }

    /// How many connections have subscribed to a channel of the shared server; in a cluster, at any of its servers.
    pub(crate) fn subscribers(&self, channel: &str) -> u64 {
        let shared = self.server.as_ref().unwrap();
        let answer = shared.cli(&["PUBSUB", "NUMSUB", channel]);
        answer.lines().nth(1).unwrap().parse().unwrap()
    }

    /// The names of all keys of the topic.
    pub(crate) fn keys(&self) -> Vec<String> {
        let pattern = format!("{}*", self.key("")).replace('[', "\\[").replace(']', "\\]");
        self.redis(redis::cmd("KEYS").arg(pattern))
    }

    /// Lets time pass for the topic, and for the tokens of leases that the test holds.
    pub(crate) fn advance(&self, by: Duration, held: &mut [&mut Lease]) {
        Snapshot::shift(&mut self.redis.borrow_mut(), &self.key(""), by);
        for lease in held {
            let expiry = lease.token.expires_at_us() - by.as_micros() as u64;
            lease.token = Token::expiring_at_us(expiry);
        }
    }

    // ---- the verbs

    pub(crate) async fn push(&self, id: &str) {
        assert_eq!(self.push_job(job(id), IfExists::Reject).await, Pushed::Pushed);
    }

    pub(crate) async fn push_job(&self, job: NewJob, if_exists: IfExists) -> Pushed {
        self.push_many(&[job], if_exists).await[0]
    }

    pub(crate) async fn push_many(&self, jobs: &[NewJob], if_exists: IfExists) -> Vec<Pushed> {
        self.queue.push(&self.topic, jobs, if_exists).await.unwrap()
    }

    pub(crate) async fn lease(&self, call: &LeaseCall) -> Leased {
        let reply = self.turn(&Turn { lease: Some(call), ..Turn::default() }).await;
        reply.leased.unwrap()
    }

    /// Leases up to `n` jobs; none where nothing is ready.
    pub(crate) async fn lease_up_to(&self, n: usize) -> Vec<Lease> {
        match self.lease(&call(n)).await {
            Leased::Jobs(jobs) => jobs.leases,
            Leased::Empty { .. } => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    /// Leases this job, which must be the only one to run.
    pub(crate) async fn lease_only(&self, id: &str) -> Lease {
        let mut leases = self.lease_up_to(1_000).await;
        let ids: Vec<String> = leases.iter().map(|lease| lease.id.to_string()).collect();
        assert_eq!(ids, [id]);
        leases.remove(0)
    }

    pub(crate) async fn settle(&self, lease: Lease, verdict: Verdict) -> Settled {
        self.settle_many(&[lease.settle(verdict)]).await[0]
    }

    pub(crate) async fn settle_many(&self, settlements: &[Settlement]) -> Vec<Settled> {
        let reply =
            self.turn(&Turn { settle: settlements.iter().collect(), ..Turn::default() }).await;
        reply.settled.unwrap()
    }

    pub(crate) async fn extend(&self, lease: &Lease, by: Duration) -> Option<Token> {
        let (id, token) = (lease.id.clone(), lease.token.clone());
        let extension = Extension { id, token, by };
        let turn = Turn { holder: HOLDER, extend: vec![&extension], ..Turn::default() };
        let reply = self.turn(&turn).await;
        reply.extended.unwrap().remove(0)
    }

    pub(crate) async fn promote(&self) -> Promoted {
        self.promote_some(1_000, 0).await
    }

    pub(crate) async fn promote_some(&self, jobs: usize, skip: u64) -> Promoted {
        let promote = Some(Promotion { jobs, skip, discards_bad: false });
        self.turn(&Turn { promote, ..Turn::default() }).await.promoted.unwrap()
    }

    pub(crate) async fn reclaim(&self) -> Reclaimed {
        let info = r#"{"class":"crashed"}"#;
        let reclaim = Some(ReclaimRule {
            max_crashes: NonZero::new(CRASHES),
            delay: BACKOFF,
            info: Some(info).filter(|info| !info.is_empty()),
            renewed_within: Duration::ZERO,
        });
        self.turn(&Turn { reclaim, ..Turn::default() }).await.reclaimed.unwrap()
    }

    /// Up to so many dead jobs, the newest first.
    pub(crate) async fn dead_ids(&self, n: usize) -> Vec<JobId> {
        let mut ids = Vec::new();
        let mut after = None;
        loop {
            let page = PageQuery { after, limit: BATCH_MAX, ..PageQuery::default() };
            let query = DeadQuery { page, ..DeadQuery::default() };
            let page = self.queue.list_dead(&self.topic, &query).await.unwrap();
            ids.extend(page.jobs.into_iter().map(|job| job.id));
            after = page.next;
            if after.is_none() || ids.len() >= n {
                ids.truncate(n);
                return ids;
            }
        }
    }

    /// Takes a turn that Redis must not refuse.
    pub(crate) async fn turn(&self, turn: &Turn<'_>) -> duebox_queue::TurnReply {
        let reply = self.queue.turn(&self.shard, turn).await.unwrap();
        assert!(reply.error.is_none(), "{:?}", reply.error);
        reply
    }
}

/// A key in the slot of a shard.
fn tag_of(shard: &Shard) -> String {
    format!("{{{}}}", shard.tag())
}

/// A client of the server that has the slot of a key: this one, or another one of its cluster.
fn client_of(client: &redis::Client, key: &str) -> redis::Client {
    let asked: redis::RedisResult<u64> =
        redis::cmd("EXISTS").arg(key).query(&mut client.get_connection().unwrap());
    match asked.as_ref().map_err(redis::RedisError::redirect_node) {
        Err(Some((place, _))) => redis::Client::open(format!("redis://{place}/")).unwrap(),
        _ => client.clone(),
    }
}

// ---- things to say

pub(crate) fn id(id: &str) -> JobId {
    JobId::new(id).unwrap()
}

/// A job due now, whose payload is its id.
pub(crate) fn job(name: &str) -> NewJob {
    let payload = Bytes::from(name.to_owned());
    NewJob { id: id(name), due: Due::Now, payload, options: Options::default() }
}

/// A job due in so many seconds.
pub(crate) fn job_in(name: &str, seconds: u64) -> NewJob {
    NewJob { due: Due::In(Duration::from_secs(seconds)), ..job(name) }
}

/// A lease call under an id of its own.
pub(crate) fn call(jobs: usize) -> LeaseCall {
    let number = TOPICS.fetch_add(1, Ordering::Relaxed);
    LeaseCall::new(jobs, LEASE, format!("{HOLDER}:{number}"))
}

pub(crate) fn nack() -> Verdict {
    let info = r#"{"class":"nack","reason":"not yet"}"#.to_owned();
    Verdict::Nack { delay: BACKOFF, max_attempts: ATTEMPTS, info }
}

pub(crate) fn drop_it() -> Verdict {
    Verdict::Drop { info: r#"{"class":"drop"}"#.to_owned() }
}

pub(crate) fn release() -> Verdict {
    Verdict::Release { delay: Duration::ZERO }
}

/// A second claim on the same lease, as a runner has it that repeats itself.
pub(crate) fn twin(lease: &Lease) -> Lease {
    Lease {
        id: lease.id.clone(),
        token: lease.token.clone(),
        due_at_ms: lease.due_at_ms,
        place: lease.place,
        payload: lease.payload.clone(),
        payload_bytes: lease.payload_bytes,
        options: lease.options.clone(),
        failures: lease.failures,
        crashes: lease.crashes,
        snoozes: lease.snoozes,
    }
}
