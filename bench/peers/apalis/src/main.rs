//! The peer apalis with apalis-redis: https://github.com/apalis-dev/apalis-redis
//!
//! Default settings, and tuned: batches of 100, 100 jobs at once, Redis polled every 10 ms, a
//! heartbeat every second (which also enqueues scheduled jobs), locks, results and events off.
//!
//! Arguments and replies follow the protocol of all peers (see ../README.md).

use std::error::Error;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use apalis::prelude::*;
use apalis_core::backend::ext::BackendExt;
use apalis_core::task::builder::TaskBuilder;
use apalis_redis::{Config, RedisStorage};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::Notify;

const PAYLOAD_LEN: usize = 200;
const LEAD_US: i64 = 3_000_000;
const IN_FLIGHT: usize = 32;
const BATCH: usize = 1_000;
const STALL_MAX: Duration = Duration::from_secs(35);

type Storage = RedisStorage<Job>;
type Failure = Box<dyn Error + Send + Sync>;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Job {
    n: i64,
    due_us: i64,
    pad: String,
}

/// Records of handled jobs.
struct Records {
    jobs: Vec<AtomicU8>,
    late_us: Vec<AtomicI64>,
    handled: AtomicU64,
    twice: AtomicU64,
    last_us: AtomicI64,
    warm: Notify,
}

/// The arguments: TASK SETTINGS HOST:PORT JOBS SPREAD_MS.
struct Arguments {
    task: String,
    tuned: bool,
    address: String,
    jobs: usize,
    spread_ms: i64,
}

static ARGUMENTS: LazyLock<Arguments> = LazyLock::new(|| {
    let args: Vec<String> = std::env::args().collect();
    let [_, task, settings, address, jobs, spread_ms] = args.as_slice() else {
        eprintln!("usage: duebox-peer-apalis TASK SETTINGS HOST:PORT JOBS SPREAD_MS");
        std::process::exit(2);
    };
    Arguments {
        task: task.clone(),
        tuned: settings == "tuned",
        address: address.clone(),
        jobs: jobs.parse().expect("JOBS is a number"),
        spread_ms: spread_ms.parse().expect("SPREAD_MS is a number"),
    }
});

static RECORDS: LazyLock<Records> = LazyLock::new(|| Records {
    jobs: (0..ARGUMENTS.jobs).map(|_| AtomicU8::new(0)).collect(),
    late_us: (0..ARGUMENTS.jobs).map(|_| AtomicI64::new(0)).collect(),
    handled: AtomicU64::new(0),
    twice: AtomicU64::new(0),
    last_us: AtomicI64::new(0),
    warm: Notify::new(),
});

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut stdin = BufReader::new(tokio::io::stdin()).lines();
    let storage = storage().await?;
    match ARGUMENTS.task.as_str() {
        "push-one" => {
            ready(&mut stdin).await?;
            let from = Instant::now();
            let mut storage = storage.clone();
            for number in 0..ARGUMENTS.jobs {
                storage.push(job(number as i64, now_us())).await?;
            }
            reply(json!({ "seconds": from.elapsed().as_secs_f64() }));
        }
        "push-flight" => {
            ready(&mut stdin).await?;
            let from = Instant::now();
            spread(&storage, |number| Task::new(job(number as i64, now_us()))).await?;
            reply(json!({ "seconds": from.elapsed().as_secs_f64() }));
        }
        "push-batch" => {
            ready(&mut stdin).await?;
            let from = Instant::now();
            push_batches(&storage).await?;
            reply(json!({ "seconds": from.elapsed().as_secs_f64() }));
        }
        "drain" => {
            push_batches(&storage).await?;
            ready(&mut stdin).await?;
            let from_us = now_us();
            serve(storage);
            finish(from_us, false).await;
        }
        "due" => {
            warm_up(&storage).await?;
            ready(&mut stdin).await?;
            let begin_us = (now_us() + LEAD_US) / 1_000 * 1_000;
            spread(&storage, |number| {
                let after_ms = number as i64 * ARGUMENTS.spread_ms / ARGUMENTS.jobs as i64;
                let due_us = begin_us + after_ms * 1_000;
                let due = UNIX_EPOCH + Duration::from_micros(due_us as u64);
                TaskBuilder::new(job(number as i64, due_us)).run_at_time(due).build()
            })
            .await?;
            if now_us() > begin_us {
                let why = "the pushes did not finish before the first job fell due";
                reply(json!({ "unsupported": why }));
                return Ok(());
            }
            finish(begin_us, true).await;
        }
        "idle" => {
            warm_up(&storage).await?;
            ready(&mut stdin).await?;
        }
        _ => reply(json!({ "unsupported": "unknown task" })),
    }
    // The bench measures this process until it closes stdin.
    while stdin.next_line().await?.is_some() {}
    std::process::exit(0);
}

async fn storage() -> Result<Storage, Failure> {
    let connection = apalis_redis::connect(format!("redis://{}/", ARGUMENTS.address)).await?;
    let config = Config::default().queue("bench");
    let config = if ARGUMENTS.tuned {
        config
            .batch_size(100)
            .heartbeat_interval(Duration::from_secs(1))
            .lock_tasks(false)
            .persist_results(false)
            .emit_events(false)
    } else {
        config
    };
    Ok(RedisStorage::new(connection).with_config(config))
}

async fn handle(job: Job) -> Result<(), BoxDynError> {
    let now = now_us();
    let Ok(number) = usize::try_from(job.n) else {
        RECORDS.warm.notify_one();
        return Ok(());
    };
    if RECORDS.jobs[number].fetch_add(1, Relaxed) > 0 {
        RECORDS.twice.fetch_add(1, Relaxed);
        return Ok(());
    }
    RECORDS.late_us[number].store(now - job.due_us, Relaxed);
    RECORDS.last_us.store(now, Relaxed);
    RECORDS.handled.fetch_add(1, Relaxed);
    Ok(())
}

/// Starts the worker.
fn serve(storage: Storage) {
    tokio::spawn(async move {
        let ended = if ARGUMENTS.tuned {
            let storage = storage.poll_with_interval(Duration::from_millis(10));
            WorkerBuilder::new("bench").backend(storage).concurrency(100).build(handle).run().await
        } else {
            WorkerBuilder::new("bench").backend(storage).build(handle).run().await
        };
        eprintln!("the worker exited: {ended:?}");
    });
}

async fn warm_up(storage: &Storage) -> Result<(), Failure> {
    serve(storage.clone());
    storage.clone().push(job(-1, now_us())).await?;
    tokio::time::timeout(Duration::from_secs(60), RECORDS.warm.notified()).await?;
    Ok(())
}

fn job(n: i64, due_us: i64) -> Job {
    let bare = format!("{{\"n\":{n},\"due_us\":{due_us},\"pad\":\"\"}}").len();
    Job { n, due_us, pad: "x".repeat(PAYLOAD_LEN - bare) }
}

async fn push_batches(storage: &Storage) -> Result<(), Failure> {
    let numbers: Vec<usize> = (0..ARGUMENTS.jobs).collect();
    let mut storage = storage.clone();
    for batch in numbers.chunks(BATCH) {
        storage
            .push_bulk(batch.iter().map(|number| job(*number as i64, now_us())).collect())
            .await?;
    }
    Ok(())
}

/// Pushes every job with many pushes in flight.
async fn spread(
    storage: &Storage,
    task: impl Fn(usize) -> Task<Job> + Copy + Send + Sync,
) -> Result<(), Failure> {
    use futures_util::StreamExt as _;
    let pushes = stream::iter(0..ARGUMENTS.jobs).map(|number| {
        let mut storage = storage.clone();
        async move { storage.push_task(task(number)).await }
    });
    let mut pushes = std::pin::pin!(pushes.buffer_unordered(IN_FLIGHT));
    while let Some(pushed) = pushes.next().await {
        pushed?;
    }
    Ok(())
}

/// Waits until every job is handled, or none for a long time, and replies.
async fn finish(from_us: i64, with_lateness: bool) {
    let records = &*RECORDS;
    let (mut seen, mut moved) = (u64::MAX, Instant::now());
    loop {
        let handled = records.handled.load(Relaxed);
        if handled != seen {
            (seen, moved) = (handled, Instant::now());
        }
        if handled == ARGUMENTS.jobs as u64 || moved.elapsed() > STALL_MAX {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let seconds = (records.last_us.load(Relaxed) - from_us) as f64 / 1e6;
    let mut found =
        json!({ "handled": seen, "twice": records.twice.load(Relaxed), "seconds": seconds });
    if with_lateness {
        let handled =
            records.jobs.iter().zip(&records.late_us).filter(|(record, _)| record.load(Relaxed) > 0);
        found["late_us"] = handled.map(|(_, late_us)| late_us.load(Relaxed)).collect();
    }
    reply(found);
}

/// Reports readiness and waits for the signal to start; exits if stdin closes first.
async fn ready(stdin: &mut Lines<BufReader<Stdin>>) -> Result<(), Failure> {
    reply(json!({ "ready": true }));
    if stdin.next_line().await?.is_none() {
        std::process::exit(0);
    }
    Ok(())
}

fn reply(value: serde_json::Value) {
    println!("{value}");
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
