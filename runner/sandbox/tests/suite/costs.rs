//! Limits and measured costs: fuel, the common memory budget, the report, and the cache.

use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use duebox_job::{FailureClass, Outcome, TopicName};
use duebox_sandbox::{
    Grants, Handler, Interrupt, InterruptReason, Limits, LoadError, Sandbox, SandboxConfig,
    SandboxError,
};

use crate::support::{
    ACKS, Lines, SLEEPER, SPINNER, job, load, load_with, probe, run, services_with_logs,
};

/// Counts up to the first byte of its payload.
const COUNTS: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (local $n i32)
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1)))
    (local.set $n (i32.load8_u (i32.const 0)))
    (loop $again
      (br_if $again (i32.ne (i32.const 0) (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
    (i32.const 0)))"#;

fn with_fuel(wat: &str, fuel: u64) -> Handler {
    load_with(wat, Limits { fuel: NonZeroU64::new(fuel), ..Limits::default() }, Grants::default())
}

async fn fuel_for(handler: &Handler, count: u8) -> u64 {
    let mut next = job();
    next.payload = vec![count].into();
    let ran = run(handler, next).await;
    assert_eq!(ran.report.outcome, Outcome::Acked);
    ran.report.fuel_used.expect("a topic with a budget counts fuel")
}

#[tokio::test]
async fn fuel_is_exact_and_the_same_every_time() {
    let handler = with_fuel(COUNTS, 1_000_000);
    let (one, two, ten) =
        (fuel_for(&handler, 1).await, fuel_for(&handler, 2).await, fuel_for(&handler, 10).await);
    let round = two - one;
    assert!(round > 0);
    assert_eq!(ten, one + 9 * round);
    assert_eq!(fuel_for(&with_fuel(COUNTS, 500_000), 10).await, ten);
    // One unit less than the job needs is too little.
    assert_eq!(fuel_for(&with_fuel(COUNTS, ten), 10).await, ten);
    let mut next = job();
    next.payload = vec![10].into();
    let ran = run(&with_fuel(COUNTS, ten - 1), next).await;
    assert_eq!(ran.failure().class, FailureClass::OutOfFuel);
    let text = &ran.failure().reason;
    assert!(text.contains(&format!("the {} units of fuel", ten - 1)), "{text}");
    assert_eq!(run(&load(COUNTS), job()).await.report.fuel_used, None);
}

#[tokio::test]
async fn an_endless_guest_ends_with_its_fuel() {
    let ran = run(&with_fuel(SPINNER, 10_000_000), job()).await;
    assert_eq!(ran.failure().class, FailureClass::OutOfFuel);
    let used = ran.report.fuel_used.unwrap();
    assert_eq!(used, 10_000_000);
    assert!(ran.report.backtrace.is_some());
}

#[tokio::test]
async fn each_job_has_its_own_fuel_also_in_a_warm_instance() {
    let mut limits = Limits { fuel: NonZeroU64::new(10_000), ..Limits::default() };
    limits.instances.jobs_each = 100;
    let handler = load_with(COUNTS, limits, Grants::default());
    let first = fuel_for(&handler, 200).await;
    for _ in 0..50 {
        assert_eq!(fuel_for(&handler, 200).await, first);
    }
}

#[tokio::test]
async fn the_report_counts_calls_and_bytes() {
    let body = "(drop (call $payload_read (i32.const 0) (i32.const 0) (i32.const 4)))
        (drop (call $config_read (i32.const 256) (i32.const 6) (i32.const 0) (i32.const 2)))
        (drop (call $meta_int (i32.const 3)))
        (call $random (i32.const 0) (i32.const 10))
        (call $log (i32.const 2) (i32.const 320) (i32.const 8))
        (i32.const 0)";
    let grants =
        Grants { config: [("region".to_owned(), "europe".to_owned())].into(), ..Grants::default() };
    let ran = run(&load_with(&probe(body), Limits::default(), grants), job()).await;
    let report = &ran.report;
    assert_eq!(report.outcome, Outcome::Acked);
    assert_eq!((report.host_calls, report.bytes_in, report.bytes_out), (5, 4 + 2 + 10, 8));
    let pushed = load(
        r#"(module (memory (export "memory") 1)
          (func (export "alloc") (param i32) (result i32) (i32.const 0))
          (func (export "handle") (param i32 i32) (result i32) (i32.const 0)))"#,
    );
    let report = run(&pushed, job()).await.report;
    assert_eq!((report.host_calls, report.bytes_in, report.bytes_out), (0, 12, 0));
}

#[tokio::test]
async fn cpu_time_is_not_wall_clock_time() {
    let (mut busy, mut idle) = (job(), job());
    (busy.ttr, idle.ttr) = (Duration::from_millis(120), Duration::from_millis(120));
    let busy = run(&load(SPINNER), busy).await.report;
    let idle = run(&load(SLEEPER), idle).await.report;
    assert!(busy.wall >= Duration::from_millis(100) && idle.wall >= Duration::from_millis(100));
    assert!(busy.cpu > Duration::ZERO && busy.cpu <= busy.wall, "{busy:?}");
    assert!(idle.cpu < idle.wall / 2, "{idle:?}");
}

fn small(memory: usize) -> Sandbox {
    let config = SandboxConfig { max_jobs: 16, memory_max: 64 << 20, tables_max: 100 };
    let sandbox = Sandbox::new(&config).unwrap();
    sandbox.limit_memory(memory);
    sandbox
}

/// Sleeps for an hour with four pages of memory.
fn sleeping_module() -> String {
    SLEEPER.replace("(memory (export \"memory\") 1)", "(memory (export \"memory\") 4)")
}

#[tokio::test]
async fn a_starting_guest_waits_for_memory_and_a_refused_growth_spends_no_attempt() {
    let sandbox = small(6 << 16);
    let load =
        |wat: &str| sandbox.load(wat.as_bytes(), Limits::default(), Grants::default()).unwrap();
    let (sleeping_module, grows) = (
        load(&sleeping_module()),
        load(
            r#"(module (memory (export "memory") 1)
          (func (export "handle") (param i32) (result i32)
            (i32.eq (memory.grow (i32.const 4)) (i32.const -1))))"#,
        ),
    );
    let (interrupt, lines) = (Interrupt::new(), Lines::new());
    let (handler, switch, sink) = (sleeping_module.clone(), interrupt.clone(), lines.clone());
    let held =
        tokio::spawn(async move { handler.run(job(), switch, services_with_logs(sink)).await });
    lines.one().await;
    assert_eq!(sandbox.memory_held(), 4 << 16);

    let refused = run(&grows, job()).await.report.outcome;
    match &refused {
        Outcome::HostFault(why) => assert!(why.contains("runner.memory"), "{why}"),
        other => panic!("{other:?}"),
    }
    let mut short = job();
    short.ttr = Duration::from_millis(50);
    match run(&sleeping_module, short).await.report.outcome {
        Outcome::HostFault(why) => assert!(why.contains("no memory was free"), "{why}"),
        other => panic!("{other:?}"),
    }
    let next = Lines::new();
    let (handler, switch, sink) = (sleeping_module.clone(), interrupt.clone(), next.clone());
    let waits =
        tokio::spawn(async move { handler.run(job(), switch, services_with_logs(sink)).await });
    tokio::task::yield_now().await;
    assert!(next.take().is_empty(), "the budget has no room for it");
    held.abort();
    next.one().await;
    interrupt.raise(InterruptReason::Shutdown);
    assert!(matches!(waits.await.unwrap().outcome, Outcome::HostFault(_)));
    assert!(held.await.unwrap_err().is_cancelled());
    assert_eq!(sandbox.memory_held(), 0);
    assert_eq!(run(&grows, job()).await.report.outcome, Outcome::Acked);
}

#[tokio::test]
async fn a_small_guest_gets_memory_while_sleeping_guests_hold_their_limit() {
    let sandbox = small(64 << 16);
    let load =
        |wat: &str| sandbox.load(wat.as_bytes(), Limits::default(), Grants::default()).unwrap();
    let (sleeper, page) = (
        load(&sleeping_module()),
        load(
            r#"(module (memory (export "memory") 8)
          (func (export "handle") (param i32) (result i32) (i32.const 0)))"#,
        ),
    );
    let mut sleeping = Vec::new();
    for _ in 0..14 {
        let (handler, lines) = (sleeper.clone(), Lines::new());
        let services = services_with_logs(lines.clone());
        sleeping.push(tokio::spawn(
            async move { handler.run(job(), Interrupt::new(), services).await },
        ));
        lines.one().await;
    }
    assert_eq!(sandbox.memory_held(), 56 << 16);
    let mut short = job();
    short.ttr = Duration::from_millis(50);
    match run(&sleeper, short).await.report.outcome {
        Outcome::HostFault(why) => assert!(why.contains("no memory was free"), "{why}"),
        other => panic!("seven eighths are all that one handler may hold: {other:?}"),
    }
    for _ in 0..3 {
        assert_eq!(run(&page, job()).await.report.outcome, Outcome::Acked);
    }
    sleeping.iter().for_each(tokio::task::JoinHandle::abort);
    for ended in sleeping {
        assert!(ended.await.unwrap_err().is_cancelled());
    }
    // The idle instance of the small one.
    assert_eq!(sandbox.memory_held(), 8 << 16);
}

/// Each instance runs ten jobs.
fn warm() -> Limits {
    let mut limits = Limits::default();
    limits.instances.jobs_each = 10;
    limits
}

/// Sleeps for 5 ms with four pages of memory, then logs how many jobs its instance has run.
fn counting_module() -> String {
    sleeping_module()
        .replace("3600000000000", "5000000")
        .replace(r#"(data (i32.const 256) "asleep")"#, r#"(data (i32.const 256) "1")"#)
        .replace("(i32.const 6))", "(i32.const 1))\n    (i32.store8 (i32.const 256) (i32.add (i32.const 1) (i32.load8_u (i32.const 256))))")
}

#[tokio::test]
async fn a_job_that_waits_for_memory_gets_the_instance_that_another_job_leaves() {
    let (sandbox, lines) = (small(6 << 16), Lines::new());
    let warm = sandbox.load(counting_module().as_bytes(), warm(), Grants::default()).unwrap();
    let start = |_| {
        let (handler, services) = (warm.clone(), services_with_logs(lines.clone()));
        tokio::spawn(async move { handler.run(job(), Interrupt::new(), services).await })
    };
    let all: Vec<_> = (0..8).map(start).collect();
    for one in all {
        assert_eq!(one.await.unwrap().outcome, Outcome::Acked);
    }
    let counts: Vec<String> = lines.take().into_iter().map(|(_, text)| text).collect();
    assert_eq!(counts, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    assert_eq!(sandbox.memory_held(), 4 << 16);
}

#[tokio::test]
async fn a_job_that_waits_for_memory_starts_when_an_instance_of_another_module_is_idle() {
    let (sandbox, lines) = (small(6 << 16), Lines::new());
    let module = counting_module();
    let load = |limits| sandbox.load(module.as_bytes(), limits, Grants::default()).unwrap();
    let (warm, other) = (load(warm()), load(Limits::default()));
    // The module stays, and its idle instance with it.
    let (handler, services) = (warm.clone(), services_with_logs(lines.clone()));
    let first = tokio::spawn(async move { handler.run(job(), Interrupt::new(), services).await });
    lines.one().await;
    assert_eq!(run(&other, job()).await.report.outcome, Outcome::Acked);
    assert_eq!(first.await.unwrap().outcome, Outcome::Acked);
    drop(warm);
}

#[tokio::test]
async fn warm_instances_are_dropped_for_a_starting_guest() {
    let sandbox = small(6 << 16);
    let page = r#"(module (memory (export "memory") 4)
        (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;
    let warm = sandbox.load(page.as_bytes(), warm(), Grants::default()).unwrap();
    let fresh = sandbox.load(page.as_bytes(), Limits::default(), Grants::default()).unwrap();
    assert_eq!(run(&warm, job()).await.report.outcome, Outcome::Acked);
    assert_eq!(sandbox.memory_held(), 4 << 16);
    assert_eq!(run(&fresh, job()).await.report.outcome, Outcome::Acked);
    // Now the other one is idle.
    assert_eq!(sandbox.memory_held(), 4 << 16);
    assert_eq!(run(&warm, job()).await.report.outcome, Outcome::Acked);
    assert_eq!(sandbox.memory_held(), 4 << 16);
}

/// Runs jobs of different topics, one on each of eight new threads. Each leaves an idle instance of a page.
fn run_on_new_threads(handler: &Handler, round: usize) {
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                let mut next = job();
                next.topic = TopicName::new(&format!("topic.{round}.{thread}")).unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let ran = runtime.unwrap().block_on(run(handler, next));
                assert_eq!(ran.report.outcome, Outcome::Acked);
            });
        }
    });
}

#[tokio::test]
async fn idle_instances_of_all_threads_are_bounded_though_each_look_for_memory_gathers_them() {
    const HELD: usize = 500;
    /// As many as all threads share, and the last of each of 16 threads.
    const IDLE_MAX: usize = 64 + 16;
    let sandbox = small(1_000 << 16);
    let load = |wat: &str, limits| sandbox.load(wat.as_bytes(), limits, Grants::default()).unwrap();
    let sleeps_with = |pages: usize| {
        let memory = format!(r#"(memory (export "memory") {pages})"#);
        load(&SLEEPER.replace(r#"(memory (export "memory") 1)"#, &memory), Limits::default())
    };
    let page = r#"(module (memory (export "memory") 1)
        (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;
    let page = load(page, warm());
    let (sleeper, lines) = (sleeps_with(HELD), Lines::new());
    let (handler, services) = (sleeper.clone(), services_with_logs(lines.clone()));
    let held = tokio::spawn(async move { handler.run(job(), Interrupt::new(), services).await });
    lines.one().await;
    // More than is free and idle together.
    let wants_more = sleeps_with(HELD);
    for round in 0..20 {
        run_on_new_threads(&page, round);
        let mut short = job();
        short.ttr = Duration::from_millis(30);
        match run(&wants_more, short).await.report.outcome {
            Outcome::HostFault(why) => assert!(why.contains("no memory was free"), "{why}"),
            other => panic!("{other:?}"),
        }
        let idle = (sandbox.memory_held() >> 16) - HELD;
        assert!(
            idle <= IDLE_MAX && idle >= (8 * (round + 1)).min(IDLE_MAX - 16),
            "{round}: {idle}"
        );
    }
    held.abort();
    assert!(held.await.unwrap_err().is_cancelled());
}

fn cached(folder: &Path) -> Result<Sandbox, SandboxError> {
    let config = SandboxConfig { max_jobs: 1, memory_max: 1 << 20, tables_max: 100 };
    let mut sandbox = Sandbox::new(&config).unwrap();
    sandbox.use_cache_dir(folder)?;
    Ok(sandbox)
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_cached_module_runs_like_a_compiled_one_and_a_damaged_one_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let load = || {
        let sandbox = cached(folder.path()).unwrap();
        sandbox.load(ACKS.as_bytes(), Limits::default(), Grants::default()).unwrap()
    };
    assert_eq!(run(&load(), job()).await.report.outcome, Outcome::Acked);
    let kept = files(folder.path());
    assert_eq!(kept.len(), 1);
    let whole = std::fs::read(&kept[0]).unwrap();
    assert_eq!(run(&load(), job()).await.report.outcome, Outcome::Acked);
    assert_eq!(files(folder.path()), kept);
    for damaged in [&whole[..whole.len() / 2], b"", b"\x7fELF not what was compiled"] {
        std::fs::write(&kept[0], damaged).unwrap();
        assert_eq!(run(&load(), job()).await.report.outcome, Outcome::Acked);
        assert_eq!(std::fs::read(&kept[0]).unwrap(), whole, "it was compiled again and replaced");
    }
}

#[test]
fn a_refused_module_is_refused_from_the_cache_too() {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = cached(folder.path()).unwrap();
    let page = r#"(module (memory (export "memory") 4)
        (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;
    sandbox.load(page.as_bytes(), Limits::default(), Grants::default()).unwrap();
    let tight = Limits { memory: 1 << 16, ..Limits::default() };
    let refused = sandbox.load(page.as_bytes(), tight, Grants::default()).unwrap_err();
    assert!(matches!(refused, LoadError::MemoryOverLimit { .. }), "{refused}");
}
