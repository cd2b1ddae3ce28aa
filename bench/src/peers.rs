//! `./dev bench --peers`: compares Duebox with six other queues. Each runs alone on a fresh Redis
//! with the same settings and does the same tasks with its own client.
//!
//! A peer is a program in `bench/peers/` that does one task and reports its result (see the README
//! there). CPU time, memory and commands are measured here, from outside, in the same way for all.
//! The table lists lost and early jobs, and peers that could not be built with the reason.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::contender::Contender;
use crate::fixture::Fixture;
use crate::machine::{cpu_s, peak_memory_bytes};
use crate::peer_program::{PeerProcess, PostRequest, TaskReply, TaskRequest};
use crate::receiver::Receiver;
use crate::redis_load::RedisLoad;
use crate::settings::Settings;
use crate::work::{self, CONCURRENCIES};
use crate::{duebox, say};

/// Where `bench/peers/build.sh` puts the programs.
const FOLDER: &str = ".tools/peers";

/// One peer.
struct Peer {
    name: &'static str,
    /// What its `tuned` settings are.
    tuned: &'static str,
    /// The most waiting jobs it can drain, if there is a limit.
    drain_max: Option<u64>,
    /// The HTTP client with which its program posts jobs, if it does.
    posts_with: Option<&'static str>,
}

const PEERS: [Peer; 6] = [
    Peer {
        name: "asynq",
        tuned: "32 jobs at once, queue and delayed jobs polled every 100 ms",
        drain_max: None,
        posts_with: Some("net/http"),
    },
    Peer {
        name: "bullmq",
        tuned: "100 at once, completed jobs removed",
        drain_max: None,
        posts_with: Some("undici"),
    },
    Peer {
        name: "apalis",
        tuned: "batches of 100, 100 at once, polled every 10 ms, heartbeat 1 s, locks, results \
                and events off",
        // One script takes all due jobs, and Lua cannot unpack more.
        drain_max: Some(7_000),
        posts_with: None,
    },
    Peer {
        name: "delayqueue",
        tuned: "20 consumers, every 10 ms up to 4,000 jobs",
        drain_max: None,
        posts_with: None,
    },
    Peer {
        name: "arq",
        tuned: "100 jobs at once, polled every 10 ms, results not kept",
        drain_max: None,
        posts_with: None,
    },
    Peer {
        name: "dramatiq",
        tuned: "16 threads, 256 messages prefetched, no retries and time limits",
        drain_max: None,
        posts_with: None,
    },
];

/// What a task asked of Redis and the CPU.
struct TaskRun {
    reply: TaskReply,
    load: RedisLoad,
    worker_s: f64,
    memory_bytes: u64,
}

/// Measures Duebox, then every peer at its default and tuned settings.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Vec<Contender>> {
    say("duebox");
    let mut contenders = duebox::measure(settings).await.context("duebox")?;
    for peer in &PEERS {
        let program = match program(peer.name) {
            Ok(program) => program,
            Err(why) => {
                say(&format!("{}: {why}", peer.name));
                let (name, remarks) = (peer.name.to_owned(), vec![format!("not measured: {why}")]);
                contenders.push(Contender { name, remarks, ..Contender::default() });
                continue;
            }
        };
        for kind in ["default", "tuned"] {
            say(&format!("{}, {kind}", peer.name));
            let mut contender = Contender {
                name: peer.name.to_owned(),
                settings: kind.to_owned(),
                ..Contender::default()
            };
            // What a peer cannot do becomes a remark; the other peers are still measured.
            if let Err(error) = fill(&mut contender, settings, peer, &program).await {
                contender.remarks.push(format!("not fully measured: {error:#}"));
            }
            contenders.push(contender);
        }
    }
    Ok(contenders)
}

/// Finds the peer's program, or the reason why it is missing.
fn program(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(FOLDER).join(name);
    if path.is_file() {
        return Ok(path);
    }
    let why = std::fs::read_to_string(Path::new(FOLDER).join(format!("{name}.missing")));
    Err(match why {
        Ok(why) => format!("it could not be built here: {}", why.trim()),
        Err(_) => format!("it has not been built; run: bench/peers/build.sh {name}"),
    })
}

/// Measures one peer at one kind of settings.
async fn fill(
    contender: &mut Contender,
    settings: &Settings,
    peer: &Peer,
    program: &Path,
) -> anyhow::Result<()> {
    let kind = contender.settings.clone();
    let kind = kind.as_str();
    if kind == "tuned" {
        contender.remarks.push(format!("tuned: {}", peer.tuned));
    }
    let request =
        |task, jobs, spread_ms| TaskRequest { task, settings: kind, jobs, spread_ms, posts: None };
    let jobs = settings.jobs.min(peer.drain_max.unwrap_or(u64::MAX));
    if jobs < settings.jobs {
        contender.remarks.push(format!("drained only {jobs} jobs: with more it stops for good"));
    }
    drain(contender, run(program, &request("drain", jobs, 0)).await?, jobs);
    contender.push_one = push(program, &request("push-one", settings.pushes, 0)).await?;
    contender.push_flight = push(program, &request("push-flight", settings.pushes, 0)).await?;
    contender.push_batch = push(program, &request("push-batch", settings.jobs, 0)).await?;
    let due = request("due", settings.due_jobs, settings.spread_ms);
    lateness(contender, run(program, &due).await?.reply, settings.due_jobs);
    let burst_jobs = settings.burst_jobs;
    burst(contender, run(program, &request("due", burst_jobs, 0)).await?.reply, burst_jobs);
    contender.idle_commands = Some(idle(settings, program, &request("idle", 1, 0)).await?);
    if kind == "tuned"
        && let Some(client) = peer.posts_with
    {
        contender.remarks.push(format!("posts with {client}, 16, 64 and 256 jobs at once"));
        posts(contender, settings, program).await?;
    }
    Ok(())
}

/// Jobs that the peer's handler posts to a server, which measures them.
async fn posts(
    contender: &mut Contender,
    settings: &Settings,
    program: &Path,
) -> anyhow::Result<()> {
    for (at, concurrency) in CONCURRENCIES.into_iter().enumerate() {
        let receiver = Receiver::start()?;
        let url = receiver.url();
        let posts = Some(PostRequest { url: &url, concurrency });
        let request =
            |task, jobs, spread_ms| TaskRequest { task, settings: "tuned", jobs, spread_ms, posts };
        let jobs = settings.work_jobs;
        let reply = run(program, &request("drain", jobs, 0)).await?.reply;
        if remark_losses(contender, &format!("posts, {concurrency} at once"), &reply, jobs) {
            contender.posts_per_s[at] = Some(work::rate(&receiver.take(), jobs)?);
        }
        let jobs = settings.due_jobs;
        let reply = run(program, &request("due", jobs, settings.spread_ms)).await?.reply;
        if remark_losses(contender, &format!("due posts, {concurrency} at once"), &reply, jobs) {
            contender.posts_p99_ms[at] = Some(work::late_p99_ms(&receiver.take(), jobs)?);
        }
    }
    Ok(())
}

/// Runs a task until its reply.
async fn run(program: &Path, request: &TaskRequest<'_>) -> anyhow::Result<TaskRun> {
    let fixture = Fixture::prepare().await?;
    let mut running = PeerProcess::start(program, request, fixture.redis.first().port())?;
    let task = request.task;
    let took = async {
        let ready = running.ready().await?;
        if ready.unsupported.is_some() {
            let load = RedisLoad::default();
            return Ok(TaskRun { reply: ready, load, worker_s: 0.0, memory_bytes: 0 });
        }
        let (before, worker_before_s) = (fixture.load().await?, cpu_s(running.pid()?)?);
        let reply = running.go().await?;
        if reply.unsupported.is_some() {
            return Ok(TaskRun { reply, load: before, worker_s: 0.0, memory_bytes: 0 });
        }
        let load = fixture.load_since(before, 0).await?;
        let worker_s = cpu_s(running.pid()?)? - worker_before_s;
        anyhow::Ok(TaskRun {
            reply,
            load,
            worker_s,
            memory_bytes: peak_memory_bytes(running.pid()?)?,
        })
    };
    took.await.with_context(|| format!("task {task}"))
}

async fn push(program: &Path, request: &TaskRequest<'_>) -> anyhow::Result<Option<f64>> {
    let reply = run(program, request).await?.reply;
    Ok(reply.seconds.map(|seconds| request.jobs as f64 / seconds))
}

/// Redis commands per second of an idle worker.
async fn idle(
    settings: &Settings,
    program: &Path,
    request: &TaskRequest<'_>,
) -> anyhow::Result<f64> {
    let fixture = Fixture::prepare().await?;
    let mut running = PeerProcess::start(program, request, fixture.redis.first().port())?;
    running.ready().await.context("task idle")?;
    duebox::idle_commands(&fixture, settings).await
}

fn drain(contender: &mut Contender, took: TaskRun, jobs: u64) {
    let TaskRun { reply, load, worker_s, memory_bytes } = took;
    let each_us = |seconds: f64| seconds * 1e6 / reply.handled.max(1) as f64;
    if reply.handled > 0 {
        contender.drain_per_s = reply.seconds.map(|seconds| reply.handled as f64 / seconds);
        contender.commands = Some(load.commands as f64 / reply.handled as f64);
        contender.worker_us = Some(each_us(worker_s));
        contender.redis_us = Some(each_us(load.cpu_s));
    }
    contender.memory_mb = Some(memory_bytes as f64 / 1e6);
    remark_losses(contender, "drain", &reply, jobs);
}

fn lateness(contender: &mut Contender, reply: TaskReply, jobs: u64) {
    if !remark_losses(contender, "lateness", &reply, jobs) {
        return;
    }
    let late_ms = reply.sorted_late_ms();
    contender.late_p50_ms = quantile(&late_ms, 0.5);
    contender.late_p99_ms = quantile(&late_ms, 0.99);
    contender.early = Some(late_ms.iter().filter(|ms| **ms < 0.0).count() as f64);
}

fn burst(contender: &mut Contender, reply: TaskReply, jobs: u64) {
    if !remark_losses(contender, "burst", &reply, jobs) {
        return;
    }
    let late_ms = reply.sorted_late_ms();
    contender.burst_ms = late_ms.last().copied();
    let early = late_ms.iter().filter(|ms| **ms < 0.0).count();
    if early > 0 {
        contender.remarks.push(format!("burst: {early} of {jobs} jobs started early"));
    }
}

/// Adds remarks on lost and repeated jobs; returns false if the peer cannot do the task.
fn remark_losses(contender: &mut Contender, task: &str, reply: &TaskReply, jobs: u64) -> bool {
    let TaskReply { handled, twice, ref unsupported, .. } = *reply;
    if let Some(why) = unsupported {
        contender.remarks.push(format!("{task}: {why}"));
        return false;
    }
    if handled < jobs {
        contender
            .remarks
            .push(format!("{task}: {handled} of {jobs} jobs were handled; then nothing for 35 s"));
    }
    if twice > 0 {
        contender.remarks.push(format!("{task}: {twice} runs repeated a job"));
    }
    true
}

/// The smallest value that at least `part` of the sorted values do not exceed.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let at = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), Some(100.0));
        assert_eq!(quantile(&values, 0.99), Some(198.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn lost_and_repeated_jobs_are_remarked() {
        let mut contender = Contender::default();
        let reply = TaskReply { handled: 90, twice: 2, ..TaskReply::default() };
        assert!(remark_losses(&mut contender, "drain", &reply, 100));
        assert_eq!(contender.remarks.len(), 2);
        assert!(contender.remarks[0].contains("90 of 100"), "{:?}", contender.remarks);
        let unsupported = Some("it has no batches".to_owned());
        let reply = TaskReply { unsupported, ..TaskReply::default() };
        assert!(!remark_losses(&mut contender, "push", &reply, 100));
    }
}
