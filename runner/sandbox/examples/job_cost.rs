//! Measures the cost of a job in the sandbox: µs for one run on one thread, jobs/s on all threads, and the time
//! to load the module, compiled and from the cache.
//!
//! `cargo run --release -p duebox-sandbox --example job_cost -- MODULE [PAYLOAD] [JOBS] [MODE]`
//! MODE is fresh, snapshot, warm or warm-snapshot.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::{JobId, TopicName};
use duebox_sandbox::{
    Grants, Handler, HostServices, Instances, Interrupt, Invocation, JobContext, Level, Limits,
    LogSink, Sandbox, SandboxConfig,
};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Discards log lines.
struct DiscardLog;

impl LogSink for DiscardLog {
    fn line(&self, _job: &JobContext<'_>, _level: Level, _text: &str) {}
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a measuring tool for a terminal")]
fn main() -> ExitCode {
    match measure() {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("job_cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<String, AnyError> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: job_cost MODULE [PAYLOAD] [JOBS] [MODE]")?;
    let payload = Bytes::from(arguments.next().unwrap_or_else(|| "{}".to_owned()));
    let jobs: u32 = arguments.next().map_or(Ok(100_000), |count| count.parse())?;
    let instances = instances(arguments.next().as_deref().unwrap_or("fresh"))?;
    let threads = std::thread::available_parallelism()?.get();

    let cache = tempfile::tempdir()?;
    let (_, compiled) = load(&path, instances, cache.path())?;
    let (handler, cached) = load(&path, instances, cache.path())?;

    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let first = runtime.block_on(handler.run(
        job(&payload)?,
        Interrupt::new(),
        Arc::new(HostServices::with_logs(Arc::new(DiscardLog))),
    ));
    let one = drain(&runtime, &handler, &payload, jobs, 1)?;
    let all = drain(&runtime, &handler, &payload, jobs, threads)?;
    Ok(format!(
        "loaded in {compiled:?}, from the cache in {cached:?}; the first job: {:?} in {:?}, peak {} KiB\n\
         one thread: {:.2} µs a job; {threads} threads: {:.0} jobs/s",
        first.outcome,
        first.wall,
        first.memory_peak >> 10,
        one.as_secs_f64() * 1e6 / f64::from(jobs),
        f64::from(jobs) / all.as_secs_f64(),
    ))
}

fn instances(mode: &str) -> Result<Instances, AnyError> {
    let (snapshot, jobs_each) = match mode {
        "fresh" => (false, 1),
        "snapshot" => (true, 1),
        "warm" => (false, 1_000),
        "warm-snapshot" => (true, 1_000),
        _ => {
            return Err(
                format!("unknown mode {mode}: use fresh, snapshot, warm or warm-snapshot").into()
            );
        }
    };
    Ok(Instances { snapshot, jobs_each })
}

/// Loads a module in a new sandbox, as a daemon does at its start. Returns how long it took.
fn load(path: &str, instances: Instances, cache: &Path) -> Result<(Handler, Duration), AnyError> {
    let config = SandboxConfig { max_jobs: 256, memory_max: 64 << 20, tables_max: 100_000 };
    let mut sandbox = Sandbox::new(&config)?;
    sandbox.use_cache_dir(cache)?;
    let began = Instant::now();
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let grants = Grants { push: Some(Vec::new()), ..Grants::default() };
    let handler = sandbox.load(&bytes, Limits { instances, ..Limits::default() }, grants)?;
    Ok((handler, began.elapsed()))
}

/// Runs the jobs on this number of tasks. Returns how long it took.
fn drain(
    runtime: &tokio::runtime::Runtime,
    handler: &Handler,
    payload: &Bytes,
    jobs: u32,
    tasks: usize,
) -> Result<Duration, AnyError> {
    let began = Instant::now();
    let share = jobs as usize / tasks;
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let (handler, job) = (handler.clone(), job(payload));
            runtime.spawn(async move {
                let (job, interrupt) = (job?, Interrupt::new());
                for _ in 0..share {
                    handler
                        .run(
                            job.clone(),
                            interrupt.clone(),
                            Arc::new(HostServices::with_logs(Arc::new(DiscardLog))),
                        )
                        .await;
                }
                Ok::<_, AnyError>(())
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task)??;
    }
    Ok(began.elapsed())
}

fn job(payload: &Bytes) -> Result<Invocation, AnyError> {
    Ok(Invocation {
        id: JobId::new("job-1")?,
        topic: TopicName::new("cost")?,
        payload: payload.clone(),
        attempt: 1,
        max_attempts: 8,
        due_at_ms: 1_763_740_800_000,
        headers: BTreeMap::new(),
        ttr: Duration::from_secs(30),
        span: None,
    })
}
