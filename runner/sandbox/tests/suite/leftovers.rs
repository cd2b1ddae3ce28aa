//! Searches for data of another job: in every byte of memory, of the same topic and of another, and in the
//! host state of a warm instance.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{Failure, FailureClass, Outcome};
use duebox_sandbox::{Grants, Handler, Instances, Limits};

use crate::support::{TestRun, job, load_with, run};

const FRESH: Instances = Instances { snapshot: false, jobs_each: 1 };
const SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 1 };
const WARM: Instances = Instances { snapshot: false, jobs_each: 1_000 };

fn in_mode(wat: &str, instances: Instances) -> Handler {
    let grants = Grants { push: Some(vec!["granted.*".to_owned()]), ..Grants::default() };
    load_with(wat, Limits { instances, ..Limits::default() }, grants)
}

/// Checks that every word of its initial and grown memory is zero, except what `_initialize` wrote. Then it
/// writes a secret into each, and ends.
fn memory_searcher(pages: u32, grows_by: u32, end: &str) -> String {
    format!(
        r#"(module
  (memory (export "memory") {pages})
  (global $left (mut i64) (i64.const 0))
  (data (i32.const 8) "of the module itself")
  (func (export "_initialize")
    (i64.store (i32.const 64) (i64.const 7))
    (i64.store (i32.const 4096) (i64.const 7)))
  (func $blank (param $at i32)
    (i64.store (local.get $at) (i64.const 0)))
  (func (export "handle") (param i32) (result i32)
    (local $at i32) (local $end i32)
    (if (i64.ne (i64.load (i32.const 64)) (i64.const 7)) (then (return (i32.const 3))))
    (if (i64.ne (i64.load (i32.const 4096)) (i64.const 7)) (then (return (i32.const 4))))
    (if (i64.ne (global.get $left) (i64.const 0)) (then (return (i32.const 5))))
    (if (i32.ne (memory.size) (i32.const {pages})) (then (return (i32.const 6))))
    (if (i32.eq (memory.grow (i32.const {grows_by})) (i32.const -1)) (then (return (i32.const 7))))
    (call $blank (i32.const 64))
    (call $blank (i32.const 4096))
    (memory.fill (i32.const 8) (i32.const 0) (i32.const 20))
    (local.set $end (i32.mul (memory.size) (i32.const 65536)))
    (loop $next
      (if (i64.ne (i64.load (local.get $at)) (i64.const 0)) (then (return (i32.const 8))))
      (i64.store (local.get $at) (i64.const 0x5ec7e75ec7e75ec7))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (local.get $end))))
    (global.set $left (i64.const 0x5ec7e7))
    {end}))"#
    )
}

#[tokio::test]
async fn no_byte_of_memory_reaches_the_next_job_of_any_topic() {
    // One page; as much as a reset restores; more than a slot zeroes in place. A memory that has grown is not
    // reset.
    for mode in [FRESH, SNAPSHOT] {
        let handlers: Vec<Handler> = [(1, 1), (1, 0), (8, 8), (15, 0), (100, 100), (100, 0)]
            .into_iter()
            .flat_map(|(pages, grows_by)| {
                ["(i32.const 0)", "(unreachable)"].map(|end| memory_searcher(pages, grows_by, end))
            })
            .map(|text| in_mode(&text, mode))
            .collect();
        for round in 0..12 {
            for (number, handler) in handlers.iter().enumerate() {
                let ran = run(handler, job()).await;
                let is_blank = match (&ran.report.outcome, number % 2) {
                    (Outcome::Acked, 0) => true,
                    (Outcome::Failed(Failure { class, .. }), 1) => *class == FailureClass::Trap,
                    _ => false,
                };
                assert!(is_blank, "{mode:?}, round {round}, module {number}: {:?}", ran.report);
            }
        }
    }
}

/// Acts on the first byte of the payload, and logs everything that it can read of its job.
const HOST_STATE_USER: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "meta_read" (func $meta (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (import "duebox_v1" "retry_after" (func $retry_after (param i64)))
  (import "duebox_v1" "snooze" (func $snooze (param i64)))
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "secret")
  (data (i32.const 32) "topic: granted.x\n")
  (func (export "_initialize"))
  (func $tell (param $length i32)
    (call $log (i32.const 2) (i32.const 1024) (local.get $length)))
  (func (export "handle") (param i32) (result i32)
    (local $word i32)
    (memory.fill (i32.const 1024) (i32.const 0) (i32.const 8192))
    (call $tell (call $read (i32.const 1024) (i32.const 0) (i32.const 4096)))
    (local.set $word (i32.load8_u (i32.const 1024)))
    (call $tell (call $meta (i32.const 7) (i32.const 1024) (i32.const 4096)))
    (call $tell (call $meta (i32.const 1) (i32.const 1024) (i32.const 4096)))
    (if (i32.eq (local.get $word) (i32.const 115)) (then
      (drop (call $result (i32.const 16) (i32.const 6)))
      (call $reason (i32.const 16) (i32.const 6))
      (call $retry_after (i64.const 5000))
      (call $snooze (i64.const 5000))
      (drop (call $push (i32.const 32) (i32.const 17) (i32.const 16) (i32.const 6)))
      (i32.store (i32.const 0) (i32.const 16))
      (i32.store (i32.const 4) (i32.const 6))
      (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))
    (i32.eq (local.get $word) (i32.const 110))))"#;

async fn talk(handler: &Handler, payload: &'static str) -> TestRun {
    let mut next = job();
    next.payload = Bytes::from_static(payload.as_bytes());
    if payload.starts_with('s') {
        next.headers = BTreeMap::from([("token".to_owned(), "hidden".to_owned())]);
    } else {
        next.headers = BTreeMap::new();
    }
    run(handler, next).await
}

#[tokio::test]
async fn no_host_state_of_a_job_reaches_the_next_in_any_mode() {
    for mode in [FRESH, SNAPSHOT, WARM, Instances { snapshot: true, ..WARM }] {
        let handler = in_mode(HOST_STATE_USER, mode);
        for _ in 0..5 {
            let spoke = talk(&handler, "s, and a long payload that is a secret").await;
            assert_eq!(spoke.report.outcome, Outcome::Acked, "{mode:?}");
            assert_eq!(spoke.report.result.as_deref(), Some(&b"secret"[..]));
            assert_eq!(spoke.report.follow_ups.len(), 1);
            assert_eq!(
                spoke.texts().last(),
                Some(&"secret"),
                "the unfinished line belongs to its job"
            );
            let silent = talk(&handler, "q").await;
            assert_eq!(silent.report.outcome, Outcome::Acked);
            assert_eq!((silent.report.result.as_ref(), silent.report.follow_ups.len()), (None, 0));
            assert_eq!(silent.texts(), ["q", "", "job-42"], "{mode:?}");
            let spoke = talk(&handler, "s again").await;
            assert_eq!(spoke.report.outcome, Outcome::Acked);
            let refused = talk(&handler, "n").await;
            let Outcome::Failed(Failure { class, reason, retry_after }) = &refused.report.outcome
            else {
                panic!("{mode:?}: it was put off by the wish of another job: {:?}", refused.report)
            };
            assert_eq!((*class, *retry_after), (FailureClass::Nack, None::<Duration>));
            assert!(!reason.contains("secret"), "{mode:?}: {reason}");
            let tail = refused.report.log_tail.join("\n");
            assert!(!tail.contains("secret") && !tail.contains("hidden"), "{mode:?}: {tail}");
        }
    }
}
