//! Rounds of ten thousand hostile jobs leak no memory, no open file and no thread. They run in a separate
//! process, so that no other test is measured.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duebox_sandbox::{Handler, Instances, Invocation};

use crate::hostile::{Hostile, corpus};
use crate::name_server::SilentNetwork;

/// The jobs of one round.
const ROUND: usize = 10_000;
/// How many rounds a process may take until its memory stays. Slots come into use one by one, each keeps up to
/// 4 MiB of memory and a stack, and the machine's load decides when: a process reaches about 220 MiB, half of
/// it after the first round or all of it. A leak grows in every round.
const ROUNDS_MAX: usize = 5;
/// How much a process may grow in its last round, in KiB. A leak of 6 KiB per job exceeds this limit.
const GROWTH_MAX_KIB: u64 = 60 << 10;
/// How many sockets may differ between two measurements: those of requests that were just dropped.
const FILES_MORE_MAX: usize = 16;
/// How many threads may differ between two measurements: those that read files start on demand and end when
/// idle.
const FILE_THREADS: u32 = 8;
/// The ttr of jobs that never return: some ticks.
const TTR: Duration = Duration::from_millis(10);
/// How many jobs run at the same time.
const TASKS: usize = 4;
const INNER: &str = "endurance::ten_thousand_hostile_jobs";

/// The resources of a process.
#[derive(Debug, Clone, Copy)]
struct ProcessResources {
    memory_kib: u64,
    files: usize,
    threads: u64,
}

impl ProcessResources {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse().unwrap()
        };
        let files = fs::read_dir("/proc/self/fd").unwrap().count();
        Self { memory_kib: number("RssAnon:"), files, threads: number("Threads:") }
    }
}

#[test]
fn ten_thousand_hostile_jobs_leak_no_resources() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([INNER, "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let run_word = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{run_word}");
    assert!(said.contains("1 passed"), "it did not run: {said}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn ten_thousand_hostile_jobs() {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    threads.worker_threads(2).max_blocking_threads(FILE_THREADS as usize).enable_all();
    threads.build().unwrap().block_on(more_rounds_use_no_more_resources());
}

async fn more_rounds_use_no_more_resources() {
    let jobs: Vec<(Hostile, Handler)> = corpus()
        .into_iter()
        .map(|hostile| {
            let handler = hostile.load(Instances::default());
            (hostile, handler)
        })
        .collect();
    let (jobs, network) = (Arc::new(jobs), Arc::new(SilentNetwork::listen().await));
    let mut measured = Vec::new();
    for _ in 0..ROUNDS_MAX {
        run_many(&jobs, &network, ROUND).await;
        measured.push(ProcessResources::now());
        if let [.., before, after] = measured[..]
            && after.memory_kib <= before.memory_kib + GROWTH_MAX_KIB
        {
            break;
        }
    }
    let [.., before, after] = measured[..] else { unreachable!("at least two rounds ran") };
    assert!(after.memory_kib <= before.memory_kib + GROWTH_MAX_KIB, "{measured:?}");
    assert!(after.files <= before.files + FILES_MORE_MAX, "{measured:?}");
    assert!(after.threads <= before.threads + u64::from(FILE_THREADS), "{measured:?}");
}

/// Runs the corpus repeatedly, this many jobs in total.
async fn run_many(jobs: &Arc<Vec<(Hostile, Handler)>>, network: &Arc<SilentNetwork>, count: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (jobs, next) = (Arc::clone(jobs), Arc::clone(&next));
            let network = Arc::clone(network);
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let (hostile, handler) = &jobs[number % jobs.len()];
                    let job = hostile.job();
                    let ttr = if hostile.expected == "timeout" { TTR } else { job.ttr };
                    let ran = network.run(handler, Invocation { ttr, ..job }).await;
                    assert_eq!(hostile.fault(&ran), None);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}
