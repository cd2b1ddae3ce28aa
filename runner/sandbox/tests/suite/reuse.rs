//! Instances that start from a snapshot, and instances that run more than one job: what each mode shares
//! between jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use duebox_job::{FailureClass, Outcome, TopicName};
use duebox_sandbox::{Grants, Handler, Instances, Invocation, Limits, LoadError};

use crate::support::{SPINNER, job, load_with, run, sandbox};

const FRESH: Instances = Instances { snapshot: false, jobs_each: 1 };
const SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 1 };
const WARM: Instances = Instances { snapshot: false, jobs_each: 1_000 };
const WARM_SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 1_000 };
const ALL: [Instances; 4] = [FRESH, SNAPSHOT, WARM, WARM_SNAPSHOT];

fn in_mode(wat: &str, instances: Instances) -> Handler {
    load_with(wat, Limits { instances, ..Limits::default() }, Grants::default())
}

/// Writes a secret to its memory, a global and grown memory. It nacks if it finds one of another job.
const SECRET: &str = r#"(module
  (memory (export "memory") 1 8)
  (global $secret (mut i64) (i64.const 0))
  (global $made (mut i32) (i32.const 0))
  (data (i32.const 64) "made")
  (func (export "_initialize") (global.set $made (i32.const 1)))
  (func (export "handle") (param i32) (result i32)
    (local $found i32)
    (if (i32.eqz (global.get $made)) (then (unreachable)))
    (local.set $found
      (i32.or (i64.ne (global.get $secret) (i64.const 0))
        (i32.or (i64.ne (i64.load (i32.const 1024)) (i64.const 0))
          (i32.ne (memory.size) (i32.const 1)))))
    (global.set $secret (i64.const 0x5ec7e7))
    (i64.store (i32.const 1024) (i64.const 0x5ec7e7))
    (if (i32.eq (memory.size) (i32.const 1)) (then (drop (memory.grow (i32.const 1)))))
    (i64.store (i32.const 70000) (i64.const 0x5ec7e7))
    (local.get $found)))"#;

#[tokio::test]
async fn data_of_one_job_reaches_the_next_only_in_a_warm_instance() {
    for mode in ALL {
        let handler = in_mode(SECRET, mode);
        assert_eq!(run(&handler, job()).await.answer(), 0, "{mode:?}");
        for _ in 0..20 {
            // isolation = "warm" documents this.
            let found = i32::from(mode.jobs_each > 1);
            assert_eq!(run(&handler, job()).await.answer(), found, "{mode:?}");
        }
    }
}

#[tokio::test]
async fn a_warm_instance_serves_one_topic() {
    for mode in [WARM, WARM_SNAPSHOT] {
        let handler = in_mode(SECRET, mode);
        let of = |topic: &str| Invocation { topic: TopicName::new(topic).unwrap(), ..job() };
        for (topic, found) in [("tenant.a", 0), ("tenant.b", 0), ("tenant.a", 1), ("tenant.b", 1)] {
            let answer = run(&handler, of(topic)).await.answer();
            assert_eq!(answer, found, "{topic} in {mode:?}");
        }
    }
}

/// Logs its config value `key`.
const SAYS_CONFIG: &str = r#"(module
  (import "duebox_v1" "config_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "key")
  (func (export "handle") (param i32) (result i32)
    (call $log (i32.const 2) (i32.const 64)
      (call $read (i32.const 0) (i32.const 3) (i32.const 64) (i32.const 64)))
    (i32.const 0)))"#;

#[tokio::test]
async fn a_handler_with_other_config_shares_no_instance() {
    for mode in ALL {
        let config = |value: &str| BTreeMap::from([("key".to_owned(), value.to_owned())]);
        let grants = Grants { config: config("old"), ..Grants::default() };
        let old = load_with(SAYS_CONFIG, Limits { instances: mode, ..Limits::default() }, grants);
        assert_eq!(lines_of(&old, 2).await, ["old", "old"], "{mode:?}");
        let new = old.with_config(config("new"));
        assert_eq!((new.digest(), new.config()), (old.digest(), &config("new")));
        assert_eq!(lines_of(&new, 2).await, ["new", "new"], "{mode:?}");
        assert_eq!(lines_of(&old, 1).await, ["old"], "{mode:?}");
        drop(old);
        assert_eq!(lines_of(&new, 1).await, ["new"], "{mode:?}");
    }
}

/// Acks. It logs how often `_initialize` and `handle` were called.
const COUNTS: &str = r#"(module
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "00")
  (func $bump (param $at i32)
    (i32.store8 (local.get $at) (i32.add (i32.load8_u (local.get $at)) (i32.const 1))))
  (func (export "_initialize") (call $bump (i32.const 0)))
  (func (export "handle") (param i32) (result i32)
    (call $bump (i32.const 1))
    (call $log (i32.const 2) (i32.const 0) (i32.const 2))
    (i32.const 0)))"#;

async fn lines_of(handler: &Handler, jobs: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for _ in 0..jobs {
        let ran = run(handler, job()).await;
        assert_eq!(ran.report.outcome, Outcome::Acked);
        lines.extend(ran.texts().into_iter().map(str::to_owned));
    }
    lines
}

#[tokio::test]
async fn a_warm_instance_is_initialised_once_and_runs_its_number_of_jobs() {
    for mode in [FRESH, SNAPSHOT] {
        assert_eq!(lines_of(&in_mode(COUNTS, mode), 3).await, ["11", "11", "11"], "{mode:?}");
    }
    for snapshot in [false, true] {
        let three = in_mode(COUNTS, Instances { snapshot, jobs_each: 3 });
        assert_eq!(lines_of(&three, 7).await, ["11", "12", "13", "11", "12", "13", "11"]);
    }
}

#[tokio::test]
async fn every_job_of_a_warm_instance_has_its_own_output_and_limits() {
    let limits = Limits { log: 5, instances: WARM, ..Limits::default() };
    let handler = load_with(COUNTS, limits, Grants::default());
    for count in 1..=4 {
        let ran = run(&handler, job()).await;
        assert_eq!(ran.texts(), [format!("1{count}")]);
        assert_eq!((ran.report.host_calls, ran.report.bytes_out), (1, 2));
        assert_eq!(ran.report.log_lines_dropped, 0);
    }
}

/// Acts on the first byte of the payload. It nacks if another job ran in this instance before.
const BY_WORD: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "snooze" (func $snooze (param i64)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "warm")
  (global $used (mut i32) (i32.const 0))
  (func (export "handle") (param i32) (result i32)
    (local $word i32)
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1)))
    (local.set $word (i32.load8_u (i32.const 0)))
    (if (i32.eq (local.get $word) (i32.const 116)) (then (unreachable)))
    (if (i32.eq (local.get $word) (i32.const 120)) (then (call $exit (i32.const 0))))
    (if (i32.eq (local.get $word) (i32.const 108)) (then (loop $again (br $again))))
    (if (i32.eq (local.get $word) (i32.const 118)) (then (return (i32.const 9))))
    (if (i32.eq (local.get $word) (i32.const 103)) (then (drop (memory.grow (i32.const 600)))))
    (if (i32.eq (local.get $word) (i32.const 115))
      (then (call $snooze (i64.const 1)) (return (i32.const 1))))
    (if (global.get $used) (then (call $reason (i32.const 16) (i32.const 4)) (return (i32.const 1))))
    (global.set $used (i32.const 1))
    (i32.const 0)))"#;

#[tokio::test]
async fn an_instance_that_failed_or_grew_is_dropped() {
    let mood = |mood: &'static str| {
        let mut job = job();
        job.payload = mood.into();
        if mood == "l" {
            job.ttr = Duration::from_millis(50);
        }
        job
    };
    let handler = in_mode(BY_WORD, WARM);
    let is_warm = async || run(&handler, mood("-")).await.answer() == 1;
    assert!(!is_warm().await);
    assert!(is_warm().await, "an ack and a nack keep it");
    assert!(matches!(run(&handler, mood("s")).await.report.outcome, Outcome::Snoozed { .. }));
    assert!(is_warm().await, "a snooze keeps it");
    for (bad, class) in [
        ("t", FailureClass::Trap),
        ("x", FailureClass::Exit),
        ("l", FailureClass::Timeout),
        ("v", FailureClass::BadVerdict),
    ] {
        assert_eq!(run(&handler, mood(bad)).await.failure().class, class);
        assert!(!is_warm().await, "after {class}");
        assert!(is_warm().await);
    }
    assert_eq!(run(&handler, mood("g")).await.answer(), 1, "it was warm when it grew");
    assert!(!is_warm().await, "it grew beyond half of its memory");
}

#[tokio::test]
async fn a_dropped_run_drops_its_warm_instance() {
    let handler = in_mode(SPINNER, WARM);
    let mut short = job();
    short.ttr = Duration::from_millis(30);
    for _ in 0..3 {
        let ended = tokio::time::timeout(Duration::from_millis(5), run(&handler, short.clone()));
        drop(ended.await);
        assert_eq!(run(&handler, short.clone()).await.failure().class, FailureClass::Timeout);
    }
}

/// Logs what `_initialize` read: the clock, the environment and random bytes.
const WORLD: &str = r#"(module
  (import "wasi_snapshot_preview1" "clock_time_get" (func $time (param i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (func $hex (param $from i32) (param $to i32) (param $n i32)
    (local $digit i32)
    (loop $next
      (local.set $digit (i32.and (i32.load8_u (local.get $from)) (i32.const 15)))
      (i32.store8 (local.get $to) (i32.add (i32.const 97) (local.get $digit)))
      (local.set $from (i32.add (local.get $from) (i32.const 1)))
      (local.set $to (i32.add (local.get $to) (i32.const 1)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "_initialize")
    (drop (call $time (i32.const 1) (i64.const 0) (i32.const 0)))
    (drop (call $sizes (i32.const 8) (i32.const 12)))
    (drop (call $random (i32.const 16) (i32.const 16))))
  (func (export "handle") (param i32) (result i32)
    (drop (call $time (i32.const 1) (i64.const 0) (i32.const 64)))
    (if (i64.lt_u (i64.load (i32.const 64)) (i64.load (i32.const 0))) (then (return (i32.const 7))))
    (call $hex (i32.const 8) (i32.const 128) (i32.const 24))
    (call $log (i32.const 2) (i32.const 128) (i32.const 24))
    (i32.const 0)))"#;

#[tokio::test]
async fn a_snapshot_freezes_random_numbers_and_environment_and_its_clock_is_monotonic() {
    let env = [("A".to_owned(), "b".to_owned()), ("C".to_owned(), "d".to_owned())];
    let grants = Grants { env: env.into(), ..Grants::default() };
    let with =
        |instances| load_with(WORLD, Limits { instances, ..Limits::default() }, grants.clone());
    let (fresh, snapshot) = (with(FRESH), with(SNAPSHOT));
    let (a, b) = (lines_of(&fresh, 1).await, lines_of(&fresh, 1).await);
    assert_ne!(a, b, "random bytes differ between new instances");
    let (c, d) = (lines_of(&snapshot, 1).await, lines_of(&snapshot, 1).await);
    assert_eq!(c, d, "they are equal for all instances of a snapshot");
    assert_eq!((&a[0][..1], &c[0][..1]), ("c", "c"), "two variables each");
}

fn refusal(wat: &str) -> String {
    let limits = Limits { instances: SNAPSHOT, ..Limits::default() };
    match sandbox().load(wat.as_bytes(), limits, Grants::default()) {
        Err(LoadError::Snapshot(error)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_module_without_a_possible_snapshot_is_refused_with_the_reason() {
    let with = |init: &str, extra: &str| {
        format!(
            r#"(module {extra} (memory (export "memory") 1) (data (i32.const 0) "why")
              (func (export "_initialize") {init})
              (func (export "handle") (param i32) (result i32) (i32.const 0)))"#
        )
    };
    let log = r#"(import "duebox_v1" "log" (func $log (param i32 i32 i32)))"#;
    let say = "(call $log (i32.const 0) (i32.const 0) (i32.const 3)) (unreachable)";
    let why = refusal(&with(say, log));
    assert!(why.contains("unreachable") && why.contains("error: why"), "{why}");
    let why = refusal(&with("(drop (memory.grow (i32.const 9000))) (unreachable)", ""));
    assert!(why.contains("out_of_memory"), "{why}");
    let table = "(table 1 funcref)";
    let why = refusal(&with("(table.set (i32.const 0) (ref.null func))", table));
    assert!(why.contains("table.set"), "{why}");
    let meta = r#"(import "duebox_v1" "meta_int" (func $meta (param i32) (result i64)))"#;
    let why = refusal(&with("(drop (call $meta (i32.const 3)))", meta));
    assert!(why.contains("meta_int"), "{why}");
}

#[tokio::test]
async fn a_module_without_initialize_needs_no_snapshot() {
    let plain = r#"(module (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;
    assert_eq!(run(&in_mode(plain, SNAPSHOT), job()).await.answer(), 0);
}
