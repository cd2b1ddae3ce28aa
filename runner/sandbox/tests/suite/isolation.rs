//! No data of one job is visible to the next.

use duebox_job::Outcome;
use duebox_sandbox::{Grants, Limits};

use crate::support::{job, load, load_with, run};

/// Returns what it finds where it then writes: a global, a table, the data, the rest of a page, and memory
/// beyond what a slot keeps. Half of the runs end in a trap.
const MARKS: &str = r#"(module
  (import "duebox_v1" "meta_int" (func $meta_int (param i32) (result i64)))
  (memory (export "memory") 2)
  (data (i32.const 0) "\00\01")
  (table $table 2 funcref)
  (elem declare func $some)
  (global $mark (mut i32) (i32.const 0))
  (func $some)
  (func $stain (param $at i32) (param $expected i32) (result i32)
    (local $found i32)
    (local.set $found (i32.ne (i32.load8_u (local.get $at)) (local.get $expected)))
    (i32.store8 (local.get $at) (i32.const 171))
    (local.get $found))
  (func (export "handle") (param i32) (result i32)
    (local $found i32)
    (local.set $found (global.get $mark))
    (global.set $mark (i32.const 3))
    (if (i32.eqz (ref.is_null (table.get $table (i32.const 1))))
      (then (local.set $found (i32.const 4))))
    (table.set $table (i32.const 1) (ref.func $some))
    (if (i32.ne (memory.size) (i32.const 2)) (then (return (i32.const 5))))
    (drop (memory.grow (i32.const 126)))
    (if (call $stain (i32.const 1) (i32.const 1)) (then (local.set $found (i32.const 6))))
    (if (call $stain (i32.const 131071) (i32.const 0)) (then (local.set $found (i32.const 7))))
    (if (call $stain (i32.const 131072) (i32.const 0)) (then (local.set $found (i32.const 8))))
    (if (call $stain (i32.const 5000000) (i32.const 0)) (then (local.set $found (i32.const 9))))
    (if (call $stain (i32.const 8388607) (i32.const 0)) (then (local.set $found (i32.const 10))))
    (if (i32.eqz (local.get $found))
      (then (if (i64.eq (call $meta_int (i32.const 3)) (i64.const 1)) (then (unreachable)))))
    (local.get $found)))"#;

#[tokio::test]
async fn memory_globals_and_tables_are_new_for_every_job() {
    let handler = load(MARKS);
    for attempt in 1..=60 {
        let mut next = job();
        next.attempt = attempt % 2 + 1;
        let trapped = next.attempt == 1;
        let ran = run(&handler, next).await;
        match trapped {
            true => assert!(ran.failure().reason.starts_with("wasm `unreachable`"), "{ran:?}"),
            false => assert_eq!(ran.report.outcome, Outcome::Acked),
        }
    }
}

#[tokio::test]
async fn a_slot_shows_no_data_of_another_module() {
    let stains = load(
        r#"(module
          (memory (export "memory") 128)
          (func (export "handle") (param i32) (result i32)
            (memory.fill (i32.const 0) (i32.const 255) (i32.const 8388608))
            (i32.const 0)))"#,
    );
    // Sums all its memory. The runs alternate with the module above until each slot was used by both.
    let sums = load(
        r#"(module
          (memory (export "memory") 128)
          (func (export "handle") (param i32) (result i32)
            (local $at i32) (local $sum i64)
            (loop $again
              (local.set $sum (i64.or (local.get $sum) (i64.load (local.get $at))))
              (local.set $at (i32.add (local.get $at) (i32.const 8)))
              (br_if $again (i32.lt_u (local.get $at) (i32.const 8388608))))
            (i64.ne (local.get $sum) (i64.const 0))))"#,
    );
    for _ in 0..20 {
        assert_eq!(run(&stains, job()).await.report.outcome, Outcome::Acked);
        assert_eq!(run(&sums, job()).await.report.outcome, Outcome::Acked);
    }
}

#[tokio::test]
async fn each_job_has_its_own_log_budget() {
    let limits = Limits { log: 10, ..Limits::default() };
    let handler = load_with(
        r#"(module
          (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "0123456789")
          (func (export "handle") (param i32) (result i32)
            (call $log (i32.const 2) (i32.const 0) (i32.const 10))
            (call $log (i32.const 2) (i32.const 0) (i32.const 1))
            (i32.const 0)))"#,
        limits,
        Grants::default(),
    );
    for _ in 0..2 {
        let ran = run(&handler, job()).await;
        assert_eq!(ran.texts(), ["0123456789"]);
        assert_eq!(ran.report.log_lines_dropped, 1);
    }
}
