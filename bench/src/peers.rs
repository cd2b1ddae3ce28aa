//! `./dev bench --peers`: Duebox and its peers, one after the other, each on a fresh Redis with the
//! same settings, doing the same things with their own clients.
//!
//! A peer is a program in `bench/peers/` that does one task and says what it found (README.md there).
//! Processor time, memory and commands are taken here, from outside, for all of them alike. What a peer
//! loses or does early is counted and told; a peer that cannot be built is told with the reason.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::contender::Contender;
use crate::ground::Ground;
use crate::load::Load;
use crate::machine::{cpu_s, peak_memory_bytes};
use crate::peer_program::{Answer, Asked, Running};
use crate::settings::Settings;
use crate::{own_side, say};

/// Where `bench/peers/build.sh` puts the programs.
const FOLDER: &str = ".tools/peers";

/// One of the peers.
struct Peer {
    name: &'static str,
    /// What `tuned` means.
    tuned: &'static str,
    /// It cannot drain more than so many jobs that wait.
    drain_max: Option<u64>,
}

const PEERS: [Peer; 4] = [
    Peer {
        name: "asynq",
        tuned: "32 at once, queue and delayed jobs looked at every 100 ms",
        drain_max: None,
    },
    Peer { name: "bullmq", tuned: "100 at once, completed jobs removed", drain_max: None },
    Peer {
        name: "apalis",
        tuned: "batches of 100, 100 at once, polled every 10 ms, heartbeat 1 s, locks, results \
                and events off",
        // One script takes all that is due; Lua cannot unpack so many.
        drain_max: Some(7_000),
    },
    Peer {
        name: "delayqueue",
        tuned: "20 consumers, every 10 ms up to 4,000 jobs",
        drain_max: None,
    },
];

/// What was asked of Redis and the processor while a task ran.
struct Took {
    answer: Answer,
    load: Load,
    worker_s: f64,
    memory_bytes: u64,
}

/// Measures Duebox and then every peer, at its defaults and tuned.
pub(crate) async fn measure(settings: &Settings) -> anyhow::Result<Vec<Contender>> {
    say("duebox");
    let mut contenders = vec![own_side::measure(settings).await.context("duebox")?];
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
            let mut found = Contender {
                name: peer.name.to_owned(),
                settings: kind.to_owned(),
                ..Contender::default()
            };
            // What a peer cannot do is told, and the others are measured all the same.
            if let Err(error) = fill(&mut found, settings, peer, &program).await {
                found.remarks.push(format!("not measured to the end: {error:#}"));
            }
            contenders.push(found);
        }
    }
    Ok(contenders)
}

/// The peer's program, or why there is none.
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

/// Fills in everything of one peer with one kind of settings.
async fn fill(
    found: &mut Contender,
    settings: &Settings,
    peer: &Peer,
    program: &Path,
) -> anyhow::Result<()> {
    let kind = found.settings.clone();
    let kind = kind.as_str();
    if kind == "tuned" {
        found.remarks.push(format!("tuned: {}", peer.tuned));
    }
    let ask = |task, jobs, spread_ms| Asked { task, settings: kind, jobs, spread_ms };
    let jobs = settings.jobs.min(peer.drain_max.unwrap_or(u64::MAX));
    if jobs < settings.jobs {
        found.remarks.push(format!("drained {jobs} jobs only: it stops for good at some more"));
    }
    drain(found, run(program, &ask("drain", jobs, 0)).await?, jobs);
    found.push_one = push(program, &ask("push-one", settings.pushes, 0)).await?;
    found.push_flight = push(program, &ask("push-flight", settings.pushes, 0)).await?;
    found.push_batch = push(program, &ask("push-batch", settings.jobs, 0)).await?;
    let due = ask("due", settings.due_jobs, settings.spread_ms);
    lateness(found, run(program, &due).await?.answer, settings.due_jobs);
    let burst_jobs = settings.burst_jobs;
    burst(found, run(program, &ask("due", burst_jobs, 0)).await?.answer, burst_jobs);
    found.idle_commands = Some(idle(settings, program, &ask("idle", 1, 0)).await?);
    Ok(())
}

/// Runs a task to its answer.
async fn run(program: &Path, asked: &Asked<'_>) -> anyhow::Result<Took> {
    let ground = Ground::prepare().await?;
    let mut running = Running::start(program, asked, ground.redis.port())?;
    let task = asked.task;
    let took = async {
        let ready = running.ready().await?;
        if ready.unsupported.is_some() {
            let load = Load::default();
            return Ok(Took { answer: ready, load, worker_s: 0.0, memory_bytes: 0 });
        }
        let (before, worker_before_s) = (ground.load().await?, cpu_s(running.pid()?)?);
        let answer = running.go().await?;
        if answer.unsupported.is_some() {
            return Ok(Took { answer, load: before, worker_s: 0.0, memory_bytes: 0 });
        }
        let load = ground.load_since(before, 0).await?;
        let worker_s = cpu_s(running.pid()?)? - worker_before_s;
        anyhow::Ok(Took {
            answer,
            load,
            worker_s,
            memory_bytes: peak_memory_bytes(running.pid()?)?,
        })
    };
    took.await.with_context(|| format!("the task {task}"))
}

async fn push(program: &Path, asked: &Asked<'_>) -> anyhow::Result<Option<f64>> {
    let answer = run(program, asked).await?.answer;
    Ok(answer.seconds.map(|seconds| asked.jobs as f64 / seconds))
}

/// Redis commands per second of a worker with nothing to do.
async fn idle(settings: &Settings, program: &Path, asked: &Asked<'_>) -> anyhow::Result<f64> {
    let ground = Ground::prepare().await?;
    let mut running = Running::start(program, asked, ground.redis.port())?;
    running.ready().await.context("the task idle")?;
    own_side::idle_commands(&ground, settings).await
}

fn drain(found: &mut Contender, took: Took, jobs: u64) {
    let Took { answer, load, worker_s, memory_bytes } = took;
    let each_us = |seconds: f64| seconds * 1e6 / answer.handled.max(1) as f64;
    if answer.handled > 0 {
        found.drain_per_s = answer.seconds.map(|seconds| answer.handled as f64 / seconds);
        found.commands = Some(load.commands as f64 / answer.handled as f64);
        found.worker_us = Some(each_us(worker_s));
        found.redis_us = Some(each_us(load.cpu_s));
    }
    found.memory_mb = Some(memory_bytes as f64 / 1e6);
    account(found, "drain", &answer, jobs);
}

fn lateness(found: &mut Contender, answer: Answer, jobs: u64) {
    if !account(found, "lateness", &answer, jobs) {
        return;
    }
    let late_ms = answer.sorted_late_ms();
    found.late_p50_ms = quantile(&late_ms, 0.5);
    found.late_p99_ms = quantile(&late_ms, 0.99);
    found.early = Some(late_ms.iter().filter(|ms| **ms < 0.0).count() as f64);
}

fn burst(found: &mut Contender, answer: Answer, jobs: u64) {
    if !account(found, "burst", &answer, jobs) {
        return;
    }
    let late_ms = answer.sorted_late_ms();
    found.burst_ms = late_ms.last().copied();
    let early = late_ms.iter().filter(|ms| **ms < 0.0).count();
    if early > 0 {
        found.remarks.push(format!("burst: {early} of {jobs} jobs started early"));
    }
}

/// Tells what was lost or done twice; false if the task could not be done.
fn account(found: &mut Contender, task: &str, answer: &Answer, jobs: u64) -> bool {
    let Answer { handled, twice, ref unsupported, .. } = *answer;
    if let Some(why) = unsupported {
        found.remarks.push(format!("{task}: {why}"));
        return false;
    }
    if handled < jobs {
        found.remarks.push(format!(
            "{task}: {handled} of {jobs} jobs were handled; of the others nothing came for 35 s"
        ));
    }
    if twice > 0 {
        found.remarks.push(format!("{task}: {twice} runs were a job's second or later"));
    }
    true
}

/// The value that so great a part of sorted values does not exceed.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let at = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_there() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(quantile(&values, 0.5), Some(100.0));
        assert_eq!(quantile(&values, 0.99), Some(198.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn what_was_lost_or_done_twice_is_told() {
        let mut found = Contender::default();
        let answer = Answer { handled: 90, twice: 2, ..Answer::default() };
        assert!(account(&mut found, "drain", &answer, 100));
        assert_eq!(found.remarks.len(), 2);
        assert!(found.remarks[0].contains("90 of 100"), "{:?}", found.remarks);
        let unsupported = Some("it has no batches".to_owned());
        let answer = Answer { unsupported, ..Answer::default() };
        assert!(!account(&mut found, "push", &answer, 100));
    }
}
