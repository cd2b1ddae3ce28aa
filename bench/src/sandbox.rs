//! `./dev bench sandbox`: the host's whole cost of a job without Redis and without the daemon, from
//! the call that runs the handler to its report. The handlers of the SDKs ack without reading the job;
//! json-js and json-py parse one of 1 kB. One thread runs job after job for a fixed time; a job that is
//! not acked fails the bench.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use clap::Parser;
use duebox::language::SourceHandler;
use duebox_job::{JobId, Outcome, TopicName};
use duebox_sandbox::{
    Grants, Handler, HostServices, Instances, Interrupt, Invocation, JobContext, Level, Limits,
    LogSink, Sandbox, SandboxConfig,
};
use rustix::time::{ClockId, clock_gettime};

use crate::results::median;

pub(crate) const FRESH: Instances = Instances { snapshot: false, jobs_each: 1 };
pub(crate) const SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 1 };
/// The handlers that parse their payload, and the length of that, in bytes.
const JSON_JS: &str = "json-js";
const JSON_PY: &str = "json-py";
const JSON_BYTES: usize = 1_000;
pub(crate) const WARM: Instances = Instances { snapshot: false, jobs_each: 1_000 };
/// Jobs between two readings of the clock.
const BATCH: u32 = 50;

/// Measures the cost of a job in the sandbox by language and mode, and the cost of loading a module
#[derive(Debug, Parser)]
pub(crate) struct SandboxArgs {
    /// Bytes of each job's payload
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    payload: u64,
    /// Number of repeats; the table shows the median
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    repeats: u64,
    /// Duration of each measurement in ms
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    millis: u64,
    /// One handler and mode, as the table names it [default: all]
    #[arg(long)]
    only: Option<String>,
    /// Folder with noop-rust.wasm, noop-as.wasm and noop-go.wasm
    #[arg(long, default_value = "handlers/build")]
    handlers: PathBuf,
}

/// The target of a row.
#[derive(Clone, Copy)]
enum Target {
    AtMost(f64),
    AtLeast(f64),
    None,
}

struct Row {
    name: String,
    unit: &'static str,
    target: Target,
    figures: Vec<f64>,
    /// Elapsed time, where `figures` is CPU time.
    elapsed: Vec<f64>,
}

/// Cost of one job, µs.
#[derive(Clone, Copy)]
struct Cost {
    processor_us: f64,
    elapsed_us: f64,
}

/// Lines of jobs are of no interest.
pub(crate) struct DiscardLog;

impl LogSink for DiscardLog {
    fn line(&self, _job: &JobContext<'_>, _level: Level, _text: &str) {}
}

/// Measures and returns the table.
pub(crate) fn measure(args: &SandboxArgs) -> anyhow::Result<String> {
    let config = SandboxConfig { max_jobs: 256, memory_max: 64 << 20, tables_max: 100_000 };
    let sandbox = Sandbox::new(&config)?;
    let mut rows = Vec::new();
    let is_wanted = |name: &str| args.only.as_ref().is_none_or(|only| only == name);
    for (module, mode, instances, target) in cases() {
        let name = format!("{module}, {mode}");
        if !is_wanted(&name) {
            continue;
        }
        let handler = load(&sandbox, &args.handlers, module, instances)?;
        let payload = payload(args, module)?;
        let one = repeat(args, || cost(args, &handler, &payload, 1))?;
        if instances == FRESH {
            let two = repeat(args, || cost(args, &handler, &payload, 2))?;
            let ratio = one.iter().zip(&two).map(|(one, two)| one.elapsed_us / two.elapsed_us);
            let target = if module == "noop-go" { Target::None } else { Target::AtLeast(1.6) };
            rows.push(Row {
                name: format!("{name}, two threads"),
                unit: "×",
                target,
                figures: ratio.collect(),
                elapsed: Vec::new(),
            });
        }
        let figures = one.iter().map(|cost| cost.processor_us).collect();
        let elapsed = one.iter().map(|cost| cost.elapsed_us).collect();
        rows.push(Row { name, unit: "µs/job", target, figures, elapsed });
    }
    rows.extend(loads(args, &config, &is_wanted)?);
    rows.extend(further_topics(args, &config, &is_wanted)?);
    ensure!(!rows.is_empty(), "unknown handler and mode; run without --only to see the names");
    rows.sort_by_key(|row| row.unit != "µs/job");
    Ok(table(args, &rows))
}

/// What loading costs.
fn loads(
    args: &SandboxArgs,
    config: &SandboxConfig,
    is_wanted: &impl Fn(&str) -> bool,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, module, instances, target) in [
        ("loading a cached Go module", "noop-go", FRESH, 5.0),
        ("loading a cached Go snapshot", "noop-go", SNAPSHOT, 5.0),
        ("loading TypeScript, engine cached", "noop-js", SNAPSHOT, 50.0),
        ("loading Python, engine cached", "noop-py", SNAPSHOT, 400.0),
    ] {
        if !is_wanted(name) {
            continue;
        }
        let figures = cached_load_ms(args, config, module, instances)?;
        let (name, target) = (name.to_owned(), Target::AtMost(target));
        rows.push(Row { name, unit: "ms", target, figures, elapsed: Vec::new() });
    }
    Ok(rows)
}

/// What a further topic adds to a process.
fn further_topics(
    args: &SandboxArgs,
    config: &SandboxConfig,
    is_wanted: &impl Fn(&str) -> bool,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, module, target) in [
        ("a further topic in TypeScript", "noop-js", 2.0),
        ("a further topic in Python", "noop-py", 25.0),
    ] {
        if !is_wanted(name) {
            continue;
        }
        let source = crate::settings::source_of(&args.handlers, module);
        let figures = vec![crate::further_topic::taken_mb(config, &source)?];
        let (name, target) = (name.to_owned(), Target::AtMost(target));
        rows.push(Row { name, unit: "MB", target, figures, elapsed: Vec::new() });
    }
    Ok(rows)
}

/// CPU time of one job of this module in this mode, µs: the median of five repeats.
pub(crate) fn processor_us(
    handlers: &Path,
    payload: u64,
    module: &str,
    mode: &str,
) -> anyhow::Result<f64> {
    let args =
        SandboxArgs { payload, repeats: 5, millis: 200, only: None, handlers: handlers.to_owned() };
    let case = cases().into_iter().find(|case| (case.0, case.1) == (module, mode));
    let (_, _, instances, _) = case.with_context(|| format!("no case {module}, {mode}"))?;
    let config = SandboxConfig { max_jobs: 256, memory_max: 64 << 20, tables_max: 100_000 };
    let handler = load(&Sandbox::new(&config)?, handlers, module, instances)?;
    let bytes = self::payload(&args, module)?;
    let costs = repeat(&args, || cost(&args, &handler, &bytes, 1))?;
    let mut figures: Vec<f64> = costs.iter().map(|cost| cost.processor_us).collect();
    figures.sort_by(f64::total_cmp);
    Ok(median(&figures))
}

fn cases() -> [(&'static str, &'static str, Instances, Target); 16] {
    let warm = Target::AtMost(1.0);
    [
        ("noop-rust", "fresh", FRESH, Target::AtMost(8.0)),
        ("noop-rust", "warm", WARM, warm),
        ("noop-as", "fresh", FRESH, Target::AtMost(6.0)),
        ("noop-as", "warm", WARM, warm),
        ("noop-go", "fresh", FRESH, Target::None),
        ("noop-go", "snapshot", SNAPSHOT, Target::AtMost(75.0)),
        ("noop-go", "warm", WARM, warm),
        ("noop-go", "warm from a snapshot", Instances { snapshot: true, ..WARM }, warm),
        ("noop-js", "snapshot", SNAPSHOT, Target::AtMost(20.0)),
        ("noop-js", "warm", WARM, Target::None),
        (JSON_JS, "snapshot", SNAPSHOT, Target::AtMost(35.0)),
        (JSON_JS, "warm", WARM, Target::None),
        ("noop-py", "snapshot", SNAPSHOT, Target::AtMost(45.0)),
        ("noop-py", "warm", WARM, Target::None),
        (JSON_PY, "snapshot", SNAPSHOT, Target::None),
        (JSON_PY, "warm", WARM, Target::None),
    ]
}

fn repeat<T>(
    args: &SandboxArgs,
    measure: impl Fn() -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    measure()?; // The first run only warms caches and pools.
    (0..args.repeats).map(|_| measure()).collect()
}

fn module_bytes(folder: &Path, module: &str) -> anyhow::Result<Vec<u8>> {
    let path = folder.join(format!("{module}.wasm"));
    std::fs::read(&path)
        .with_context(|| format!("no handler at {}; run: ./dev handlers {module}", path.display()))
}

pub(crate) fn load(
    sandbox: &Sandbox,
    folder: &Path,
    module: &str,
    instances: Instances,
) -> anyhow::Result<Handler> {
    let limits = Limits { instances, ..Limits::default() };
    let source = crate::settings::source_of(folder, module);
    if source.is_file() {
        let source = SourceHandler::read(sandbox, &source, &limits)?;
        return Ok(source.load(sandbox, limits, Grants::default())?);
    }
    Ok(sandbox.load(&module_bytes(folder, module)?, limits, Grants::default())?)
}

/// The payload of a handler's jobs.
fn payload(args: &SandboxArgs, module: &str) -> anyhow::Result<Bytes> {
    if module != JSON_JS && module != JSON_PY {
        return Ok(Bytes::from("x".repeat(usize::try_from(args.payload)?)));
    }
    let mut text = r#"{"id":42,"items":[{"sku":"tea","count":2}"#.to_owned();
    while text.len() < JSON_BYTES {
        text += r#",{"sku":"tea","count":2}"#;
    }
    Ok(Bytes::from(text + "]}"))
}

/// Measures the cost of a job with `threads` threads that run jobs.
fn cost(
    args: &SandboxArgs,
    handler: &Handler,
    payload: &Bytes,
    threads: usize,
) -> anyhow::Result<Cost> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let span = Duration::from_millis(args.millis);
    let (began, used) = (Instant::now(), processor_time());
    let tasks: Vec<_> = (0..threads)
        .map(|_| {
            let (handler, payload) = (handler.clone(), payload.clone());
            runtime.spawn(async move { drain(&handler, job(payload)?, began, span).await })
        })
        .collect();
    let mut jobs = 0;
    for task in tasks {
        jobs += runtime.block_on(task)??;
    }
    ensure!(jobs > 0, "no job was run");
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(jobs);
    Ok(Cost { processor_us: each(processor_time() - used), elapsed_us: each(began.elapsed()) })
}

/// CPU time of this process on all cores.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Runs job after job for this span and returns their number.
pub(crate) async fn drain(
    handler: &Handler,
    job: Invocation,
    began: Instant,
    span: Duration,
) -> anyhow::Result<u32> {
    let (interrupt, services) =
        (Interrupt::new(), Arc::new(HostServices::with_logs(Arc::new(DiscardLog))));
    let mut jobs = 0;
    while began.elapsed() < span {
        for _ in 0..BATCH {
            let report = handler.run(job.clone(), interrupt.clone(), Arc::clone(&services)).await;
            if report.outcome != Outcome::Acked {
                bail!("a job was not acked: {:?}", report.outcome);
            }
        }
        jobs += BATCH;
    }
    Ok(jobs)
}

/// A job with this payload.
pub(crate) fn job(payload: Bytes) -> anyhow::Result<Invocation> {
    Ok(Invocation {
        id: JobId::new("job-1")?,
        topic: TopicName::new("bench")?,
        payload,
        attempt: 1,
        max_attempts: 8,
        due_at_ms: 1_763_740_800_000,
        headers: BTreeMap::new(),
        ttr: Duration::from_secs(30),
        span: None,
    })
}

/// Milliseconds to load a module that an earlier process has compiled, including reading its file.
fn cached_load_ms(
    args: &SandboxArgs,
    config: &SandboxConfig,
    module: &str,
    instances: Instances,
) -> anyhow::Result<Vec<f64>> {
    let folder = tempfile::tempdir().context("cannot create a directory for the cache")?;
    let sandbox = || {
        let mut sandbox = Sandbox::new(config)?;
        sandbox.use_cache_dir(folder.path())?;
        anyhow::Ok(sandbox)
    };
    drop(load(&sandbox()?, &args.handlers, module, instances)?);
    let once = || {
        let sandbox = sandbox()?;
        let began = Instant::now();
        let handler = load(&sandbox, &args.handlers, module, instances)?;
        let took = began.elapsed();
        drop(handler);
        Ok(took.as_secs_f64() * 1e3)
    };
    repeat(args, once)
}

fn table(args: &SandboxArgs, rows: &[Row]) -> String {
    let mut text = format!(
        "one thread, payload of {} bytes, median of {} (min–max); a job's µs are those of a processor, behind them \
         what elapsed\n\n",
        args.payload, args.repeats
    );
    for Row { name, unit, target, figures, elapsed } in rows {
        let mut figures = figures.clone();
        figures.sort_by(f64::total_cmp);
        let (Some(min), Some(max)) = (figures.first(), figures.last()) else { continue };
        let middle = median(&figures);
        let judged = |good: bool, word: &str, wanted: f64| {
            format!("{word} {wanted:<5} {}", if good { "pass" } else { "MISS" })
        };
        let judged = match *target {
            Target::AtMost(wanted) => judged(middle <= wanted, "≤", wanted),
            Target::AtLeast(wanted) => judged(middle >= wanted, "≥", wanted),
            Target::None => String::new(),
        };
        let range = format!("({min:.2}–{max:.2})");
        let mut elapsed = elapsed.clone();
        elapsed.sort_by(f64::total_cmp);
        let elapsed = match elapsed.as_slice() {
            [] => String::new(),
            sorted => format!("{:.2} elapsed", median(sorted)),
        };
        text.push_str(&format!(
            "{name:<32} {middle:>8.2} {unit:<7} {range:<18} {judged:<12} {elapsed}\n"
        ));
    }
    text
}

/// Prints the table.
pub(crate) fn run(args: &SandboxArgs) -> anyhow::Result<()> {
    let table = measure(args)?;
    let mut stdout = std::io::stdout().lock();
    write!(stdout, "{table}").context("cannot print the table")
}
