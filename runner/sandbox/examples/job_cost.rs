//! What a job costs in the sandbox: µs for one run in a fresh instance, on one thread and on all.
//!
//! `cargo run --release -p duebox-sandbox --example job_cost -- MODULE [PAYLOAD] [JOBS]`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::{JobId, TopicName};
use duebox_sandbox::{
    Grants, Handler, Interrupt, Invocation, JobContext, Level, Limits, LogSink, Sandbox,
    SandboxConfig,
};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

struct Quiet;

impl LogSink for Quiet {
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
            eprintln!("cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<String, AnyError> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("name a module: cost MODULE [PAYLOAD] [JOBS]")?;
    let payload = Bytes::from(arguments.next().unwrap_or_else(|| "{}".to_owned()));
    let jobs: u32 = arguments.next().map_or(Ok(100_000), |count| count.parse())?;
    let threads = std::thread::available_parallelism()?.get();

    let sandbox =
        Sandbox::new(&SandboxConfig { max_jobs: 256, memory_max: 64 << 20, tables_max: 100_000 })?;
    let began = Instant::now();
    let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let handler = sandbox.load(&bytes, Limits::default(), Grants::default())?;
    let load = began.elapsed();

    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let first = runtime.block_on(handler.run(job(&payload)?, Interrupt::new(), Arc::new(Quiet)));
    let one = drain(&runtime, &handler, &payload, jobs, 1)?;
    let all = drain(&runtime, &handler, &payload, jobs, threads)?;
    Ok(format!(
        "loaded in {load:?}; the first job: {:?} in {:?}, peak {} KiB\n\
         one thread: {:.2} µs a job; {threads} threads: {:.0} jobs/s",
        first.outcome,
        first.wall,
        first.memory_peak >> 10,
        one.as_secs_f64() * 1e6 / f64::from(jobs),
        f64::from(jobs) / all.as_secs_f64(),
    ))
}

/// Runs the jobs on so many tasks and says how long that took.
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
                    handler.run(job.clone(), interrupt.clone(), Arc::new(Quiet)).await;
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
    })
}
