//! What `./dev bench neighbour` measures: how late a quiet topic's jobs come to their verdict when they have
//! the daemon for themselves, and how late beside a topic of handlers that mean harm. Each kind of
//! harm has a daemon and a Redis of its own, and rounds of two stretches of the same quiet jobs, one
//! alone and one beside, so that a noisy minute of the machine weighs on both; what is judged is the
//! median of the one against the median of the other. Every quiet job must be acked once, in time or late.

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

use crate::figures::median;
use crate::ground::Ground;
use crate::lateness::{self, Lateness, Quantiles};
use crate::machine::Machine;
use crate::report;

/// How many times as late a job may be beside a hostile topic, at the 99th percentile.
const RATIO_MAX: f64 = 2.0;
/// How long after the push the first quiet job falls due, ms.
const LEAD_MS: u64 = 1_000;
/// How often it is looked what hostile jobs do.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often at most.
const LOOKS_MAX: usize = 600;
/// Hostile jobs of one push.
const PUSHED_AT_ONCE: usize = 1_000;
/// Seconds of each round for which there are hostile jobs beyond those of the stretch.
const SPARE_S: u64 = 2;
const HOSTILE: &str = "hostile";

/// Measures how late a topic's jobs are beside a hostile topic, against how late they are alone
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Quiet jobs a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=2_000))]
    rate: u64,
    /// Rounds of a stretch alone and a stretch beside
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Seconds of each stretch
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// The kinds of harm, by their names in the table; all without it
    #[arg(long)]
    only: Vec<String>,
    /// The quiet topic's handler module
    #[arg(long, default_value = "handlers/build/noop-rust.wasm")]
    handler: PathBuf,
    /// The folder of hostile modules
    #[arg(long, default_value = "tests/hostile")]
    hostile: PathBuf,
    /// The folder for the results
    #[arg(long, default_value = "bench/results")]
    results: PathBuf,
}

/// One kind of harm.
struct Harm {
    name: &'static str,
    /// A module of `tests/hostile`; none for the quiet topic's own, in masses.
    module: Option<&'static str>,
    concurrency: u32,
    ttr: &'static str,
    /// More than can run in a second.
    jobs_a_second: u64,
}

const HARMS: [Harm; 8] = [
    harm("endless loop", "endless_loop", 64),
    harm("memory hog", "memory_hog", 64),
    harm("log flood", "log_flood", 64),
    harm("endless host calls", "endless_host_calls", 64),
    Harm { ttr: "5s", ..harm("sleepers", "sleeps_for_an_hour", 200) },
    harm("huge memory.fill", "endless_memory_fill", 64),
    harm("stack overflow", "stack_overflow", 64),
    Harm { module: None, jobs_a_second: 60_000, ..harm("masses of jobs", "", 64) },
];

const fn harm(name: &'static str, module: &'static str, concurrency: u32) -> Harm {
    Harm { name, module: Some(module), concurrency, ttr: "1s", jobs_a_second: 10_000 }
}

/// A quiet topic alone, and beside one kind of harm.
#[derive(Debug, Serialize)]
struct Row {
    harm: &'static str,
    rounds: Vec<Round>,
    /// From due time to verdict, the median of the rounds.
    alone: Late,
    beside: Late,
    /// Of the 99th percentiles.
    ratio: f64,
    passed: bool,
}

#[derive(Debug, Serialize)]
struct Round {
    alone: Lateness,
    beside: Lateness,
    /// Hostile jobs that ended a second meanwhile.
    hostile_per_second: f64,
}

#[derive(Debug, Serialize)]
struct Late {
    p50_ms: f64,
    p99_ms: f64,
}

impl Late {
    fn median(rounds: &[Round], stretch: impl Fn(&Round) -> &Lateness) -> Self {
        let of = |quantile: fn(&Quantiles) -> f64| {
            let mut all: Vec<f64> =
                rounds.iter().map(|round| quantile(&stretch(round).logged)).collect();
            all.sort_by(f64::total_cmp);
            median(&all)
        };
        Self { p50_ms: of(|logged| logged.p50_ms), p99_ms: of(|logged| logged.p99_ms) }
    }
}

#[derive(Debug, Serialize)]
struct Results<'a> {
    at: &'a str,
    machine: &'a Machine,
    jobs_per_second: u64,
    seconds: u64,
    rows: Vec<Row>,
}

/// Measures, prints the table and writes the figures.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build()?;
    let mut rows = Vec::new();
    for harm in &HARMS {
        if args.only.is_empty() || args.only.iter().any(|name| name == harm.name) {
            crate::say(&format!("{} …", harm.name));
            rows.push(runtime.block_on(measure(args, harm)).context(harm.name)?);
        }
    }
    let known = HARMS.map(|harm| harm.name).join(", ");
    ensure!(!rows.is_empty(), "no such kind of harm; there are: {known}");
    let (at, machine) = (report::now(), Machine::of_this());
    let table = table(args, &machine, &rows);
    let results = Results {
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

async fn measure(args: &Args, harm: &Harm) -> anyhow::Result<Row> {
    let ground = Ground::prepare().await?;
    let mut daemon = Daemon::start(&ground.write_manifest(&manifest(args, harm, &ground)?)?);
    ground.wait_until_served(&mut daemon).await?;
    let hostile = TopicName::new(HOSTILE)?;
    ground.queue.pause(&hostile).await?;
    let seconds = args.rounds * (args.seconds + SPARE_S);
    stock(&ground.queue, &hostile, harm.jobs_a_second * seconds).await?;
    let mut rounds = Vec::new();
    for round in 0..args.rounds {
        let alone = quiet(args, &ground, &mut daemon, &format!("alone-{round}")).await?;
        ground.queue.resume(&hostile).await?;
        let before = wait_for(&ground, &hostile, |depths| depths.unack > 0).await?;
        let beside = quiet(args, &ground, &mut daemon, &format!("beside-{round}")).await?;
        let after = wait_for(&ground, &hostile, |depths| depths.ready > 0)
            .await
            .context("the hostile jobs were over before the quiet ones")?;
        let ms = after.now_ms.saturating_sub(before.now_ms).max(1);
        let ended = before.ready.saturating_sub(after.ready);
        ground.queue.pause(&hostile).await?;
        wait_for(&ground, &hostile, |depths| depths.unack == 0).await?;
        let hostile_per_second = ended as f64 * 1_000.0 / ms as f64;
        rounds.push(Round { alone, beside, hostile_per_second });
    }
    daemon.kill();
    let alone = Late::median(&rounds, |round| &round.alone);
    let beside = Late::median(&rounds, |round| &round.beside);
    let ratio = beside.p99_ms / alone.p99_ms;
    Ok(Row { harm: harm.name, rounds, alone, beside, ratio, passed: ratio <= RATIO_MAX })
}

fn manifest(args: &Args, harm: &Harm, ground: &Ground) -> anyhow::Result<String> {
    let module = match harm.module {
        Some(module) => args.hostile.join(format!("{module}.wat")),
        None => args.handler.clone(),
    };
    let path = |path: &Path| {
        let found = path.canonicalize();
        let found = found.with_context(|| format!("there is no {}", path.display()))?;
        anyhow::Ok(found.display().to_string())
    };
    // What handlers say is left out: it would be the bench's own reading that is measured.
    Ok(format!(
        "[redis]\nurl = {:?}\n\n[runner]\nlog = \"info,handler=off\"\n\n\
         [topics.{}]\nhandler = {:?}\n\n\
         [topics.{HOSTILE}]\nhandler = {:?}\nconcurrency = {}\nttr = {:?}\nmax_attempts = 1\nmax_dead = 100\n\
         breaker = {{ failures = 0 }}\n",
        ground.redis.url(),
        ground.topic,
        path(&args.handler)?,
        path(&module)?,
        harm.concurrency,
        harm.ttr,
    ))
}

/// Runs a stretch of quiet jobs.
async fn quiet(
    args: &Args,
    ground: &Ground,
    daemon: &mut Daemon,
    name: &str,
) -> anyhow::Result<Lateness> {
    let depths = ground.queue.depths(std::slice::from_ref(&ground.topic)).await?;
    let now_ms = depths.first().context("Redis did not say its time")?.now_ms;
    let jobs = args.rate * args.seconds;
    let due_ms = |number| now_ms + LEAD_MS + number * 1_000 / args.rate;
    ground.push(name, jobs, 200, |number| Due::At(due_ms(number))).await?;
    ground.watch(daemon).await.context("the quiet jobs")?;
    let due_of: HashMap<String, u64> =
        (0..jobs).map(|number| (format!("{name}-{number:08}"), due_ms(number))).collect();
    // The last lines may still be on their way.
    daemon.wait_for_line("the last verdict", |line| {
        line.has("job_id", &format!("{name}-{:08}", jobs - 1))
    });
    lateness::read(&daemon.lines(), &due_of)
}

/// Pushes so many hostile jobs while their topic is paused: a stretch is then measured beside those who run
/// them, not beside who pushes them.
async fn stock(queue: &Queue, topic: &TopicName, jobs: u64) -> anyhow::Result<()> {
    for start in (0..jobs).step_by(PUSHED_AT_ONCE) {
        let mut some = Vec::new();
        for number in start..jobs.min(start + PUSHED_AT_ONCE as u64) {
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

/// Waits until it is so with the topic, at most 30 s.
async fn wait_for(
    ground: &Ground,
    topic: &TopicName,
    is_so: impl Fn(&Depths) -> bool,
) -> anyhow::Result<Depths> {
    for _ in 0..LOOKS_MAX {
        let depths = ground.queue.depths(std::slice::from_ref(topic)).await?;
        if let Some(depths) = depths.into_iter().next().filter(|depths| is_so(depths)) {
            return Ok(depths);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    anyhow::bail!("the hostile jobs did neither begin nor end in time")
}

fn table(args: &Args, machine: &Machine, rows: &[Row]) -> String {
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
        "beside it",
        "",
        "a topic of",
        "p50",
        "p99",
        "p50",
        "p99",
        "ratio",
    );
    for Row { harm, alone, beside, ratio, passed, .. } in rows {
        let word = if *passed { "pass" } else { "MISS" };
        text.push_str(&format!(
            "{harm:<20} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {ratio:>6.2}× ≤ {RATIO_MAX} {word}\n",
            alone.p50_ms, alone.p99_ms, beside.p50_ms, beside.p99_ms
        ));
    }
    text
}
