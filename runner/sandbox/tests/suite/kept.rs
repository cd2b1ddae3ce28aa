//! What the host keeps for an instance beside its memory: open files and streams, what came of a request,
//! what the job saw of its store, tables. None of it reaches the next job, in any mode; where an instance
//! is warm, only what stands in its own memory, globals and tables does.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use duebox_job::{Outcome, TopicName};
use duebox_sandbox::{
    Grants, Handler, HttpConfig, Instances, Interrupt, KeyValue, Limits, LoadError, MemoryKv, World,
};

use crate::asker::{client, grant};
use crate::kit::{Lines, Ran, job, load_with, run, sandbox};
use crate::web;

const FRESH: Instances = Instances { snapshot: false, jobs_each: 1 };
const SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 1 };
const WARM: Instances = Instances { snapshot: false, jobs_each: 1_000 };
const WARM_SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 1_000 };
const ALL: [Instances; 4] = [FRESH, SNAPSHOT, WARM, WARM_SNAPSHOT];

fn in_mode(wat: &str, instances: Instances, grants: Grants) -> Handler {
    load_with(wat, Limits { instances, ..Limits::default() }, grants)
}

/// Runs the handler on a job whose payload is this word.
async fn told(handler: &Handler, word: &'static str) -> Ran {
    run(handler, duebox_sandbox::Invocation { payload: word.into(), ..job() }).await
}

/// A module that reads the first letter of its payload into `$mood`, then does this. What `_initialize`
/// leaves is there for a snapshot.
fn moody(imports: &str, body: &str) -> String {
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
    (local $mood i32)
    (global.set $jobs (i32.add (global.get $jobs) (i32.const 1)))
    (drop (call $payload_read (i32.const 0) (i32.const 0) (i32.const 1)))
    (local.set $mood (i32.load8_u (i32.const 0)))
    {body}
    (i32.const 9)))"#
    )
}

/// `(if …)` the mood is this letter.
fn on(letter: char, then: &str) -> String {
    format!("(if (i32.eq (local.get $mood) (i32.const {})) (then {then}))\n", u32::from(letter))
}

const FILES: &str = r#"
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))"#;

/// Opens and leaves open, opens and closes, closes its output or its directory, reads descriptor 4, writes a
/// line, counts the jobs of its instance: by the letters o, c, x, d, r, w and n. Acks and says what came of it,
/// the error of WASI in one digit.
fn filer() -> String {
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
    moody(&format!("{FILES} {say}"), &body.concat())
}

fn directory(root: &Path) -> Grants {
    fs::write(root.join("a.txt"), "to be read").unwrap();
    let dirs = BTreeMap::from([("/data".to_owned(), root.to_owned())]);
    Grants { dirs, ..Grants::default() }
}

#[tokio::test]
async fn no_file_or_stream_that_one_job_opened_or_closed_is_so_for_the_next() {
    let root = tempfile::tempdir().unwrap();
    for mode in ALL {
        let handler = in_mode(&filer(), mode, directory(root.path()));
        for _ in 0..3 {
            // What a job opens and leaves open has the number 4, and there is none of that number after.
            assert_eq!(told(&handler, "o").await.said(), ["0"], "{mode:?}");
            assert_eq!(told(&handler, "r").await.said(), ["8"], "{mode:?}: EBADF");
            for closes in ["x", "d"] {
                assert_eq!(told(&handler, closes).await.said(), ["0"], "{mode:?}");
                assert_eq!(told(&handler, "w").await.said(), ["a line", "0"], "{mode:?}");
                assert_eq!(told(&handler, "c").await.said(), ["0"], "{mode:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_job_that_closes_what_it_opened_keeps_its_instance_warm() {
    let root = tempfile::tempdir().unwrap();
    let handler = in_mode(&filer(), WARM, directory(root.path()));
    for (word, number) in [("n", "1"), ("c", "0"), ("r", "8"), ("n", "4")] {
        assert_eq!(told(&handler, word).await.said(), [number], "{word}");
    }
    assert_eq!(told(&handler, "o").await.said(), ["0"]);
    let after = told(&handler, "n").await;
    assert_eq!(after.said(), ["1"], "what left a file open ran no further job");
}

const NETWORK: &str = r#"
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "http_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (data (i32.const 2048) "GET HTTP")
  (func $left (param $part i32) (result i32)
    (call $read (local.get $part) (i32.const 4096) (i32.const 0) (i32.const 4096)))"#;

#[tokio::test]
async fn what_came_of_a_request_is_gone_with_its_job() {
    let origin = format!("http://{}", web::echo().await);
    let head = format!("GET {origin}/secret\\n");
    let length = head.len() - 1;
    let imports = NETWORK.replace("GET HTTP", &head);
    let send = |length: usize| {
        format!(
            "(drop (call $send (i32.const 2048) (i32.const {length}) (i32.const 0) (i32.const 0) (i32.const 0)))"
        )
    };
    let body = [
        // A request that is answered, and one that is none: a response is left, or an error.
        on('s', &format!("{} (return (i32.eqz (call $left (i32.const 1))))", send(length))),
        on('e', &format!("{} (return (i32.eqz (call $left (i32.const 2))))", send(3))),
        on(
            'r',
            "(return (i32.or (call $left (i32.const 0))
               (i32.or (call $left (i32.const 1)) (call $left (i32.const 2)))))",
        ),
    ];
    let wat = moody(&imports, &body.concat());
    let granted =
        || Grants { http: Some(grant(&[&origin], &["127.0.0.0/8"])), ..Grants::default() };
    let http = client(HttpConfig::default());
    for mode in ALL {
        let handler = in_mode(&wat, mode, granted());
        for word in ["s", "r", "e", "r", "s", "r"] {
            let world = World { http: Some(http.clone()), ..World::of(Lines::new()) };
            let job = duebox_sandbox::Invocation { payload: word.into(), ..job() };
            let report = handler.run(job, Interrupt::new(), Arc::new(world)).await;
            assert_eq!(report.outcome, Outcome::Acked, "{mode:?} {word}");
        }
    }
}

const STORE: &str = r#"
  (import "duebox_v1" "kv_get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_set" (func $set (param i32 i32 i32 i32 i64 i32) (result i32)))"#;

#[tokio::test]
async fn what_a_job_saw_of_its_store_is_no_others_condition() {
    let look = "(call $get (i32.const 512) (i32.const 5) (i32.const 64) (i32.const 64))";
    let write = |mode: u32| {
        format!(
            "(call $set (i32.const 512) (i32.const 5) (i32.const 528) (i32.const 6) (i64.const 0) (i32.const {mode}))"
        )
    };
    let body = [
        on('s', &format!("(return {})", write(0))),
        on('l', &format!("(return (i32.ne {look} (i32.const 6)))")),
        // Written only if unchanged since it was seen, and this job has not looked.
        on('u', &format!("(return (i32.ne {} (i32.const -7)))", write(2))),
        on('b', &format!("(drop {look}) (return {})", write(2))),
    ];
    let wat = moody(STORE, &body.concat());
    for mode in ALL {
        let handler = in_mode(&wat, mode, Grants { kv: true, ..Grants::default() });
        let kv: Arc<MemoryKv> = Arc::default();
        for word in ["s", "l", "u", "b", "u", "l", "u"] {
            let job = duebox_sandbox::Invocation { payload: word.into(), ..job() };
            let ran = crate::kit::run_on(&handler, job, Some(kv.clone())).await;
            assert_eq!(ran.report.outcome, Outcome::Acked, "{mode:?} {word}");
        }
        let another = TopicName::new("order.other").unwrap();
        assert_eq!(kv.get(&another, b"a.txt").await, Ok(None), "another topic's store");
    }
}

/// Fills, overwrites or grows its table, or looks at it: by the letters f, g and l.
fn tabled() -> String {
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
    moody(table, &body.concat())
}

#[tokio::test]
async fn a_table_is_as_it_was_made_unless_the_instance_is_warm() {
    let (one, other) = (tabled(), tabled().replace("a line", "b line"));
    let handlers = [&one, &other].map(|wat| in_mode(wat, FRESH, Grants::default()));
    for _ in 0..40 {
        // More runs than there are slots, two modules by turns: each slot has been the other's.
        for handler in &handlers {
            for word in ["f", "l", "g", "l"] {
                assert_eq!(told(handler, word).await.answer(), 0, "{word}");
            }
        }
    }
    let warm = in_mode(&one, WARM, Grants::default());
    let mut answers = Vec::new();
    for word in ["l", "f", "l"] {
        answers.push(told(&warm, word).await.answer());
    }
    assert_eq!(answers, [0, 0, 1], "what a warm instance gives away, as with its memory");
    let limits = Limits { instances: SNAPSHOT, ..Limits::default() };
    let refused = sandbox().load(one.as_bytes(), limits, Grants::default());
    assert!(matches!(refused, Err(LoadError::Snapshot(_))), "{refused:?}");
}
