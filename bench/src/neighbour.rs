//! `./dev bench neighbour`: how late a quiet topic's jobs reach their verdict alone, and next to a
//! topic with hostile handlers.
//!
//! Each hostile workload has its own daemon and Redis. A round has two phases with the same quiet
//! jobs: one alone and one next to the hostile topic, so that noise of the machine affects both.
//! The medians over all rounds are compared. Every quiet job must be acked exactly once, however
//! late.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Parser;
use duebox_harness::Daemon;
use duebox_job::{JobId, Options, TopicName};
use duebox_queue::{Depths, Due, IfExists, NewJob, Queue};
use serde::Serialize;

use self::limited::{Limited, Usage};

use crate::fixture::Fixture;
use crate::lateness::{self, Lateness, Quantiles};
use crate::machine::Machine;
use crate::report;
use crate::results::median;

mod limited;

/// Upper bound for the lateness next to a hostile topic, as a multiple of the lateness alone, at
/// the 99th percentile.
const RATIO_MAX: f64 = 2.0;
/// From the push to the first quiet job's due time, in ms.
const LEAD_MS: u64 = 1_000;
/// Pause between two checks of the hostile topic.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Upper bound on the number of checks.
const POLLS_MAX: usize = 600;
/// Hostile jobs per push.
const PUSH_BATCH: usize = 1_000;
/// Seconds per round, beyond the phase itself, for which hostile jobs are pushed.
const SPARE_S: u64 = 2;
const HOSTILE: &str = "hostile";

/// Measures how late a topic's jobs are next to a hostile topic, compared with alone
#[derive(Debug, Parser)]
pub(crate) struct NeighbourArgs {
    /// Quiet jobs per second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=2_000))]
    rate: u64,
    /// Rounds of one phase alone and one next to the hostile topic
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Seconds per phase
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Hostile workloads by their names in the table [default: all]
    #[arg(long)]
    only: Vec<String>,
    /// Handler module of the quiet topic
    #[arg(long, default_value = "handlers/build/noop-rust.wasm")]
    handler: PathBuf,
    /// Folder of the hostile modules
    #[arg(long, default_value = "tests/hostile")]
    hostile: PathBuf,
    /// Folder for the results
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
    /// Runs the daemon in a cgroup with so many cores, as a container has (needs root)
    #[arg(long, value_parser = limited::read_cpus)]
    cpus: Option<f64>,
    /// Memory limit of that cgroup, in MiB
    #[arg(long, requires = "cpus", value_parser = clap::value_parser!(u64).range(32..=65_536))]
    memory: Option<u64>,
}

/// One hostile workload.
struct Workload {
    name: &'static str,
    module: Module,
    concurrency: u32,
    ttr: &'static str,
    /// Jobs pushed per second of a phase: more than can run.
    jobs_a_second: u64,
}

/// The handler of a hostile topic.
enum Module {
    /// The quiet topic's own.
    Quiet,
    /// A file of `tests/hostile`, without its extension.
    Hostile(&'static str),
    /// A module as text.
    Text(&'static str),
}

/// Computes for about 2 ms.
const TWO_MS_LOOP: &str = r#"(module
  (func (export "handle") (param $left i32) (result i32)
    (local.set $left (i32.const 2000000))
    (loop $again
      (local.tee $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $again))
    (i32.const 0)))"#;

const WORKLOADS: [Workload; 9] = [
    workload("endless loop", "endless_loop", 64),
    workload("memory hog", "memory_hog", 64),
    workload("log flood", "log_flood", 64),
    workload("endless host calls", "endless_host_calls", 64),
    Workload { ttr: "5s", ..workload("sleepers", "sleeps_for_an_hour", 200) },
    workload("huge memory.fill", "endless_memory_fill", 64),
    workload("stack overflow", "stack_overflow", 64),
    Workload { module: Module::Text(TWO_MS_LOOP), ..workload("2 ms loops", "", 64) },
    Workload {
        module: Module::Quiet,
        jobs_a_second: 60_000,
        ..workload("mass of short jobs", "", 64)
    },
];

const fn workload(name: &'static str, module: &'static str, concurrency: u32) -> Workload {
    let module = Module::Hostile(module);
    Workload { name, module, concurrency, ttr: "1s", jobs_a_second: 10_000 }
}

/// The quiet topic alone and next to one hostile workload.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(rename = "harm")]
    workload: &'static str,
    rounds: Vec<Round>,
    /// From due time to verdict, median of the rounds.
    alone: Late,
    #[serde(rename = "beside")]
    contended: Late,
    /// Of the 99th percentiles.
    ratio: f64,
    /// With `--cpus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    limited: Option<Usage>,
    passed: bool,
}

#[derive(Debug, Serialize)]
struct Round {
    alone: Lateness,
    #[serde(rename = "beside")]
    contended: Lateness,
    /// Hostile jobs that ended per second in the second phase.
    hostile_per_second: f64,
}

#[derive(Debug, Serialize)]
struct Late {
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

impl Late {
    fn median(rounds: &[Round], phase: impl Fn(&Round) -> &Lateness) -> Self {
        let of = |quantile: fn(&Quantiles) -> f64| {
            let mut all: Vec<f64> =
                rounds.iter().map(|round| quantile(&phase(round).logged)).collect();
            all.sort_by(f64::total_cmp);
            median(&all)
        };
        Self {
            p50_ms: of(|logged| logged.p50_ms),
            p99_ms: of(|logged| logged.p99_ms),
            max_ms: of(|logged| logged.max_ms),
        }
    }
}

#[derive(Debug, Serialize)]
struct NeighbourResults<'a> {
    at: &'a str,
    machine: &'a Machine,
    jobs_per_second: u64,
    seconds: u64,
    rows: Vec<Row>,
}

/// Measures, prints the table and writes the results.
pub(crate) fn run(args: &NeighbourArgs) -> anyhow::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    let mut rows = Vec::new();
    for workload in &WORKLOADS {
        if args.only.is_empty() || args.only.iter().any(|name| name == workload.name) {
            crate::say(&format!("{} …", workload.name));
            rows.push(runtime.block_on(measure(args, workload)).context(workload.name)?);
        }
    }
    let known = WORKLOADS.map(|workload| workload.name).join(", ");
    ensure!(!rows.is_empty(), "unknown workload; known are: {known}");
    let (at, machine) = (report::now(), Machine::of_this());
    let mut table = table(args, &machine, &rows);
    if let Some(cpus) = args.cpus {
        table.push_str(&limited::table(cpus, args.memory, &rows));
    }
    let results = NeighbourResults {
        at: &at,
        machine: &machine,
        jobs_per_second: args.rate,
        seconds: args.seconds,
        rows,
    };
    let file = report::write(&args.results, &format!("neighbour-{at}"), &results)?;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{table}\nresults: {}", file.display()).context("cannot print the table")
}

async fn measure(args: &NeighbourArgs, workload: &Workload) -> anyhow::Result<Row> {
    let fixture = Fixture::prepare().await?;
    let manifest = fixture.write_manifest(&manifest(args, workload, &fixture)?)?;
    let mut limited = args.cpus.map(|cpus| Limited::prepare(cpus, args.memory)).transpose()?;
    let mut daemon = match &limited {
        Some(limited) => limited.start(&manifest),
        None => Daemon::start(&manifest),
    };
    fixture.wait_until_served(&mut daemon).await?;
    if let Some(limited) = &mut limited {
        limited.rests(&daemon).await?;
    }
    let hostile = TopicName::new(HOSTILE)?;
    fixture.queue.pause(&hostile).await?;
    let seconds = args.rounds * (args.seconds + SPARE_S);
    push_hostile_jobs(&fixture.queue, &hostile, workload.jobs_a_second * seconds).await?;
    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        let alone = quiet(args, &fixture, &mut daemon, &format!("alone-{round}")).await?;
        fixture.queue.resume(&hostile).await?;
        let before = wait_for(&fixture, &hostile, |depths| depths.unack > 0).await?;
        if let Some(limited) = &mut limited {
            limited.begin()?;
        }
        let contended = quiet(args, &fixture, &mut daemon, &format!("contended-{round}")).await?;
        if let Some(limited) = &mut limited {
            limited.end()?;
        }
        let after = wait_for(&fixture, &hostile, |depths| depths.ready > 0)
            .await
            .context("the hostile jobs ended before the quiet ones")?;
        let ms = after.now_ms.saturating_sub(before.now_ms).max(1);
        let ended = before.ready.saturating_sub(after.ready);
        fixture.queue.pause(&hostile).await?;
        wait_for(&fixture, &hostile, |depths| depths.unack == 0).await?;
        let hostile_per_second = ended as f64 * 1_000.0 / ms as f64;
        rounds.push(Round { alone, contended, hostile_per_second });
    }
    // The cgroup is removed after its daemon has ended.
    let usage = limited.as_mut().map(|limited| limited.usage(&daemon)).transpose()?;
    daemon.kill();
    let alone = Late::median(&rounds, |round| &round.alone);
    let contended = Late::median(&rounds, |round| &round.contended);
    let ratio = contended.p99_ms / alone.p99_ms;
    let passed = match &usage {
        Some(usage) => usage.passes(contended.p99_ms),
        None => ratio <= RATIO_MAX,
    };
    Ok(Row { workload: workload.name, rounds, alone, contended, ratio, limited: usage, passed })
}

fn manifest(
    args: &NeighbourArgs,
    workload: &Workload,
    fixture: &Fixture,
) -> anyhow::Result<String> {
    let module = match workload.module {
        Module::Hostile(name) => args.hostile.join(format!("{name}.wat")),
        Module::Quiet => args.handler.clone(),
        Module::Text(text) => {
            let path = fixture.dir().join("hostile.wat");
            std::fs::write(&path, text)?;
            path
        }
    };
    let path = |path: &Path| {
        let found = path.canonicalize();
        let found = found.with_context(|| format!("cannot find {}", path.display()))?;
        anyhow::Ok(found.display().to_string())
    };
    // Guest output is not logged: reading it would load the bench itself.
    Ok(format!(
        "[redis]\nurl = {:?}\n\n[runner]\nlog = \"info,handler=off\"\n\n\
         [topics.{}]\nhandler = {:?}\n\n\
         [topics.{HOSTILE}]\nhandler = {:?}\nconcurrency = {}\nttr = {:?}\nmax_attempts = 1\nmax_dead = 100\n\
         breaker = {{ failures = 0 }}\n",
        fixture.redis.url(),
        fixture.topic,
        path(&args.handler)?,
        path(&module)?,
        workload.concurrency,
        workload.ttr,
    ))
}

/// Runs one phase of quiet jobs.
async fn quiet(
    args: &NeighbourArgs,
    fixture: &Fixture,
    daemon: &mut Daemon,
    name: &str,
) -> anyhow::Result<Lateness> {
    let depths = fixture.queue.depths(std::slice::from_ref(&fixture.topic)).await?;
    let now_ms = depths.first().context("Redis returned no time")?.now_ms;
    let jobs = args.rate * args.seconds;
    let due_ms = |number| now_ms + LEAD_MS + number * 1_000 / args.rate;
    fixture.push(name, jobs, 200, |number| Due::At(due_ms(number))).await?;
    fixture.watch(daemon).await.context("the quiet jobs")?;
    let due_of: HashMap<String, u64> =
        (0..jobs).map(|number| (format!("{name}-{number:08}"), due_ms(number))).collect();
    // The last lines may still be on their way.
    daemon.wait_for_line("the last verdict", |line| {
        line.has("job_id", &format!("{name}-{:08}", jobs - 1))
    });
    lateness::read(&daemon.lines(), &due_of)
}

/// Pushes hostile jobs while their topic is paused, so that a phase measures the jobs and not their
/// producer.
async fn push_hostile_jobs(queue: &Queue, topic: &TopicName, jobs: u64) -> anyhow::Result<()> {
    for start in (0..jobs).step_by(PUSH_BATCH) {
        let mut some = Vec::new();
        for number in start..jobs.min(start + PUSH_BATCH as u64) {
            some.push(NewJob {
                id: JobId::new(format!("hostile-{number:08}"))?,
                due: Due::Now,
                payload: Bytes::from_static(b"{}"),
                options: Options::default(),
            });
        }
        queue.push(topic, &some, IfExists::Reject).await?;
    }
    Ok(())
}

/// Waits at most 30 s until the topic's depths satisfy `condition`.
async fn wait_for(
    fixture: &Fixture,
    topic: &TopicName,
    condition: impl Fn(&Depths) -> bool,
) -> anyhow::Result<Depths> {
    for _ in 0..POLLS_MAX {
        let depths = fixture.queue.depths(std::slice::from_ref(topic)).await?;
        if let Some(depths) = depths.into_iter().next().filter(|depths| condition(depths)) {
            return Ok(depths);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    anyhow::bail!("the hostile jobs neither started nor ended within 30 s")
}

fn table(args: &NeighbourArgs, machine: &Machine, rows: &[Row]) -> String {
    let Machine { processor, cores, kernel, redis, commit } = machine;
    let mut text = format!(
        "\n{processor}, {cores} cores, Linux {kernel}, Redis {redis}, commit {commit}\n\
         {} quiet jobs a second for {} s, median of {} rounds; ms from due time to verdict\n\n\
         {:<20} {:>17} {:>17} {:>7}\n{:<20} {:>8} {:>8} {:>8} {:>8} {:>7}\n",
        args.rate,
        args.seconds,
        args.rounds,
        "",
        "alone",
        "next to it",
        "",
        "hostile topic",
        "p50",
        "p99",
        "p50",
        "p99",
        "ratio",
    );
    let target = match args.cpus {
        Some(_) => String::new(),
        None => format!("≤ {RATIO_MAX}"),
    };
    for Row { workload, alone, contended, ratio, passed, .. } in rows {
        let word = if *passed { "pass" } else { "MISS" };
        text.push_str(&format!(
            "{workload:<20} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {ratio:>6.2}× {target} {word}\n",
            alone.p50_ms, alone.p99_ms, contended.p50_ms, contended.p99_ms
        ));
    }
    text
}
