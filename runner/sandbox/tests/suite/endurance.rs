//! Ten thousand hostile jobs leak no memory, no open file and no thread. They run in a separate process, so
//! that no other test is measured.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duebox_sandbox::{Handler, Instances, Invocation};

use crate::hostile::{Hostile, corpus};
use crate::name_server::SilentNetwork;

/// How many jobs use nearly every slot once.
const FIRST: usize = 10_000;
const ALL: usize = 20_000;
/// How much a process may grow after that, in KiB. A slot keeps up to 4 MiB of memory and a stack, and slots
/// come into use one by one, so a process reaches about 220 MiB. A leak of 6 KiB per job exceeds this limit.
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
    threads.build().unwrap().block_on(twice_as_many_jobs_use_no_more_resources());
}

async fn twice_as_many_jobs_use_no_more_resources() {
    let jobs: Vec<(Hostile, Handler)> = corpus()
        .into_iter()
        .map(|hostile| {
            let handler = hostile.load(Instances::default());
            (hostile, handler)
        })
        .collect();
    let (jobs, network) = (Arc::new(jobs), Arc::new(SilentNetwork::listen().await));
    run_many(&jobs, &network, FIRST).await;
    let before = ProcessResources::now();
    run_many(&jobs, &network, ALL - FIRST).await;
    let after = ProcessResources::now();
    let growth = after.memory_kib.saturating_sub(before.memory_kib);
    assert!(growth <= GROWTH_MAX_KIB, "{before:?} after {FIRST}, {after:?} after {ALL}");
    assert!(after.files <= before.files + FILES_MORE_MAX, "{before:?}, then {after:?}");
    assert!(
        after.threads <= before.threads + u64::from(FILE_THREADS),
        "{before:?}, then {after:?}"
    );
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
