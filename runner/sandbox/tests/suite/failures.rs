//! Failures: their class, their reason, and the function in which they happened.

use std::time::Duration;

use duebox_job::{FailureClass, Outcome};
use duebox_sandbox::{Grants, Interrupt, Limits, Sandbox, SandboxConfig};

use crate::support::{
    ACKS, Lines, SLEEPER, SPINNER, job, load, load_with, run, run_probe, services_with_logs,
};

#[tokio::test]
async fn a_trap_names_its_function() {
    let handler = load(
        r#"(module
          (memory 1)
          (func $poke (result i32) (i32.load (i32.const -1)))
          (func $inner (result i32) (call $poke))
          (func $outer (export "handle") (param i32) (result i32) (call $inner)))"#,
    );
    let ran = run(&handler, job()).await;
    assert_eq!(ran.class(), (FailureClass::Trap, "out of bounds memory access, in poke"));
    let trace = ran.report.backtrace.as_deref().unwrap_or_default();
    let lines: Vec<&str> = trace.lines().map(|line| line.split(" at 0x").next().unwrap()).collect();
    assert_eq!(lines, ["out of bounds memory access", "  0: poke", "  1: inner", "  2: outer"]);
}

#[tokio::test]
async fn a_fault_in_an_import_names_the_import_and_its_caller() {
    let ran = run_probe("(call $log (i32.const 0) (i32.const 65536) (i32.const 1)) (i32.const 0)");
    let ran = ran.await;
    let (class, reason) = ran.class();
    assert_eq!(class, FailureClass::Trap);
    assert_eq!(
        reason,
        "log: the range of 1 bytes at 65536 is outside the guest's memory of 65536 bytes, in function 10"
    );
}

#[tokio::test]
async fn a_refused_growth_reports_its_size_and_the_limit() {
    let limits = Limits { memory: 2 << 20, ..Limits::default() };
    let handler = load_with(
        r#"(module
          (memory (export "memory") 16)
          (func $hog (export "handle") (param i32) (result i32)
            (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then (return (i32.const 7))))
            (if (i32.ne (memory.grow (i32.const 1)) (i32.const -1)) (then (return (i32.const 7))))
            (unreachable)))"#,
        limits,
        Grants::default(),
    );
    let ran = run(&handler, job()).await;
    let (class, reason) = ran.class();
    assert_eq!(class, FailureClass::OutOfMemory);
    let first = "memory of 2162688 bytes was refused, the topic's limit is 2097152: ";
    assert!(reason.starts_with(first), "{reason}");
    assert!(reason.contains("unreachable"), "{reason}");
    assert_eq!(ran.report.memory_peak, 2 << 20);
}

#[tokio::test]
async fn a_growth_beyond_the_maximum_of_the_module_is_refused_too() {
    let handler = load(
        r#"(module
          (memory (export "memory") 1 2)
          (func (export "handle") (param i32) (result i32)
            (drop (memory.grow (i32.const 2)))
            (unreachable)))"#,
    );
    let ran = run(&handler, job()).await;
    let (class, reason) = ran.class();
    assert_eq!(class, FailureClass::OutOfMemory);
    assert!(reason.starts_with("memory of 196608 bytes was refused"), "{reason}");
    assert_eq!(ran.report.memory_peak, 65_536, "refused memory does not count");
}

#[tokio::test]
async fn a_refusal_in_the_start_function_counts() {
    let handler = load(
        r#"(module
          (memory (export "memory") 1)
          (func (export "_initialize") (drop (memory.grow (i32.const 60000))))
          (func (export "handle") (param i32) (result i32) (unreachable)))"#,
    );
    assert_eq!(run(&handler, job()).await.failure().class, FailureClass::OutOfMemory);
}

#[tokio::test]
async fn an_exit_reports_its_code() {
    let handler = load(
        r#"(module
          (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
          (func (export "handle") (param i32) (result i32)
            (call $proc_exit (i32.const 3))
            (i32.const 0)))"#,
    );
    let ran = run(&handler, job()).await;
    assert_eq!(ran.class(), (FailureClass::Exit, "the guest called proc_exit(3)"));
}

#[tokio::test]
async fn a_guest_ends_at_its_ttr_whether_it_spins_or_waits() {
    for module in [SPINNER, SLEEPER] {
        let mut short = job();
        short.ttr = Duration::from_millis(50);
        let ran = run(&load(module), short).await;
        let (class, reason) = ran.class();
        assert_eq!(class, FailureClass::Timeout);
        assert_eq!(reason, "the attempt exceeded its ttr of 50ms");
        assert!(ran.report.wall >= Duration::from_millis(50), "{:?}", ran.report.wall);
        assert_eq!(ran.texts().len(), 1, "earlier lines are kept");
    }
}

#[tokio::test]
async fn a_ttr_may_be_zero_or_very_long() {
    let mut none = job();
    none.ttr = Duration::ZERO;
    assert_eq!(run(&load(SPINNER), none).await.failure().class, FailureClass::Timeout);
    let mut for_ever = job();
    for_ever.ttr = Duration::MAX;
    assert_eq!(run(&load(ACKS), for_ever).await.report.outcome, Outcome::Acked);
}

#[tokio::test]
async fn a_full_pool_is_a_temporary_host_fault() {
    let config = SandboxConfig { max_jobs: 1, memory_max: 64 << 20, tables_max: 100 };
    let sandbox = Sandbox::new(&config).unwrap();
    assert!(sandbox.is_pooling(), "this machine has no address space for a pool of 145");
    let load =
        |wat: &str| sandbox.load(wat.as_bytes(), Limits::default(), Grants::default()).unwrap();
    let (sleeper, acks) = (load(SLEEPER), load(ACKS));
    let interrupt = Interrupt::new();
    let mut sleepers = Vec::new();
    for _ in 0..145 {
        let lines = Lines::new();
        let (handler, interrupt, sink) = (sleeper.clone(), interrupt.clone(), lines.clone());
        sleepers.push(tokio::spawn(async move {
            handler.run(job(), interrupt, services_with_logs(sink)).await
        }));
        lines.one().await;
    }
    let refused = run(&acks, job()).await;
    match &refused.report.outcome {
        Outcome::HostFault(text) => assert!(text.starts_with("no sandbox is free"), "{text}"),
        other => panic!("{other:?}"),
    }
    interrupt.raise(duebox_sandbox::InterruptReason::Shutdown);
    for sleeper in sleepers {
        assert!(matches!(sleeper.await.unwrap().outcome, Outcome::HostFault(_)));
    }
    assert_eq!(run(&acks, job()).await.report.outcome, Outcome::Acked);
}

#[tokio::test]
async fn jobs_run_without_address_space_for_a_pool() {
    for max_jobs in [1_000_000, u32::MAX] {
        let config = SandboxConfig { max_jobs, memory_max: 64 << 20, tables_max: u32::MAX };
        let sandbox = Sandbox::new(&config).unwrap();
        assert!(!sandbox.is_pooling(), "4 PiB were granted");
        let load =
            |wat: &str| sandbox.load(wat.as_bytes(), Limits::default(), Grants::default()).unwrap();
        assert_eq!(run(&load(ACKS), job()).await.report.outcome, Outcome::Acked);
        let mut short = job();
        short.ttr = Duration::from_millis(100);
        assert_eq!(run(&load(SLEEPER), short).await.failure().class, FailureClass::Timeout);
    }
}
