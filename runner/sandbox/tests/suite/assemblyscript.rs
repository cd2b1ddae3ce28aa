//! The imports of AssemblyScript from `env`.

use duebox_job::FailureClass;
use duebox_sandbox::Level;

use crate::support::{TestRun, job, load, run};

/// Runs a module with all imports of AssemblyScript. Its memory has "héllo" at 16, "file.ts" at 64, half a
/// surrogate pair at 96, a string longer than the memory at 128, and an empty one at 160.
async fn run_with(body: &str) -> TestRun {
    let wat = format!(
        r#"(module
  (import "env" "abort" (func $abort (param i32 i32 i32 i32)))
  (import "env" "trace" (func $trace (param i32 i32 f64 f64 f64 f64 f64)))
  (import "env" "seed" (func $seed (result f64)))
  (import "env" "console.log" (func $console_log (param i32)))
  (import "env" "console.debug" (func $console_debug (param i32)))
  (import "env" "console.info" (func $console_info (param i32)))
  (import "env" "console.warn" (func $console_warn (param i32)))
  (import "env" "console.error" (func $console_error (param i32)))
  (import "env" "Date.now" (func $now (result f64)))
  (import "env" "performance.now" (func $performance (result f64)))
  (memory (export "memory") 1)
  (data (i32.const 12) "\0a\00\00\00h\00\e9\00l\00l\00o\00")
  (data (i32.const 60) "\0e\00\00\00f\00i\00l\00e\00.\00t\00s\00")
  (data (i32.const 92) "\04\00\00\00a\00\00\d8")
  (data (i32.const 124) "\ff\ff\ff\ff")
  (data (i32.const 156) "\00\00\00\00")
  (func $main (export "handle") (param i32) (result i32) {body}))"#
    );
    run(&load(&wat), job()).await
}

#[tokio::test]
async fn abort_is_a_trap_with_its_message() {
    for (call, text) in [
        (
            "(i32.const 16) (i32.const 64) (i32.const 3) (i32.const 9)",
            "abort: héllo in file.ts(3:9)",
        ),
        ("(i32.const 16) (i32.const 0) (i32.const 3) (i32.const 9)", "abort: héllo"),
        ("(i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)", "abort"),
        ("(i32.const 160) (i32.const 64) (i32.const 1) (i32.const 2)", "abort in file.ts(1:2)"),
    ] {
        let ran = run_with(&format!("(call $abort {call}) (i32.const 0)")).await;
        assert_eq!(ran.class(), (FailureClass::Trap, format!("{text}, in main").as_str()));
    }
}

#[tokio::test]
async fn a_string_outside_the_memory_is_a_trap() {
    for pointer in [128, 2, 65_537, 70_000, -1, -4] {
        let ran =
            run_with(&format!("(call $console_log (i32.const {pointer})) (i32.const 0)")).await;
        let (class, reason) = ran.class();
        assert_eq!(class, FailureClass::Trap, "{pointer}");
        assert!(reason.starts_with("console.log: the range"), "{pointer}: {reason}");
    }
}

#[tokio::test]
async fn consoles_have_their_levels() {
    let ran = run_with(
        "(call $console_log (i32.const 16)) (call $console_debug (i32.const 16))
         (call $console_info (i32.const 16)) (call $console_warn (i32.const 16))
         (call $console_error (i32.const 16)) (call $console_log (i32.const 96))
         (call $console_log (i32.const 0)) (i32.const 0)",
    )
    .await;
    let levels: Vec<Level> = ran.lines.iter().map(|(level, _)| *level).collect();
    use Level::{Debug, Error, Info, Warn};
    assert_eq!(levels, [Info, Debug, Info, Warn, Error, Info, Info]);
    assert_eq!(ran.texts(), ["héllo", "héllo", "héllo", "héllo", "héllo", "a\u{fffd}", ""]);
}

#[tokio::test]
async fn trace_logs_its_numbers() {
    let numbers = "(f64.const 1) (f64.const 2.5) (f64.const 0) (f64.const 0) (f64.const 0)";
    let ran = run_with(&format!(
        "(call $trace (i32.const 16) (i32.const 2) {numbers})
         (call $trace (i32.const 16) (i32.const 0) {numbers})
         (call $trace (i32.const 16) (i32.const -1) {numbers}) (i32.const 0)"
    ))
    .await;
    assert_eq!(ran.texts(), ["héllo 1, 2.5", "héllo", "héllo 1, 2.5, 0, 0, 0"]);
    assert_eq!(ran.lines[0].0, Level::Trace);
}

#[tokio::test]
async fn time_and_seed_are_plausible() {
    let ran = run_with(
        "(if (f64.lt (call $now) (f64.const 1.7e12)) (then (return (i32.const 10))))
         (if (f64.lt (call $performance) (f64.const 0)) (then (return (i32.const 11))))
         (if (f64.eq (call $seed) (call $seed)) (then (return (i32.const 12))))
         (i32.const 0)",
    )
    .await;
    assert_eq!(ran.answer(), 0);
}
