//! The imports `kv_*`: their results, the limits of their arguments, and the state that belongs to one job.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FailureClass, Outcome, TopicName};
use duebox_sandbox::{
    Grants, Handler, Instances, KeyValue, KvCondition, KvEntry, KvError, Level, Limits, LoadError,
    MemoryKv,
};
use futures_util::future::{BoxFuture, pending, ready};

use crate::support::{TestRun, job, load_with, run, run_on, sandbox};

const IMPORTS: [(&str, &str); 4] = [
    ("kv_get", "(param i32 i32 i32 i32) (result i32)"),
    ("kv_set", "(param i32 i32 i32 i32 i64 i32) (result i32)"),
    ("kv_delete", "(param i32 i32) (result i32)"),
    ("kv_add", "(param i32 i32 i64 i32) (result i32)"),
];

/// A module with these functions and a memory of two pages, with `abc` at 256 and `41` at 272. `$get`, `$set`,
/// `$delete` and `$add` use the key `abc`.
fn kv_module(rest: &str) -> String {
    let imports: String = IMPORTS
        .iter()
        .map(|(name, ty)| format!("(import \"duebox_v1\" \"{name}\" (func ${name} {ty}))\n"))
        .collect();
    format!(
        r#"(module {imports}
  (memory (export "memory") 2)
  (data (i32.const 256) "abc") (data (i32.const 272) "41")
  (func $get (result i32) (call $kv_get (i32.const 256) (i32.const 3) (i32.const 0) (i32.const 8)))
  (func $set (param $len i32) (param $mode i32) (result i32)
    (call $kv_set (i32.const 256) (i32.const 3) (i32.const 272) (local.get $len) (i64.const 0)
      (local.get $mode)))
  (func $delete (result i32) (call $kv_delete (i32.const 256) (i32.const 3)))
  (func $add (param $delta i64) (result i32)
    (call $kv_add (i32.const 256) (i32.const 3) (local.get $delta) (i32.const 16)))
  {rest})"#
    )
}

/// The same, with this body of `handle`.
fn body(body: &str) -> String {
    kv_module(&format!("(func (export \"handle\") (param i32) (result i32) (local $n i32) {body})"))
}

/// A body that checks each result. It acks if all are as expected, or returns the number of the first other one.
fn checks(calls: &[(&str, i64)]) -> String {
    let check = |(index, (call, wanted)): (usize, &(&str, i64))| {
        let verdict = index + 10;
        format!(
            "(if (i64.ne (i64.extend_i32_s {call}) (i64.const {wanted}))
               (then (return (i32.const {verdict}))))\n"
        )
    };
    let checks: String = calls.iter().enumerate().map(check).collect();
    body(&format!("{checks} (i32.const 0)"))
}

fn granted(wat: &str) -> Handler {
    load_with(wat, Limits::default(), Grants { kv: true, ..Grants::default() })
}

async fn assert_all(calls: &[(&str, i64)]) {
    let ran = run(&granted(&checks(calls)), job()).await;
    let answer = ran.answer();
    let wrong = usize::try_from(answer - 10).ok().and_then(|index| calls.get(index));
    assert_eq!(answer, 0, "{wrong:?}");
}

#[tokio::test]
async fn a_value_can_be_read_until_it_is_deleted() {
    assert_all(&[
        ("(call $get)", -1),
        ("(call $delete)", -1),
        ("(call $set (i32.const 2) (i32.const 0))", 0),
        ("(call $get)", 2),
        ("(i32.load16_u (i32.const 0))", i64::from(u16::from_le_bytes(*b"41"))),
        // It copies what fits, and returns the full length.
        ("(call $kv_get (i32.const 256) (i32.const 3) (i32.const 32) (i32.const 1))", 2),
        ("(i32.load16_u (i32.const 32))", i64::from(b'4')),
        ("(call $kv_get (i32.const 256) (i32.const 3) (i32.const -1) (i32.const 0))", 2),
        // Another key has another value. An empty value is a value.
        ("(call $kv_get (i32.const 256) (i32.const 2) (i32.const 0) (i32.const 8))", -1),
        ("(call $set (i32.const 0) (i32.const 0))", 0),
        ("(call $get)", 0),
        ("(call $delete)", 0),
        ("(call $delete)", -1),
        ("(call $get)", -1),
    ])
    .await;
}

#[tokio::test]
async fn a_false_condition_is_a_conflict() {
    assert_all(&[
        ("(call $set (i32.const 2) (i32.const 2))", -7),
        ("(call $set (i32.const 2) (i32.const 1))", 0),
        ("(call $set (i32.const 1) (i32.const 1))", -7),
        ("(call $set (i32.const 1) (i32.const 2))", -7),
        ("(call $get)", 2),
        ("(call $set (i32.const 1) (i32.const 2))", 0),
        // The job's own write is a change since its kv_get.
        ("(call $set (i32.const 2) (i32.const 2))", -7),
        ("(call $get)", 1),
        ("(call $add (i64.const 1))", 0),
        ("(call $set (i32.const 2) (i32.const 2))", -7),
        ("(call $delete)", 0),
        ("(call $get)", -1),
        ("(call $set (i32.const 2) (i32.const 2))", 0),
        ("(call $set (i32.const 2) (i32.const 2))", -7),
    ])
    .await;
}

#[tokio::test]
async fn kv_add_returns_the_sum_in_eight_bytes() {
    assert_all(&[
        ("(call $add (i64.const -3))", 0),
        ("(i32.wrap_i64 (i64.load (i32.const 16)))", -3),
        ("(call $set (i32.const 2) (i32.const 0))", 0),
        ("(call $add (i64.const 1))", 0),
        ("(i32.wrap_i64 (i64.load (i32.const 16)))", 42),
        ("(call $add (i64.const 9223372036854775807))", -3),
        ("(call $get)", 2),
        ("(i32.load16_u (i32.const 0))", i64::from(u16::from_le_bytes(*b"42"))),
        ("(call $kv_set (i32.const 256) (i32.const 3) (i32.const 256) (i32.const 3) (i64.const 0) (i32.const 0))", 0),
        ("(call $add (i64.const 1))", -3),
    ])
    .await;
}

#[tokio::test]
async fn an_invalid_key_value_ttl_or_mode_is_refused() {
    let set = |key: i64, value: i64, ttl: i64, mode: i64| {
        format!(
            "(call $kv_set (i32.const 0) (i32.const {key}) (i32.const 0) (i32.const {value})
               (i64.const {ttl}) (i32.const {mode}))"
        )
    };
    const TEN_YEARS: i64 = 315_360_000_000;
    let cases = [
        (set(0, 1, 0, 0), -3),
        (set(1, 1, 0, 0), 0),
        (set(256, 1, 0, 0), 0),
        (set(257, 1, 0, 0), -3),
        (set(1, 65_536, 0, 0), 0),
        (set(1, 65_537, 0, 0), -4),
        (set(1, 1, -1, 0), -3),
        (set(1, 1, i64::MIN, 0), -3),
        (set(1, 1, TEN_YEARS, 0), 0),
        (set(1, 1, TEN_YEARS + 1, 0), -3),
        (set(1, 1, i64::MAX, 0), -3),
        (set(1, 1, 0, 3), -3),
        (set(1, 1, 0, -1), -3),
        ("(call $kv_get (i32.const 0) (i32.const 257) (i32.const 0) (i32.const 0))".into(), -3),
        ("(call $kv_get (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))".into(), -3),
        ("(call $kv_delete (i32.const 0) (i32.const 0))".into(), -3),
        ("(call $kv_delete (i32.const 0) (i32.const 131072))".into(), -3),
        ("(call $kv_add (i32.const 0) (i32.const 0) (i64.const 1) (i32.const 0))".into(), -3),
    ];
    let cases: Vec<(&str, i64)> = cases.iter().map(|(call, code)| (call.as_str(), *code)).collect();
    assert_all(&cases).await;
}

#[tokio::test]
async fn a_range_may_end_with_the_memory_and_one_byte_more_faults() {
    let calls = [
        ("kv_get", "(call $kv_get (i32.const P) (i32.const L) (i32.const 0) (i32.const 8))"),
        ("kv_get", "(call $kv_get (i32.const 256) (i32.const 3) (i32.const P) (i32.const L))"),
        (
            "kv_set",
            "(call $kv_set (i32.const P) (i32.const L) (i32.const 0) (i32.const 1) (i64.const 0) (i32.const 0))",
        ),
        (
            "kv_set",
            "(call $kv_set (i32.const 256) (i32.const 3) (i32.const P) (i32.const L) (i64.const 0) (i32.const 0))",
        ),
        ("kv_delete", "(call $kv_delete (i32.const P) (i32.const L))"),
    ];
    let fits = [(131_071, 1), (130_972, 100), (0, 131_072), (131_072, 0), (-1, 0)];
    let faults = [(131_072, 1), (130_973, 100), (0, 131_073), (-1, 1), (16, -1), (-1, -1)];
    for (import, call) in calls {
        let with = |(pointer, length): (i32, i32)| {
            let call = call.replace('P', &pointer.to_string()).replace('L', &length.to_string());
            granted(&body(&format!("(drop {call}) (i32.const 0)")))
        };
        for range in fits {
            assert_eq!(run(&with(range), job()).await.answer(), 0, "{import} {range:?}");
        }
        for range in faults {
            assert_faults(&run(&with(range), job()).await, import);
        }
    }
    let add = |dst: i32| {
        let call = "(call $kv_add (i32.const 256) (i32.const 3) (i64.const 1) (i32.const D))";
        granted(&body(&call.replace('D', &dst.to_string())))
    };
    assert_eq!(run(&add(131_064), job()).await.answer(), 0);
    for dst in [131_065, 131_072, -1, -8] {
        assert_faults(&run(&add(dst), job()).await, "kv_add");
    }
}

fn assert_faults(ran: &TestRun, import: &str) {
    let (class, reason) = ran.class();
    assert_eq!(class, FailureClass::Trap, "{import}: {reason}");
    assert!(reason.starts_with(&format!("{import}: ")), "{import} is not named: {reason}");
}

#[tokio::test]
async fn a_call_that_faults_has_no_effect() {
    let kv: Arc<MemoryKv> = Arc::default();
    let call = "(call $kv_add (i32.const 256) (i32.const 3) (i64.const 1) (i32.const 131068))";
    assert_faults(&run_on(&granted(&body(call)), job(), Some(kv.clone())).await, "kv_add");
    assert_eq!(kv.get(&job().topic, b"abc").await, Ok(None));
}

#[tokio::test]
async fn the_store_does_not_work_before_the_job() {
    for (index, (import, _)) in IMPORTS.iter().enumerate() {
        let call = [
            "(call $get)",
            "(call $set (i32.const 1) (i32.const 0))",
            "(call $delete)",
            "(call $add (i64.const 1))",
        ][index];
        let early = kv_module(&format!(
            "(func (export \"_initialize\") (drop {call}))
             (func (export \"handle\") (param i32) (result i32) (i32.const 0))"
        ));
        let ran = run(&granted(&early), job()).await;
        let (class, reason) = ran.class();
        assert_eq!(class, FailureClass::Trap, "{import}");
        assert!(reason.starts_with(&format!("{import} does not work in a start")), "{reason}");
    }
}

#[test]
fn without_a_grant_the_imports_are_refused_by_name() {
    for (name, ty) in IMPORTS {
        let wat = format!(
            r#"(module (import "duebox_v1" "{name}" (func {ty})) (memory (export "memory") 1)
              (func (export "handle") (param i32) (result i32) (i32.const 0)))"#
        );
        let load = |kv| {
            sandbox().load(wat.as_bytes(), Limits::default(), Grants { kv, ..Grants::default() })
        };
        let refused = load(false).unwrap_err();
        assert!(matches!(refused, LoadError::NotGranted { .. }), "{refused}");
        let text = format!("duebox_v1.{name} is not granted");
        assert!(refused.to_string().contains(&text), "{refused}");
        assert!(refused.remedy().starts_with("set `kv = true` in the topic's sandbox"));
        assert!(load(true).is_ok());
    }
}

#[tokio::test]
async fn the_next_job_finds_the_values_but_not_the_seen_revisions() {
    // The first job reads the value. The second does not, so it cannot write "if unchanged".
    let wat = kv_module(
        "(global $jobs (mut i32) (i32.const 0))
         (func (export \"handle\") (param i32) (result i32)
           (global.set $jobs (i32.add (global.get $jobs) (i32.const 1)))
           (if (i32.eq (global.get $jobs) (i32.const 1)) (then
             (drop (call $set (i32.const 2) (i32.const 0)))
             (return (i32.sub (call $get) (i32.const 2)))))
           (i32.ne (call $set (i32.const 2) (i32.const 2)) (i32.const -7)))",
    );
    let instances = Instances { snapshot: false, jobs_each: 10 };
    let limits = Limits { instances, ..Limits::default() };
    let handler = load_with(&wat, limits, Grants { kv: true, ..Grants::default() });
    let kv: Arc<MemoryKv> = Arc::default();
    for _ in 0..2 {
        let ran = run_on(&handler, job(), Some(kv.clone())).await;
        assert_eq!(ran.report.outcome, Outcome::Acked);
    }
    assert_eq!(kv.get(&job().topic, b"abc").await.unwrap().unwrap().value, "41");
}

#[tokio::test]
async fn without_a_store_calls_are_unavailable() {
    let calls = [
        "(call $get)",
        "(call $set (i32.const 1) (i32.const 0))",
        "(call $delete)",
        "(call $add (i64.const 1))",
    ];
    for call in calls {
        let handler = granted(&body(call));
        assert_eq!(run_on(&handler, job(), None).await.answer(), -6, "{call}");
        let ran = run_on(&handler, job(), Some(Arc::new(FaultyStore::Away))).await;
        assert_eq!(ran.answer(), -6, "{call}");
        let [(Level::Warn, line)] = &ran.lines[..] else { panic!("{:?}", ran.lines) };
        assert!(
            line.starts_with("kv_") && line.ends_with("cannot be reached: no answer"),
            "{line}"
        );
        let mut hasty = job();
        hasty.ttr = Duration::from_millis(50);
        let ran = run_on(&handler, hasty, Some(Arc::new(FaultyStore::Silent))).await;
        assert_eq!(ran.failure().class, FailureClass::Timeout, "{call}");
    }
}

/// A store whose calls all fail.
#[derive(Clone, Copy)]
enum FaultyStore {
    Away,
    Silent,
}

impl FaultyStore {
    fn answer<'a, T: Send + 'a>(self) -> BoxFuture<'a, Result<T, KvError>> {
        match self {
            Self::Away => Box::pin(ready(Err(KvError::Unavailable("no answer".to_owned())))),
            Self::Silent => Box::pin(pending()),
        }
    }
}

impl KeyValue for FaultyStore {
    fn get<'a>(
        &'a self,
        _: &'a TopicName,
        _: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<KvEntry>, KvError>> {
        self.answer()
    }

    fn set<'a>(
        &'a self,
        _: &'a TopicName,
        _: &'a [u8],
        _: Bytes,
        _: Option<Duration>,
        _: KvCondition,
    ) -> BoxFuture<'a, Result<bool, KvError>> {
        self.answer()
    }

    fn delete<'a>(&'a self, _: &'a TopicName, _: &'a [u8]) -> BoxFuture<'a, Result<bool, KvError>> {
        self.answer()
    }

    fn add<'a>(
        &'a self,
        _: &'a TopicName,
        _: &'a [u8],
        _: i64,
    ) -> BoxFuture<'a, Result<i64, KvError>> {
        self.answer()
    }
}
