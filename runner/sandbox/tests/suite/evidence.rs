//! The evidence of a failure: the backtrace and the last log lines.

use std::time::Duration;

use duebox_job::{FailureClass, Outcome};
use duebox_sandbox::{Grants, Interrupt, InterruptReason, Limits};

use crate::support::{
    ACKS, Lines, SLEEPER, SPINNER, job, load, load_with, probe, run, run_probe, services_with_logs,
};

const UNREACHABLE: &str = "wasm `unreachable` instruction executed";

/// The lines of a backtrace without the offsets.
fn calls(trace: &str) -> Vec<&str> {
    trace.lines().map(|line| line.split(" at 0x").next().unwrap_or(line)).collect()
}

#[tokio::test]
async fn a_backtrace_has_every_call_with_its_name_in_the_source() {
    let ran = run(
        &load(
            r#"(module
              (func $inner (@name "_ZN5order5close17h0123456789abcdefE") (result i32) (unreachable))
              (func (@name "_RNvCs1234_4shop5check") (result i32) (call $inner))
              (func $outer (export "handle") (param i32) (result i32) (call 1)))"#,
        ),
        job(),
    )
    .await;
    assert_eq!(
        ran.class(),
        (FailureClass::Trap, "wasm `unreachable` instruction executed, in order::close")
    );
    let trace = ran.report.backtrace.unwrap();
    assert_eq!(calls(&trace), [UNREACHABLE, "  0: order::close", "  1: shop::check", "  2: outer"]);
    assert!(trace.lines().skip(1).all(|line| line.contains(" at 0x")), "{trace}");
}

#[tokio::test]
async fn a_reason_of_the_guest_does_not_hide_the_trap() {
    let ran = run_probe("(call $reason (i32.const 320) (i32.const 8)) (unreachable)").await;
    assert_eq!(ran.class(), (FailureClass::Trap, "a reason"));
    let trace = ran.report.backtrace.unwrap();
    assert!(trace.starts_with(&format!("{UNREACHABLE}\n  0: ")), "{trace}");
}

#[tokio::test]
async fn a_fault_an_exit_and_an_endless_loop_have_a_backtrace() {
    let ran = run_probe("(call $log (i32.const 0) (i32.const 65536) (i32.const 1)) (i32.const 0)");
    let trace = ran.await.report.backtrace.unwrap();
    assert!(trace.starts_with("log: the range of 1 bytes at 65536"), "{trace}");
    assert!(trace.lines().count() > 1, "{trace}");

    let exits = r#"(module
      (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
      (memory (export "memory") 1)
      (func $leave (call $exit (i32.const 3)))
      (func $outer (export "handle") (param i32) (result i32) (call $leave) (i32.const 0)))"#;
    let ran = run(&load(exits), job()).await;
    assert_eq!(ran.failure().class, FailureClass::Exit);
    let trace = ran.report.backtrace.unwrap();
    assert_eq!(calls(&trace)[1..], ["  0: leave", "  1: outer"], "{trace}");

    // If the host's timer sees the deadline first, the guest ends while it is suspended, without a backtrace.
    let mut short = job();
    short.ttr = Duration::from_millis(100);
    let ran = run(&load(SPINNER), short).await;
    assert_eq!(ran.failure().class, FailureClass::Timeout);
    assert!(ran.report.backtrace.is_none_or(|trace| trace.starts_with("interrupt\n  0: ")));
}

#[tokio::test]
async fn a_guest_that_returned_or_never_ran_has_no_backtrace() {
    for body in ["(i32.const 0)", "(i32.const 1)", "(i32.const 2)", "(i32.const 7)"] {
        assert_eq!(run_probe(body).await.report.backtrace, None, "{body}");
    }
    let (lines, interrupt) = (Lines::new(), Interrupt::new());
    interrupt.raise(InterruptReason::LeaseLost);
    let report = load(ACKS).run(job(), interrupt, services_with_logs(lines)).await;
    assert_eq!((report.backtrace, report.log_tail), (None, Vec::new()));
}

#[tokio::test]
async fn a_deep_backtrace_is_bounded() {
    let name = "x".repeat(5_000);
    let functions: String = (0..10)
        .map(|n| format!(r#"(func (@name "{name}{n}") (result i32) (call {}))"#, n + 1))
        .collect();
    let wat = format!(
        r#"(module {functions} (func (@name "bottom") (result i32) (unreachable))
          (func (export "handle") (param i32) (result i32) (call 0)))"#
    );
    let ran = run(&load(&wat), job()).await;
    let trace = ran.report.backtrace.unwrap();
    assert!(trace.starts_with(&format!("{UNREACHABLE}\n  0: bottom at 0x")));
    assert!(trace.len() <= 8 << 10 && trace.ends_with('…'), "{}", trace.len());
}

/// Logs `region` this often, each time one character shorter, down to none and again.
fn says(times: u32) -> String {
    format!(
        "(local $i i32)
         (loop $next
           (call $log (i32.rem_u (local.get $i) (i32.const 5)) (i32.const 256)
             (i32.sub (i32.const 6) (i32.rem_u (local.get $i) (i32.const 7))))
           (local.set $i (i32.add (local.get $i) (i32.const 1)))
           (br_if $next (i32.lt_u (local.get $i) (i32.const {times}))))"
    )
}

#[tokio::test]
async fn a_failure_keeps_the_last_lines_with_their_levels() {
    let ran = run_probe(&format!("{} (i32.const 2)", says(7))).await;
    let tail =
        ["error: region", "warn: regio", "info: regi", "debug: reg", "trace: re", "error: r"];
    assert_eq!(ran.report.log_tail[..6], tail);
    assert_eq!((ran.report.log_tail.len(), ran.lines.len()), (7, 7));
    let ran = run_probe(&format!("{} (unreachable)", says(100))).await;
    let said: Vec<String> =
        ran.lines.iter().map(|(level, text)| format!("{}: {text}", level.name())).collect();
    assert_eq!((ran.report.log_tail.len(), said.len()), (64, 100));
    assert_eq!(ran.report.log_tail, said[36..]);
}

#[tokio::test]
async fn a_snooze_and_an_interrupt_keep_the_last_lines_and_an_ack_does_not() {
    let snooze = format!("{} (call $snooze (i64.const 5)) (i32.const 1)", says(1));
    assert_eq!(run_probe(&snooze).await.report.log_tail, ["error: region"]);
    let ran = run_probe(&format!("{} (i32.const 0)", says(10))).await;
    assert_eq!((ran.report.outcome, ran.report.log_tail), (Outcome::Acked, Vec::new()));

    let (lines, interrupt) = (Lines::new(), Interrupt::new());
    let (handler, raised, sink) = (load(SLEEPER), interrupt.clone(), lines.clone());
    let running =
        tokio::spawn(async move { handler.run(job(), raised, services_with_logs(sink)).await });
    lines.one().await;
    interrupt.raise(InterruptReason::Shutdown);
    let report = running.await.unwrap();
    assert!(matches!(report.outcome, Outcome::HostFault(_)));
    assert_eq!((report.log_tail, report.backtrace), (vec!["info: asleep".to_owned()], None));
}

#[tokio::test]
async fn the_last_lines_are_bounded() {
    let limits = Limits { log: 20, ..Limits::default() };
    let body = format!("{} (i32.const 1)", says(7));
    let ran = run(&load_with(&probe(&body), limits, Grants::default()), job()).await;
    assert_eq!(ran.report.log_tail.len(), ran.lines.len());
    assert!(ran.report.log_lines_dropped > 0);

    let long = "(memory.fill (i32.const 1024) (i32.const 120) (i32.const 5000))
        (call $log (i32.const 0) (i32.const 1024) (i32.const 5000)) (i32.const 1)";
    let ran = run_probe(long).await;
    assert_eq!(ran.report.log_tail[0].len(), 1_024);
    assert_eq!(ran.lines[0].1.len(), 5_000);
}
