//! The state that the host keeps for an instance: open files and streams, the last response, seen revisions,
//! tables. None of it reaches the next job in any mode. Only the memory, globals and tables of a warm instance
//! do.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use duebox_job::{Outcome, TopicName};
use duebox_sandbox::{
    Grants, Handler, HostServices, HttpConfig, Instances, Interrupt, KeyValue, Limits, LoadError,
    MemoryKv,
};

use crate::http_guest::{client, grant};
use crate::support::{Lines, TestRun, job, load_with, run, sandbox};
use crate::web_servers;

const FRESH: Instances = Instances { snapshot: false, jobs_each: 1 };
const SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 1 };
const WARM: Instances = Instances { snapshot: false, jobs_each: 1_000 };
const WARM_SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 1_000 };
const ALL: [Instances; 4] = [FRESH, SNAPSHOT, WARM, WARM_SNAPSHOT];

fn in_mode(wat: &str, instances: Instances, grants: Grants) -> Handler {
    load_with(wat, Limits { instances, ..Limits::default() }, grants)
}

/// Runs the handler on a job with this payload.
async fn run_word(handler: &Handler, word: &'static str) -> TestRun {
    run(handler, duebox_sandbox::Invocation { payload: word.into(), ..job() }).await
}

/// A module that reads the first letter of its payload into `$word` and runs this body. It has an
/// `_initialize`, so that a snapshot can be taken.
fn by_word(imports: &str, body: &str) -> String {
    format!(
        r#"(module
  (import "duebox_v1" "payload_read" (func $payload_read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  {imports}
  (memory (export "memory") 2)
  (global $jobs (mut i32) (i32.const 0))
  (data (i32.const 512) "a.txt") (data (i32.const 528) "a line\n")
  (func (export "_initialize") (i32.store (i32.const 1000) (i32.const 1)))
  (func (export "handle") (param i32) (result i32)
    (local $word i32)
    (global.set $jobs (i32.add (global.get $jobs) (i32.const 1)))
    (drop (call $payload_read (i32.const 0) (i32.const 0) (i32.const 1)))
    (local.set $word (i32.load8_u (i32.const 0)))
    {body}
    (i32.const 9)))"#
    )
}

/// Code that runs if the word is this letter.
fn on(letter: char, then: &str) -> String {
    format!("(if (i32.eq (local.get $word) (i32.const {})) (then {then}))\n", u32::from(letter))
}

const FILES: &str = r#"
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))"#;

/// By its letter, it opens a file (o), opens and closes one (c), closes its output (x) or its directory (d),
/// reads descriptor 4 (r), writes a line (w), or counts the jobs of its instance (n). It acks and logs the
/// result, an errno of WASI as one digit.
fn file_user() -> String {
    let open = "(call $path_open (i32.const 3) (i32.const 1) (i32.const 512) (i32.const 5)
      (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64))";
    let parts = |at: u32, length: u32| {
        format!(
            "(i32.store (i32.const 16) (i32.const {at})) (i32.store (i32.const 20) (i32.const {length}))"
        )
    };
    let (room, line, fd) = (parts(1024, 64), parts(528, 7), "(i32.load (i32.const 64))");
    let transfer = |call: &str, fd: u32| {
        format!("(call ${call} (i32.const {fd}) (i32.const 16) (i32.const 1) (i32.const 32))")
    };
    let said = |call: &str| format!("(call $say {call}) (return (i32.const 0))");
    let body = [
        on('o', &said(open)),
        on('c', &format!("(drop {open}) {}", said(&format!("(call $fd_close {fd})")))),
        on('x', &said("(call $fd_close (i32.const 1))")),
        on('d', &said("(call $fd_close (i32.const 3))")),
        on('r', &format!("{room} {}", said(&transfer("fd_read", 4)))),
        on('w', &format!("{line} {}", said(&transfer("fd_write", 1)))),
        on('n', &said("(global.get $jobs)")),
    ];
    let say = "(func $say (param i32)
      (i32.store8 (i32.const 600) (i32.add (i32.const 48) (local.get 0)))
      (call $log (i32.const 2) (i32.const 600) (i32.const 1)))";
    by_word(&format!("{FILES} {say}"), &body.concat())
}

fn directory(root: &Path) -> Grants {
    fs::write(root.join("a.txt"), "to be read").unwrap();
    let dirs = BTreeMap::from([("/data".to_owned(), root.to_owned())]);
    Grants { dirs, ..Grants::default() }
}

#[tokio::test]
async fn files_and_streams_are_restored_for_the_next_job() {
    let root = tempfile::tempdir().unwrap();
    for mode in ALL {
        let handler = in_mode(&file_user(), mode, directory(root.path()));
        for _ in 0..3 {
            // A file that a job leaves open has descriptor 4, which the next job does not have.
            assert_eq!(run_word(&handler, "o").await.texts(), ["0"], "{mode:?}");
            assert_eq!(run_word(&handler, "r").await.texts(), ["8"], "{mode:?}: EBADF");
            for closes in ["x", "d"] {
                assert_eq!(run_word(&handler, closes).await.texts(), ["0"], "{mode:?}");
                assert_eq!(run_word(&handler, "w").await.texts(), ["a line", "0"], "{mode:?}");
                assert_eq!(run_word(&handler, "c").await.texts(), ["0"], "{mode:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_job_that_closes_its_files_keeps_its_instance_warm() {
    let root = tempfile::tempdir().unwrap();
    let handler = in_mode(&file_user(), WARM, directory(root.path()));
    for (word, number) in [("n", "1"), ("c", "0"), ("r", "8"), ("n", "4")] {
        assert_eq!(run_word(&handler, word).await.texts(), [number], "{word}");
    }
    assert_eq!(run_word(&handler, "o").await.texts(), ["0"]);
    let after = run_word(&handler, "n").await;
    assert_eq!(after.texts(), ["1"], "an instance with an open file runs no further job");
}

const NETWORK: &str = r#"
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "http_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (data (i32.const 2048) "GET HTTP")
  (func $left (param $part i32) (result i32)
    (call $read (local.get $part) (i32.const 4096) (i32.const 0) (i32.const 4096)))"#;

#[tokio::test]
async fn the_response_of_a_job_is_not_visible_to_the_next() {
    let origin = format!("http://{}", web_servers::echo().await);
    let head = format!("GET {origin}/secret\\n");
    let length = head.len() - 1;
    let imports = NETWORK.replace("GET HTTP", &head);
    let send = |length: usize| {
        format!(
            "(drop (call $send (i32.const 2048) (i32.const {length}) (i32.const 0) (i32.const 0) (i32.const 0)))"
        )
    };
    let body = [
        // A valid request leaves a response, an invalid one leaves an error.
        on('s', &format!("{} (return (i32.eqz (call $left (i32.const 1))))", send(length))),
        on('e', &format!("{} (return (i32.eqz (call $left (i32.const 2))))", send(3))),
        on(
            'r',
            "(return (i32.or (call $left (i32.const 0))
               (i32.or (call $left (i32.const 1)) (call $left (i32.const 2)))))",
        ),
    ];
    let wat = by_word(&imports, &body.concat());
    let granted =
        || Grants { http: Some(grant(&[&origin], &["127.0.0.0/8"])), ..Grants::default() };
    let http = client(HttpConfig::default());
    for mode in ALL {
        let handler = in_mode(&wat, mode, granted());
        for word in ["s", "r", "e", "r", "s", "r"] {
            let services =
                HostServices { http: Some(http.clone()), ..HostServices::with_logs(Lines::new()) };
            let job = duebox_sandbox::Invocation { payload: word.into(), ..job() };
            let report = handler.run(job, Interrupt::new(), Arc::new(services)).await;
            assert_eq!(report.outcome, Outcome::Acked, "{mode:?} {word}");
        }
    }
}

const STORE: &str = r#"
  (import "duebox_v1" "kv_get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_set" (func $set (param i32 i32 i32 i32 i64 i32) (result i32)))"#;

#[tokio::test]
async fn revisions_seen_by_a_job_do_not_affect_the_next() {
    let look = "(call $get (i32.const 512) (i32.const 5) (i32.const 64) (i32.const 64))";
    let write = |mode: u32| {
        format!(
            "(call $set (i32.const 512) (i32.const 5) (i32.const 528) (i32.const 6) (i64.const 0) (i32.const {mode}))"
        )
    };
    let body = [
        on('s', &format!("(return {})", write(0))),
        on('l', &format!("(return (i32.ne {look} (i32.const 6)))")),
        // Written only if unchanged since it was read, and this job has not read it.
        on('u', &format!("(return (i32.ne {} (i32.const -7)))", write(2))),
        on('b', &format!("(drop {look}) (return {})", write(2))),
    ];
    let wat = by_word(STORE, &body.concat());
    for mode in ALL {
        let handler = in_mode(&wat, mode, Grants { kv: true, ..Grants::default() });
        let kv: Arc<MemoryKv> = Arc::default();
        for word in ["s", "l", "u", "b", "u", "l", "u"] {
            let job = duebox_sandbox::Invocation { payload: word.into(), ..job() };
            let ran = crate::support::run_on(&handler, job, Some(kv.clone())).await;
            assert_eq!(ran.report.outcome, Outcome::Acked, "{mode:?} {word}");
        }
        let another = TopicName::new("order.other").unwrap();
        assert_eq!(kv.get(&another, b"a.txt").await, Ok(None), "another topic's store");
    }
}

/// By its letter, it fills (f), grows (g) or checks (l) its table.
fn table_user() -> String {
    let table = r#"(table $table 4 9 funcref) (elem (i32.const 0) func $own) (elem declare func $some)
      (func $own) (func $some)"#;
    let body = [
        on(
            'f',
            "(table.fill $table (i32.const 0) (ref.func $some) (i32.const 4)) (return (i32.const 0))",
        ),
        on(
            'g',
            "(return (i32.ne (table.grow $table (ref.func $some) (i32.const 5)) (i32.const 4)))",
        ),
        on(
            'l',
            "(return (i32.or (i32.ne (table.size $table) (i32.const 4))
               (i32.eqz (ref.is_null (table.get $table (i32.const 3))))))",
        ),
    ];
    by_word(table, &body.concat())
}

#[tokio::test]
async fn tables_are_in_their_initial_state_unless_the_instance_is_warm() {
    let (one, other) = (table_user(), table_user().replace("a line", "b line"));
    let handlers = [&one, &other].map(|wat| in_mode(wat, FRESH, Grants::default()));
    for _ in 0..40 {
        // More runs than there are slots, two modules in turn: each slot was used by both.
        for handler in &handlers {
            for word in ["f", "l", "g", "l"] {
                assert_eq!(run_word(handler, word).await.answer(), 0, "{word}");
            }
        }
    }
    let warm = in_mode(&one, WARM, Grants::default());
    let mut answers = Vec::new();
    for word in ["l", "f", "l"] {
        answers.push(run_word(&warm, word).await.answer());
    }
    assert_eq!(answers, [0, 0, 1], "a warm instance keeps its tables, as its memory");
    let limits = Limits { instances: SNAPSHOT, ..Limits::default() };
    let refused = sandbox().load(one.as_bytes(), limits, Grants::default());
    assert!(matches!(refused, Err(LoadError::Snapshot(_))), "{refused:?}");
}
