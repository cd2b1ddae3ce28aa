//! Both signatures of `handle`, the verdicts, and their reasons.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FailureClass, Outcome};

use crate::support::{job, load, run, run_probe};

#[tokio::test]
async fn zero_acks_one_nacks_two_drops() {
    assert_eq!(run_probe("(i32.const 0)").await.report.outcome, Outcome::Acked);
    assert_eq!(run_probe("(i32.const 1)").await.class(), (FailureClass::Nack, ""));
    assert_eq!(run_probe("(i32.const 2)").await.class(), (FailureClass::Drop, ""));
}

#[tokio::test]
async fn any_other_verdict_is_bad_and_reported() {
    for verdict in [3, 7, -1, i32::MIN] {
        let ran = run_probe(&format!("(i32.const {verdict})")).await;
        let (class, reason) = ran.class();
        assert_eq!(class, FailureClass::BadVerdict);
        assert!(reason.contains(&format!("returned {verdict};")), "{reason}");
    }
}

#[tokio::test]
async fn handle_with_one_parameter_gets_the_length() {
    assert_eq!(run_probe("(local.get $len)").await.answer(), 12);
    let mut empty = job();
    empty.payload = Bytes::new();
    let handler = load(&crate::support::probe("(local.get $len)"));
    assert_eq!(run(&handler, empty).await.answer(), 0);
}

/// Nacks with the payload as its reason. `alloc` always returns 70000.
const PUSH: &str = r#"(module
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (memory (export "memory") 2)
  (global $asked (mut i32) (i32.const -1))
  (func (export "alloc") (param i32) (result i32)
    (global.set $asked (local.get 0))
    (i32.const 70000))
  (func (export "handle") (param $ptr i32) (param $len i32) (result i32)
    (call $reason (local.get $ptr) (local.get $len))
    (if (i32.ne (global.get $asked) (local.get $len)) (then (unreachable)))
    (i32.const 1)))"#;

#[tokio::test]
async fn handle_with_two_parameters_gets_the_payload() {
    let handler = load(PUSH);
    let ran = run(&handler, job()).await;
    assert_eq!(ran.class(), (FailureClass::Nack, "{\"order\":42}"));
    let mut empty = job();
    empty.payload = Bytes::new();
    assert_eq!(run(&handler, empty).await.class(), (FailureClass::Nack, ""));
}

#[tokio::test]
async fn a_payload_may_end_with_the_memory_and_one_byte_more_faults() {
    let handler = load(PUSH);
    let mut full = job();
    full.payload = Bytes::from(vec![b'x'; (2 << 16) - 70_000]);
    assert_eq!(run(&handler, full.clone()).await.failure().class, FailureClass::Nack);
    full.payload = Bytes::from(vec![b'x'; (2 << 16) - 70_000 + 1]);
    let ran = run(&handler, full).await;
    let (class, reason) = ran.class();
    assert_eq!(class, FailureClass::Trap);
    assert!(reason.starts_with("alloc: the range of 61073 bytes at 70000"), "{reason}");
}

#[tokio::test]
async fn with_an_empty_payload_the_pointer_of_alloc_is_ignored() {
    let handler = load(
        r#"(module
          (memory (export "memory") 0)
          (func (export "alloc") (param i32) (result i32) (i32.const -1))
          (func (export "handle") (param i32 i32) (result i32) (local.get 1)))"#,
    );
    let mut empty = job();
    empty.payload = Bytes::new();
    assert_eq!(run(&handler, empty).await.answer(), 0);
}

#[tokio::test]
async fn the_last_reason_is_kept_with_a_nack_and_a_drop() {
    for (verdict, class) in [(1, FailureClass::Nack), (2, FailureClass::Drop)] {
        let ran = run_probe(&format!(
            "(call $reason (i32.const 320) (i32.const 8))
             (call $reason (i32.const 336) (i32.const 7))
             (i32.const {verdict})"
        ))
        .await;
        assert_eq!(ran.class(), (class, "another"));
    }
}

#[tokio::test]
async fn a_reason_survives_a_trap() {
    let ran = run_probe("(call $reason (i32.const 320) (i32.const 8)) (unreachable)").await;
    assert_eq!(ran.class(), (FailureClass::Trap, "a reason"));
}

#[tokio::test]
async fn a_long_reason_is_cut_at_4_kib_between_characters() {
    let ran = run_probe(
        "(memory.fill (i32.const 1024) (i32.const 120) (i32.const 4095))
         (i32.store16 (i32.const 5119) (i32.const 0xa4c3)) ;; ä, from byte 4095 to 4097
         (call $reason (i32.const 1024) (i32.const 60000))
         (i32.const 1)",
    )
    .await;
    assert_eq!(ran.class(), (FailureClass::Nack, "x".repeat(4095).as_str()));
}

#[tokio::test]
async fn invalid_utf_8_in_a_reason_is_replaced() {
    let ran = run_probe("(call $reason (i32.const 352) (i32.const 10)) (i32.const 1)").await;
    assert_eq!(ran.class(), (FailureClass::Nack, "bad \u{fffd} byte"));
}

#[tokio::test]
async fn retry_after_with_a_nack_is_limited() {
    for (asked, kept_ms) in [
        (1_500, 1_500),
        (0, 0),
        (-1, 0),
        (i64::MIN, 0),
        (365 * 86_400_000, 365 * 86_400_000),
        (i64::MAX, 365 * 86_400_000),
    ] {
        let ran =
            run_probe(&format!("(call $retry_after (i64.const {asked})) (i32.const 1)")).await;
        assert_eq!(ran.failure().retry_after, Some(Duration::from_millis(kept_ms)), "{asked}");
    }
    assert_eq!(run_probe("(i32.const 1)").await.failure().retry_after, None);
}

#[tokio::test]
async fn retry_after_has_no_effect_without_a_nack() {
    for end in ["(i32.const 2)", "(i32.const 7)", "(unreachable)"] {
        let ran = run_probe(&format!("(call $retry_after (i64.const 1000)) {end}")).await;
        assert_eq!(ran.failure().retry_after, None, "{end}");
    }
}
