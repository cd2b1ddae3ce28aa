//! WASI preview 1: output as log lines, the granted environment, and no access to anything else.

use std::collections::BTreeMap;

use bytes::Bytes;
use duebox_job::FailureClass;
use duebox_sandbox::{Grants, Handler, Level, Limits};

use crate::support::{job, load, load_with, run};

/// Writes the payload to a file descriptor in one or more pieces, then runs `end`.
fn writer(fd: u32, piece: u32, end: &str) -> String {
    format!(
        r#"(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 8)
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "handle") (param $at i32) (param $left i32) (result i32)
    (loop $again
      (i32.store (i32.const 0) (local.get $at))
      (i32.store (i32.const 4)
        (select (local.get $left) (i32.const {piece})
          (i32.lt_u (local.get $left) (i32.const {piece}))))
      (if (call $fd_write (i32.const {fd}) (i32.const 0) (i32.const 1) (i32.const 16))
        (then (return (i32.const 7))))
      (local.set $at (i32.add (local.get $at) (i32.load (i32.const 16))))
      (local.set $left (i32.sub (local.get $left) (i32.load (i32.const 16))))
      (br_if $again (local.get $left)))
    {end}))"#
    )
}

async fn write(handler: &Handler, text: &str) -> crate::support::TestRun {
    let mut talkative = job();
    talkative.payload = Bytes::from(text.to_owned());
    run(handler, talkative).await
}

#[tokio::test]
async fn stdout_and_stderr_are_info_and_warn_lines() {
    for (fd, level) in [(1, Level::Info), (2, Level::Warn)] {
        for piece in [1, 3, 1000] {
            let handler = load(&writer(fd, piece, "(i32.const 0)"));
            let ran = write(&handler, "first line\nsecond \x1b[31mline\r\n\nüml\tno break").await;
            assert_eq!(ran.answer(), 0);
            assert_eq!(ran.texts(), ["first line", "second [31mline", "", "üml\tno break"]);
            assert!(ran.lines.iter().all(|(found, _)| *found == level));
        }
    }
}

#[tokio::test]
async fn output_before_a_trap_is_logged() {
    let ran = write(&load(&writer(2, 100, "(unreachable)")), "panic: no such order").await;
    assert_eq!(ran.failure().class, FailureClass::Trap);
    assert_eq!(ran.texts(), ["panic: no such order"]);
}

#[tokio::test]
async fn an_endless_line_is_split_within_the_budget() {
    let handler = load(&writer(1, 50_000, "(i32.const 0)"));
    let ran = write(&handler, &"x".repeat(100_000)).await;
    let lengths: Vec<usize> = ran.texts().iter().map(|line| line.len()).collect();
    assert_eq!(lengths, [8192; 8], "64 KiB fit");
    // 100,000 bytes are 12 full lines and a rest.
    assert_eq!(ran.report.log_lines_dropped, 5);
}

#[tokio::test]
async fn no_other_file_descriptor_is_open() {
    // 8 is EBADF. The handler returns 7 if fd_write failed.
    for fd in [0, 3, 4, 1000] {
        let ran = write(&load(&writer(fd, 100, "(i32.const 0)")), "text").await;
        assert_eq!(ran.answer(), 7, "{fd}");
        assert!(ran.lines.is_empty());
    }
}

#[tokio::test]
async fn the_environment_contains_only_what_is_granted() {
    let wat = r#"(module
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get"
    (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (drop (call $args (i32.const 0) (i32.const 4)))
    (if (i32.load (i32.const 0)) (then (return (i32.const 7))))
    (drop (call $sizes (i32.const 0) (i32.const 4)))
    (drop (call $get (i32.const 16) (i32.const 1024)))
    (call $log (i32.const 2) (i32.const 1024) (i32.load (i32.const 4)))
    (i32.const 0)))"#;
    let env = BTreeMap::from([
        ("REGION".to_owned(), "eu".to_owned()),
        ("TZ".to_owned(), "UTC".to_owned()),
    ]);
    let granted = Grants { env, ..Grants::default() };
    let ran = run(&load_with(wat, Limits::default(), granted), job()).await;
    assert_eq!((ran.answer(), ran.texts()), (0, vec!["REGION=euTZ=UTC"]));
    let ran = run(&load(wat), job()).await;
    assert_eq!((ran.answer(), ran.texts()), (0, vec![""]));
}

#[tokio::test]
async fn there_are_no_directories_and_no_sockets() {
    // 8 is EBADF, 58 is ENOTSUP, 76 is ENOTCAPABLE.
    let wat = r#"(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $prestat (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "sock_accept"
    (func $accept (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "etc/passwd")
  (func (export "handle") (param i32) (result i32)
    (if (i32.eqz (call $prestat (i32.const 3) (i32.const 0))) (then (return (i32.const 7))))
    (if (i32.eqz (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 10)
          (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0)))
      (then (return (i32.const 8))))
    (if (i32.eqz (call $accept (i32.const 3) (i32.const 0) (i32.const 0)))
      (then (return (i32.const 9))))
    (i32.const 0)))"#;
    assert_eq!(run(&load(wat), job()).await.answer(), 0);
}

#[tokio::test]
async fn a_short_sleep_returns() {
    let wat = crate::support::SLEEPER.replace("3600000000000", "2000000");
    let ran = run(&load(&wat), job()).await;
    assert_eq!(ran.answer(), 0);
    assert!(ran.report.wall >= std::time::Duration::from_millis(2));
}

#[tokio::test]
async fn an_invalid_pointer_for_wasi_is_a_trap() {
    let wat = r#"(module
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (call $random (i32.const 65530) (i32.const 100))))"#;
    let ran = run(&load(wat), job()).await;
    assert_eq!(ran.failure().class, FailureClass::Trap);
}
