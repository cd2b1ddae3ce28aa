//! Calls whose work grows with their arguments: the guest yields in the middle of one, and ends at its deadline.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FailureClass, Outcome};
use duebox_sandbox::{Grants, Handler, Invocation, Limits};

use crate::support::{TestRun, job, load_with, run};

/// Runs a handler, and counts how often a neighbour on the same thread could run meanwhile.
async fn with_neighbour(handler: &Handler, job: Invocation) -> (TestRun, usize) {
    let turns = Rc::new(Cell::new(0));
    let counts = Rc::clone(&turns);
    let tasks = tokio::task::LocalSet::new();
    tasks.spawn_local(async move {
        loop {
            counts.set(counts.get() + 1);
            tokio::task::yield_now().await;
        }
    });
    let ran = tasks.run_until(run(handler, job)).await;
    (ran, turns.get())
}

/// A module of 1,000 pages that makes one call and acks.
fn one_call(import: &str, call: &str) -> String {
    format!(
        r#"(module (import {import})
          (memory (export "memory") 1000)
          (func (export "handle") (param $len i32) (result i32) {call} (i32.const 0)))"#
    )
}

fn corpus() -> Vec<(&'static str, String)> {
    let random = r#""duebox_v1" "random" (func $random (param i32 i32))"#;
    let random_get =
        r#""wasi_snapshot_preview1" "random_get" (func $get (param i32 i32) (result i32))"#;
    let read = r#""duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32))"#;
    let log = r#""duebox_v1" "log" (func $log (param i32 i32 i32))"#;
    let write =
        r#""wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32))"#;
    let breaks = "(memory.fill (i32.const 1024) (i32.const 10) (i32.const 262144))";
    let vector =
        "(i32.store (i32.const 0) (i32.const 1024)) (i32.store (i32.const 4) (i32.const 262144))";
    let write_call = format!(
        "{breaks} {vector} (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))"
    );
    vec![
        ("random", one_call(random, "(call $random (i32.const 0) (i32.const 62914560))")),
        (
            "random_get",
            one_call(random_get, "(drop (call $get (i32.const 0) (i32.const 62914560)))"),
        ),
        (
            "payload_read",
            one_call(read, "(drop (call $read (i32.const 0) (i32.const 0) (local.get $len)))"),
        ),
        (
            "log",
            one_call(
                log,
                &format!("{breaks} (call $log (i32.const 2) (i32.const 1024) (i32.const 262144))"),
            ),
        ),
        ("fd_write", one_call(write, &write_call)),
    ]
}

#[tokio::test(flavor = "current_thread")]
async fn a_guest_yields_in_the_middle_of_a_long_call() {
    for (name, module) in corpus() {
        let limits = Limits { log: 16 << 20, payload: 64 << 20, ..Limits::default() };
        let handler = load_with(&module, limits, Grants::default());
        let job = Invocation { payload: Bytes::from(vec![7; 60 << 20]), ..job() };
        let (ran, turns) = with_neighbour(&handler, job).await;
        assert_eq!(ran.report.outcome, Outcome::Acked, "{name}");
        println!("{name}: a neighbour had {turns} turns in {:?}", ran.report.wall);
        assert!(turns >= 40, "{name}: a neighbour had {turns} turns");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_long_call_ends_at_the_deadline() {
    let limits = Limits { memory: 1 << 29, ..Limits::default() };
    for (name, module) in corpus().into_iter().take(2) {
        let module = module.replace("1000)", "8192)").replace("62914560", "536870912");
        let handler = load_with(&module, limits.clone(), Grants::default());
        let whole = run(&handler, job()).await;
        assert_eq!(whole.report.outcome, Outcome::Acked, "{name}");
        let ttr = (whole.report.wall / 20).max(Duration::from_millis(1));
        let cut = run(&handler, Invocation { ttr, ..job() }).await;
        assert_eq!(cut.failure().class, FailureClass::Timeout, "{name}");
        println!(
            "{name}: {:?} whole, {:?} with a ttr of {ttr:?}",
            whole.report.wall, cut.report.wall
        );
        assert!(cut.report.wall < whole.report.wall / 2, "{name}: {:?}", cut.report.wall);
    }
}
