//! What each verb costs Redis: µs of server time a job, on a redis-server of its own.
//!
//! `cargo run --release -p duebox-queue --example verb_cost` prints a table of all verbs with the
//! figures of this machine: batches of 200 (promote 1,000), 60,000 jobs, 26-byte ids, 200-byte
//! payloads; alone, and above 500,000 jobs that wait in pending. Each figure is the median of its
//! batches, so that what else the machine does now and then does not show.
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends there")]
#![allow(clippy::print_stdout, reason = "the table is what it is for")]

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_harness::RedisServer;
use duebox_job::{JobId, Options, TopicName};
use duebox_queue::{
    ConnectionSettings, Due, IfExists, LeaseCall, Leased, LeasedJobs, NewJob, Promotion, Pushed,
    Queue, Turn, Verdict,
};

const JOBS: usize = 60_000;
const BATCH: usize = 200;
const PAYLOAD: usize = 200;
const WAITING: usize = 500_000;
/// How long delayed jobs wait; longer than pushing them takes.
const DELAY: Duration = Duration::from_secs(5);

/// A verb, and the contract's figures for it: alone, and above 500,000 waiting.
const VERBS: [(&str, f64, f64); 10] = [
    ("push, due now", 2.5, 3.5),
    ("lease, first attempt", 2.6, 3.2),
    ("ack", 1.6, 2.4),
    ("push, delayed", 2.2, 3.7),
    ("promote from pending", 1.9, 2.6),
    ("nack", 5.0, 5.2),
    ("promote from retry", 1.3, 1.3),
    ("lease, retry", 3.0, 3.3),
    ("release", 4.2, 4.4),
    ("drop", 8.3, 8.7),
];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let server = RedisServer::start();
    let mut bench = Bench::on(&server).await;
    let here = bench.round().await;
    bench.fill().await;
    let above = bench.round().await;

    println!(
        "{:<32} {:>8} {:>9} {:>15} {:>9}",
        "µs a job", "here", "contract", "above 500,000", "contract"
    );
    for (i, (verb, alone, waiting)) in VERBS.into_iter().enumerate() {
        row(verb, here[i], alone, above[i], waiting);
    }
    let immediate = |costs: &[f64]| costs[0] + costs[1] + costs[2];
    let delayed = |costs: &[f64]| costs[3] + costs[4] + costs[1] + costs[2];
    row("push → lease → ack", immediate(&here), 6.6, immediate(&above), 9.6);
    row("delayed push → promote → …", delayed(&here), 8.4, delayed(&above), 11.7);
}

fn row(what: &str, here: f64, contract: f64, above: f64, above_contract: f64) {
    println!("{what:<32} {here:>8.1} {contract:>9.1} {above:>15.1} {above_contract:>9.1}");
}

/// The median of what batches took, in µs a job.
fn median(mut batches: Vec<f64>) -> f64 {
    batches.sort_by(f64::total_cmp);
    batches[batches.len() / 2]
}

struct Bench {
    queue: Queue,
    topic: TopicName,
    calls: u64,
    redis: redis::Connection,
}

impl Bench {
    async fn on(server: &RedisServer) -> Self {
        let settings = ConnectionSettings::new(server.url());
        Self {
            queue: Queue::connect(&settings, "duebox").await.unwrap(),
            topic: TopicName::new("cost").unwrap(),
            calls: 0,
            redis: redis::Client::open(server.url()).unwrap().get_connection().unwrap(),
        }
    }

    /// Every verb on all jobs; µs a job each, in the order of [`VERBS`].
    async fn round(&mut self) -> Vec<f64> {
        let push_now = self.push(Due::Now).await;
        let (lease, ack) = self.lease_and_settle(|| Verdict::Ack).await;

        let push_delayed = self.push(Due::In(DELAY)).await;
        let promote_pending = self.promote_all().await;
        let info = || r#"{"class":"nack","reason":"for its cost"}"#.to_owned();
        let nack = || Verdict::Nack { delay: Duration::ZERO, max_attempts: 9, info: info() };
        let (_, nack) = self.lease_and_settle(nack).await;
        let promote_retry = self.promote_all().await;
        // A released job is due as before, so that the same ones are leased again and again.
        let release = || Verdict::Release { delay: Duration::ZERO };
        let (lease_retry, release) = self.lease_and_settle(release).await;
        let (_, drop) = self.lease_and_settle(|| Verdict::Drop { info: info() }).await;
        while self.queue.prune_above(&self.topic.first_shard(), 0).await.unwrap() > 0 {}
        vec![
            push_now,
            lease,
            ack,
            push_delayed,
            promote_pending,
            nack,
            promote_retry,
            lease_retry,
            release,
            drop,
        ]
    }

    async fn push(&mut self, due: Due) -> f64 {
        let jobs: Vec<NewJob> = (0..JOBS).map(|i| job("job", i, due)).collect();
        let mut pushing = Vec::new();
        for batch in jobs.chunks(BATCH) {
            let push = self.queue.push(&self.topic, batch, IfExists::Reject);
            let (usec, words) = spent_by(&mut self.redis, push).await;
            assert!(words.unwrap().iter().all(|word| *word == Pushed::Pushed));
            pushing.push(usec / BATCH as f64);
        }
        median(pushing)
    }

    /// Promotes until all jobs are ready; waits for those that are not due yet.
    async fn promote_all(&mut self) -> f64 {
        let started = Instant::now();
        let (mut promoting, mut moved) = (Vec::new(), 0);
        while moved < JOBS as u64 {
            let promote = Some(Promotion { jobs: 1_000, skip: 0, discards_bad: false });
            let turn = Turn { promote, ..Turn::default() };
            let shard = self.topic.first_shard();
            let promoted = self.queue.turn(&shard, &turn);
            let (usec, reply) = spent_by(&mut self.redis, promoted).await;
            let promoted = reply.unwrap().promoted.unwrap();
            if promoted.moved > 0 {
                promoting.push(usec / promoted.moved as f64);
                moved += promoted.moved;
            } else {
                assert!(started.elapsed() < DELAY * 10, "jobs do not fall due");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        median(promoting)
    }

    /// Leases and settles as many jobs as there are; µs a job for leasing, and for settling.
    async fn lease_and_settle(&mut self, verdict: impl Fn() -> Verdict) -> (f64, f64) {
        let (mut leasing, mut settling) = (Vec::new(), Vec::new());
        for _ in 0..JOBS / BATCH {
            self.calls += 1;
            let call_id = self.calls.to_string();
            let call = LeaseCall::new(BATCH, Duration::from_secs(15), call_id);
            let turn = Turn { lease: Some(&call), ..Turn::default() };
            let (usec, reply) =
                spent_by(&mut self.redis, self.queue.turn(&self.topic.first_shard(), &turn)).await;
            leasing.push(usec / BATCH as f64);
            let Some(Leased::Jobs(LeasedJobs { leases, .. })) = reply.unwrap().leased else {
                panic!("{BATCH} jobs were to be ready")
            };
            assert_eq!(leases.len(), BATCH);
            let settle: Vec<_> = leases.into_iter().map(|lease| lease.settle(verdict())).collect();
            let turn = Turn { settle: settle.iter().collect(), ..Turn::default() };
            let (usec, reply) =
                spent_by(&mut self.redis, self.queue.turn(&self.topic.first_shard(), &turn)).await;
            settling.push(usec / BATCH as f64);
            assert!(reply.unwrap().error.is_none());
        }
        (median(leasing), median(settling))
    }

    /// Jobs that wait for days, and make all trees deeper.
    async fn fill(&mut self) {
        let due = Due::In(Duration::from_secs(10 * 86_400));
        for first in (0..WAITING).step_by(10_000) {
            let jobs: Vec<NewJob> = (first..first + 10_000).map(|i| job("far", i, due)).collect();
            self.queue.push(&self.topic, &jobs, IfExists::Reject).await.unwrap();
        }
    }
}

/// Does some work, and says how many µs the scripts of it took on the server.
async fn spent_by<T>(redis: &mut redis::Connection, work: impl Future<Output = T>) -> (f64, T) {
    let before = script_usec(redis);
    let done = work.await;
    ((script_usec(redis) - before) as f64, done)
}

/// µs that the server has spent in scripts since it started.
fn script_usec(redis: &mut redis::Connection) -> u64 {
    let info: redis::InfoDict = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    let Some(stats) = info.get::<String>("cmdstat_evalsha") else { return 0 };
    let usec = stats.split(',').find_map(|field| field.strip_prefix("usec="));
    usec.unwrap().parse().unwrap()
}

/// A job with an id of 26 bytes.
fn job(kind: &str, number: usize, due: Due) -> NewJob {
    NewJob {
        id: JobId::new(format!("{kind}-{number:022}")).unwrap(),
        due,
        payload: Bytes::from(vec![b'x'; PAYLOAD]),
        options: Options::default(),
    }
}
