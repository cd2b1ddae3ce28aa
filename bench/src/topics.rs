//! Many topics with few jobs each compared with one topic and the same jobs: is a mostly idle topic
//! cheap and on time? Redis is not sampled meanwhile, so its CPU time is what the daemon causes.

use std::collections::HashMap;
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use duebox_harness::{Daemon, LogLine};
use duebox_job::TopicName;
use duebox_queue::Due;

use crate::fixture::{Fixture, TOPIC, new_jobs, push_to};
use crate::http_push;
use crate::lateness::{self, Lateness};
use crate::machine::cpu_s;
use crate::results::Results;
use crate::rows::Row;
use crate::settings::Settings;

/// From the push to the first due time, in ms: longer than pushing takes.
const LEAD_MS: u64 = 3_000;
/// Added for each topic that is pushed to, in ms: the topics are pushed to one after the other.
const LEAD_OF_TOPIC_MS: u64 = 2;
/// Pause between two checks of the log for the end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// From the last due time to the last verdict, at most.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long an idle daemon is left alone before it is measured, so that its start is over.
const SETTLE: Duration = Duration::from_secs(3);

/// Result of a run over several topics.
struct TopicsRun {
    lateness: Lateness,
    /// CPU time of Redis by elapsed time, percent of a core.
    redis_percent: f64,
}

/// Measures topics with few jobs each, once.
pub(crate) async fn measure(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let one = run(settings, 1).await.context("one topic")?;
    let many = run(settings, settings.topics).await.context("many topics")?;
    results.add(Row::TopicsLate, many.lateness.reported.p99_ms);
    results.add(Row::TopicsCpu, many.redis_percent / one.redis_percent);
    results.add(Row::TopicsCpuShare, many.redis_percent);
    let most = run(settings, settings.many_topics).await.context("ten times as many topics")?;
    results.add(Row::TopicsManyLate, most.lateness.reported.p99_ms);
    Ok(())
}

/// What an idle daemon asks of Redis and of the processor.
struct IdleRun {
    trips_per_s: f64,
    reads_per_s: f64,
    commands_per_s: f64,
    daemon_percent: f64,
    redis_percent: f64,
}

/// Measures topics without jobs, once.
pub(crate) async fn measure_idle(settings: &Settings, results: &mut Results) -> anyhow::Result<()> {
    let many = idle(settings, settings.idle_topics).await?;
    results.add(Row::IdleTrips, many.trips_per_s);
    results.add(Row::IdleReads, many.reads_per_s);
    results.add(Row::IdleCommands, many.commands_per_s);
    results.add(Row::IdleDaemon, many.daemon_percent);
    results.add(Row::IdleRedis, many.redis_percent);
    let one = idle(settings, 1).await.context("one topic")?;
    results.add(Row::IdleOneCommands, one.commands_per_s);
    Ok(())
}

async fn idle(settings: &Settings, topics: u64) -> anyhow::Result<IdleRun> {
    let fixture = Fixture::prepare().await?;
    let mut daemon = start(&fixture, settings, topics)?;
    let at = http_push::served_at(&daemon)?;
    tokio::time::sleep(SETTLE).await;
    let trips = round_trips(at)?;
    let (before, daemon_before_s) = (fixture.load().await?, cpu_s(daemon.pid())?);
    let started = Instant::now();
    tokio::time::sleep(Duration::from_secs(settings.idle_s)).await;
    let daemon_s = cpu_s(daemon.pid())? - daemon_before_s;
    let load = fixture.load_since(before, 0).await?;
    let took_s = started.elapsed().as_secs_f64();
    let trips = round_trips(at)? - trips;
    ensure!(daemon.terminate().success(), "the daemon did not stop cleanly");
    Ok(IdleRun {
        trips_per_s: trips / took_s,
        reads_per_s: load.reads as f64 / took_s,
        commands_per_s: load.commands as f64 / took_s,
        daemon_percent: 100.0 * daemon_s / took_s,
        redis_percent: 100.0 * load.cpu_s / took_s,
    })
}

/// Round trips to Redis since the daemon's start, as it counts them. Redis counts only reads from a
/// socket, and a pipeline of 100 calls takes two or three.
fn round_trips(at: SocketAddr) -> anyhow::Result<f64> {
    let mut connection = BufReader::new(TcpStream::connect(at)?);
    connection.get_mut().write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let (status, body) = http_push::read_response(&mut connection)?;
    ensure!(status == 200, "/metrics was answered with {status}");
    let text = String::from_utf8_lossy(&body);
    let count = |line: &str| {
        let of_one = line.strip_prefix("duebox_redis_round_trip_seconds_count{")?;
        of_one.split_once("} ")?.1.parse::<f64>().ok()
    };
    let counts: Vec<f64> = text.lines().filter_map(count).collect();
    ensure!(!counts.is_empty(), "the daemon does not count its round trips");
    Ok(counts.iter().sum())
}

/// Starts the daemon with `topics` topics and waits until it serves them.
pub(crate) fn start(fixture: &Fixture, settings: &Settings, topics: u64) -> anyhow::Result<Daemon> {
    let handler = settings.handler("noop-rust")?.display().to_string();
    let mut text = fixture.manifest_head(settings.in_flight, "info");
    for number in 0..topics {
        text.push_str(&format!("[topics.\"{}\"]\nhandler = {handler:?}\n", name(number)));
    }
    let daemon = Daemon::start(&fixture.write_manifest(&text)?);
    daemon.wait_for_line("it is ready", |line| line.message() == "ready");
    Ok(daemon)
}

pub(crate) fn name(number: u64) -> String {
    format!("{TOPIC}.{number}")
}

/// Runs jobs that fall due one by one, distributed over the topics in turn.
async fn run(settings: &Settings, topics: u64) -> anyhow::Result<TopicsRun> {
    let Settings { due_jobs, spread_ms, payload, .. } = *settings;
    let fixture = Fixture::prepare().await?;
    let mut daemon = start(&fixture, settings, topics)?;
    let pushes = topics.min(due_jobs);
    let lead_ms = LEAD_MS + LEAD_OF_TOPIC_MS * pushes;
    let first_ms = fixture.now_ms().await? + lead_ms;
    let due_ms = |number: u64| first_ms + number * spread_ms / due_jobs;
    let jobs = new_jobs("due", due_jobs, payload, |number| Due::At(due_ms(number)))?;
    for number in 0..pushes {
        let topic = TopicName::new(&name(number))?;
        let mine = jobs.iter().skip(usize::try_from(number)?).step_by(usize::try_from(topics)?);
        push_to(&fixture.queue, &topic, &mine.cloned().collect::<Vec<_>>()).await?;
    }
    ensure!(fixture.now_ms().await? < first_ms, "pushing to {topics} topics took too long");
    let (before, started) = (fixture.load().await?, Instant::now());
    wait_for_verdicts(&mut daemon, due_jobs, Duration::from_millis(lead_ms + spread_ms)).await?;
    let load = fixture.load_since(before, 0).await?;
    let redis_percent = 100.0 * load.cpu_s / started.elapsed().as_secs_f64();
    ensure!(daemon.terminate().success(), "the daemon did not stop cleanly");
    let live: Vec<String> = fixture.redis.first().pipe("KEYS duebox:{*}:jobs\n");
    ensure!(live.iter().all(String::is_empty), "jobs are left: {live:?}");
    let due_of: HashMap<String, u64> =
        (0..due_jobs).map(|number| (format!("due-{number:08}"), due_ms(number))).collect();
    let lateness = lateness::read(&daemon.lines(), &due_of)?;
    Ok(TopicsRun { lateness, redis_percent })
}

async fn wait_for_verdicts(
    daemon: &mut Daemon,
    jobs: u64,
    expected: Duration,
) -> anyhow::Result<()> {
    let started = Instant::now();
    let is_verdict = |line: &LogLine| !line.str("verdict").is_empty();
    let (mut seen, mut lines) = (0, 0);
    loop {
        let (found, all) = daemon.count_behind(lines, is_verdict);
        (seen, lines) = (seen + found as u64, all);
        if seen >= jobs {
            return Ok(());
        }
        ensure!(daemon.exited().is_none(), "the daemon ended after {seen} of {jobs} verdicts");
        ensure!(started.elapsed() < expected + PATIENCE, "only {seen} of {jobs} verdicts came");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
