//! Instances that are reset between jobs, to a snapshot or to what the module's file says: each job finds the state of a
//! new instance.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use bytes::Bytes;
use duebox_job::Outcome;
use duebox_sandbox::{Grants, Handler, Instances, Limits, Sandbox, SandboxConfig};

use crate::support::{TestRun, job, load_with, run};

const FRESH: Instances = Instances { snapshot: false, jobs_each: 1 };
const SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 1 };

/// Logs a checksum of its memory and its globals. Then it writes to the addresses in its payload, 4 bytes each.
/// `_initialize` writes to every fourth page of 4 KiB, and to one that is far from the others.
const CHECKSUM: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 40)
  (global $a (mut i32) (i32.const 1)) (global $b (mut i64) (i64.const 2))
  (global $still i32 (i32.const 77))
  (global $c (mut f32) (f32.const 3)) (global $d (mut f64) (f64.const 4))
  (global $e (mut v128) (v128.const i64x2 5 6))
  (data (i32.const 100000) "data of the module")
  (func (export "_initialize")
    (local $at i32)
    (loop $next
      (i32.store8 offset=5 (local.get $at) (i32.add (i32.const 1) (i32.shr_u (local.get $at) (i32.const 14))))
      (local.set $at (i32.add (local.get $at) (i32.const 16384)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 1000000))))
    (i32.store (i32.const 2000004) (i32.const 9))
    (global.set $b (i64.const 22)))
  (func $sum (result i64)
    (local $at i32) (local $sum i64)
    (local.set $sum
      (i64.add (i64.extend_i32_u (i32.add (global.get $a) (global.get $still)))
        (i64.add (global.get $b)
          (i64.add (i64.extend_i32_u (i32.reinterpret_f32 (global.get $c)))
            (i64.add (i64.reinterpret_f64 (global.get $d))
              (i64.add (i64x2.extract_lane 0 (global.get $e)) (i64x2.extract_lane 1 (global.get $e))))))))
    (loop $next
      (local.set $sum (i64.add (i64.load (local.get $at)) (i64.mul (local.get $sum) (i64.const 0x100000001b3))))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 2621440))))
    (local.get $sum))
  (func (export "handle") (param $len i32) (result i32)
    (local $sum i64) (local $at i32)
    (local.set $sum (call $sum))
    (loop $next
      (i32.store8 offset=2600000 (local.get $at) (i32.add (i32.const 97) (i32.wrap_i64 (i64.and (local.get $sum) (i64.const 15)))))
      (local.set $sum (i64.shr_u (local.get $sum) (i64.const 4)))
      (br_if $next (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1))) (i32.const 16))))
    (call $log (i32.const 2) (i32.const 2600000) (i32.const 16))
    (global.set $a (local.get $len)) (global.set $b (i64.const -1))
    (global.set $c (f32.const nan:0x200001)) (global.set $d (f64.const -0))
    (global.set $e (v128.const i64x2 -1 -2))
    (drop (call $read (i32.const 2601024) (i32.const 0) (local.get $len)))
    (local.set $at (i32.const 0))
    (loop $next
      (i32.store8
        (i32.rem_u (i32.load offset=2601024 (local.get $at)) (i32.const 2600000))
        (i32.const 0xa5))
      (local.set $at (i32.add (local.get $at) (i32.const 4)))
      (br_if $next (i32.lt_u (local.get $at) (local.get $len))))
    (i32.const 0)))"#;

fn in_mode(wat: &str, instances: Instances) -> Handler {
    load_with(wat, Limits { instances, ..Limits::default() }, Grants::default())
}

async fn after(handler: &Handler, payload: Vec<u8>) -> TestRun {
    let mut next = job();
    next.payload = Bytes::from(payload);
    let ran = run(handler, next).await;
    assert_eq!(ran.report.outcome, Outcome::Acked);
    ran
}

#[tokio::test]
async fn every_byte_and_every_global_is_reset() {
    for (wat, mode) in [
        (CHECKSUM, SNAPSHOT),
        (&without_initialize(CHECKSUM), FRESH),
        (&with_start_function(CHECKSUM), FRESH),
    ] {
        // The first job of a handler has a new instance.
        let wanted = after(&in_mode(wat, FRESH), vec![0; 4]).await.texts().join("");
        finds_this_in_each_job(&in_mode(wat, mode), &wanted).await;
    }
}

/// The module with a function of another name in the place of `_initialize`, so that nothing runs before a job.
fn without_initialize(wat: &str) -> String {
    wat.replace(r#"(export "_initialize")"#, "$initialize")
}

/// The module with a start function in the place of `_initialize`.
fn with_start_function(wat: &str) -> String {
    let written = without_initialize(wat);
    written.replace("(func $initialize", "(start $initialize) (func $initialize")
}

async fn finds_this_in_each_job(handler: &Handler, wanted: &str) {
    let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 0..200 {
        // From one page to more than a reset restores.
        let addresses = [1, 3, 40, 200, 600][round % 5];
        let mut payload = Vec::new();
        for _ in 0..addresses {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            payload.extend_from_slice(&chance.to_le_bytes()[4..]);
        }
        let said = after(handler, payload).await.texts().join("");
        assert_eq!(said, wanted, "round {round}");
    }
}

/// Acks. Its memory is larger than what a reset restores, and it touches one page of it.
const SMALL: &str = r#"(module
  (memory (export "memory") 100)
  (func (export "_initialize") (i32.store (i32.const 0) (i32.const 1)))
  (func (export "handle") (param i32) (result i32)
    (i32.store8 (i32.const 5000000) (i32.const 1))
    (i32.const 0)))"#;

#[tokio::test]
async fn a_reset_instance_is_kept_and_one_that_grew_or_failed_is_dropped() {
    let config = SandboxConfig { max_jobs: 4, memory_max: 64 << 20, tables_max: 1_000 };
    let sandbox = Sandbox::new(&config).unwrap();
    if !reports_pages() {
        return;
    }
    let load = |wat: &str| {
        let limits = Limits { instances: SNAPSHOT, ..Limits::default() };
        sandbox.load(wat.as_bytes(), limits, Grants::default()).unwrap()
    };
    let memory = 100 * 65_536;
    let handler = load(SMALL);
    for _ in 0..3 {
        assert_eq!(run(&handler, job()).await.answer(), 0);
        assert_eq!(sandbox.memory_held(), memory, "one instance serves all jobs");
    }
    let grows = load(
        &SMALL.replace("(i32.const 0)))", "(drop (memory.grow (i32.const 1))) (i32.const 0)))"),
    );
    let fails = load(&SMALL.replace("(i32.const 0)))", "(unreachable)))"));
    let fills = load(&SMALL.replace(
        "(i32.const 0)))",
        "(memory.fill (i32.const 0) (i32.const 1) (i32.const 2000000)) (i32.const 0)))",
    ));
    for other in [&grows, &fails, &fills] {
        drop(run(other, job()).await);
        assert_eq!(sandbox.memory_held(), memory, "only the first instance is kept");
    }
    drop(handler);
    assert_eq!(sandbox.memory_held(), 0);
}

/// Thousands of topics have as many modules, and a process has not as many descriptors.
#[test]
fn modules_do_not_open_the_map_of_pages_each() {
    let modules: Vec<Handler> =
        (0..40).map(|_| in_mode(&without_initialize(SMALL), FRESH)).collect();
    let leads_to_map = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target.ends_with("pagemap"))
    };
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") else { return };
    let maps = descriptors.flatten().filter(|entry| leads_to_map(entry)).count();
    assert!(maps < modules.len() / 2, "{maps} maps for {} modules", modules.len());
}

#[tokio::test]
async fn a_new_instance_is_made_for_each_job_where_a_reset_may_not_restore_all() {
    let config = SandboxConfig { max_jobs: 4, memory_max: 64 << 20, tables_max: 1_000 };
    let sandbox = Sandbox::new(&config).unwrap();
    let written = without_initialize(SMALL);
    let in_place_of_ack = |code: &str| written.replace("(i32.const 0)))", code);
    let table = r#"(table 1 funcref) (func (export "handle")"#;
    let with_table = in_place_of_ack("(table.set (i32.const 0) (ref.null func)) (i32.const 0)))");
    let data = r#"(data $passive "once") (func (export "handle")"#;
    let with_data = in_place_of_ack("(data.drop $passive) (i32.const 0)))");
    let starts = with_start_function(SMALL);
    let in_start = |code: &str| starts.replace("(i32.store (i32.const 0)", code);
    let random = r#"(module (import "duebox_v1" "random" (func $random (param i32 i32)))"#;
    let draws = in_start("(call $random (i32.const 8) (i32.const 8)) (i32.store (i32.const 0)");
    let grows = in_start("(drop (memory.grow (i32.const 900))) (i32.store (i32.const 0)");
    let fills = in_start("(i32.store (i32.const 4000000) (i32.const 1)) (i32.store (i32.const 0)");
    let unlimited = Limits { instances: FRESH, ..Limits::default() };
    let with_fuel = Limits { fuel: NonZeroU64::new(1_000_000), ..unlimited.clone() };
    let with_little = Limits { memory: 900 * 65_536, ..unlimited.clone() };
    for (wat, limits, kept) in [
        (written.clone(), &unlimited, 100),
        (written.clone(), &with_fuel, 100),
        (SMALL.to_owned(), &unlimited, 0),
        (starts.clone(), &unlimited, 100),
        (starts.clone(), &with_fuel, 0),
        (draws.replace("(module", random), &unlimited, 0),
        (grows.clone(), &unlimited, 1_000),
        (grows, &with_little, 0),
        (fills, &unlimited, 0),
        (with_table.replace(r#"(func (export "handle")"#, table), &unlimited, 0),
        (with_data.replace(r#"(func (export "handle")"#, data), &unlimited, 0),
    ] {
        let handler = sandbox.load(wat.as_bytes(), limits.clone(), Grants::default()).unwrap();
        assert_eq!(run(&handler, job()).await.answer(), 0, "{wat}");
        if reports_pages() {
            assert_eq!(sandbox.memory_held(), kept * 65_536, "{wat}");
        }
        drop(handler);
    }
}

/// Whether the kernel reports written pages: since 6.7.
fn reports_pages() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split('.').map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(7))
}

#[tokio::test]
async fn idle_instances_are_dropped_when_memory_is_short() {
    let config = SandboxConfig { max_jobs: 4, memory_max: 64 << 20, tables_max: 1_000 };
    let sandbox = Sandbox::new(&config).unwrap();
    sandbox.limit_memory(120 * 65_536);
    let load = |wat: &str| {
        let limits = Limits { instances: SNAPSHOT, ..Limits::default() };
        sandbox.load(wat.as_bytes(), limits, Grants::default()).unwrap()
    };
    let kept = load(SMALL);
    let grows = r#"(module (memory (export "memory") 1)
      (func (export "handle") (param i32) (result i32)
        (i32.eq (memory.grow (i32.const 100)) (i32.const -1))))"#;
    let grows = load(grows);
    for _ in 0..3 {
        assert_eq!(run(&kept, job()).await.answer(), 0);
        assert_eq!(run(&grows, job()).await.answer(), 0, "it gets the memory of idle instances");
    }
}

/// Opens a file, leaves it open, and logs its descriptor.
const OPENS: &str = r#"(module
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "file")
  (func (export "_initialize") (i32.store (i32.const 100) (i32.const 1)))
  (func (export "handle") (param i32) (result i32)
    (local $errno i32)
    (local.set $errno (call $open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 4)
      (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 0)))
    (i32.store (i32.const 0) (i32.add (i32.const 48) (i32.load (i32.const 0))))
    (call $log (i32.const 2) (i32.const 0) (i32.const 1))
    (local.get $errno)))"#;

#[tokio::test]
async fn files_that_a_job_left_open_are_closed_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "text").unwrap();
    let dirs = BTreeMap::from([("/data".to_owned(), folder.path().to_owned())]);
    let grants = Grants { dirs, ..Grants::default() };
    let handler = load_with(OPENS, Limits { instances: SNAPSHOT, ..Limits::default() }, grants);
    for _ in 0..5 {
        let ran = run(&handler, job()).await;
        assert_eq!((ran.answer(), ran.texts()), (0, vec!["4"]));
    }
}
