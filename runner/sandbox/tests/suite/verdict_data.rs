//! What a guest adds to its verdict, and with which verdict it counts: snoozes and results.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FailureClass, Outcome};

use crate::support::{TestRun, run_probe};

fn snooze_of(ran: &TestRun) -> (Duration, &str) {
    match &ran.report.outcome {
        Outcome::Snoozed { delay, reason } => (*delay, reason),
        other => panic!("no snooze: {other:?}"),
    }
}

#[tokio::test]
async fn a_snooze_with_a_nack_is_limited() {
    for (asked, kept_ms) in [
        (1_500, 1_500),
        (0, 0),
        (-1, 0),
        (i64::MIN, 0),
        (365 * 86_400_000, 365 * 86_400_000),
        (365 * 86_400_000 + 1, 365 * 86_400_000),
        (i64::MAX, 365 * 86_400_000),
    ] {
        let ran = run_probe(&format!("(call $snooze (i64.const {asked})) (i32.const 1)")).await;
        assert_eq!(snooze_of(&ran), (Duration::from_millis(kept_ms), ""), "{asked}");
    }
}

#[tokio::test]
async fn the_last_snooze_overrides_retry_after_and_keeps_the_reason() {
    let ran = run_probe(
        "(call $snooze (i64.const 10))
         (call $retry_after (i64.const 20))
         (call $snooze (i64.const 30))
         (call $reason (i32.const 320) (i32.const 8))
         (i32.const 1)",
    )
    .await;
    assert_eq!(snooze_of(&ran), (Duration::from_millis(30), "a reason"));
}

#[tokio::test]
async fn a_snooze_has_no_effect_without_a_nack() {
    let ended =
        async |end: &str| run_probe(&format!("(call $snooze (i64.const 1000)) {end}")).await;
    assert_eq!(ended("(i32.const 0)").await.report.outcome, Outcome::Acked);
    for (end, class) in [
        ("(i32.const 2)", FailureClass::Drop),
        ("(i32.const 7)", FailureClass::BadVerdict),
        ("(unreachable)", FailureClass::Trap),
    ] {
        assert_eq!(ended(end).await.failure().class, class, "{end}");
    }
}

#[tokio::test]
async fn an_ack_keeps_the_last_result_which_may_be_any_bytes() {
    for (calls, kept) in [
        ("", None),
        ("(drop (call $result (i32.const 320) (i32.const 8)))", Some(&b"a reason"[..])),
        (
            "(drop (call $result (i32.const 320) (i32.const 8)))
             (drop (call $result (i32.const 352) (i32.const 10)))",
            Some(b"bad \xff byte"),
        ),
        ("(drop (call $result (i32.const -1) (i32.const 0)))", Some(b"")),
    ] {
        let ran = run_probe(&format!("{calls} (i32.const 0)")).await;
        assert_eq!(ran.report.outcome, Outcome::Acked);
        assert_eq!(ran.report.result, kept.map(Bytes::from_static), "{calls}");
    }
}

#[tokio::test]
async fn a_result_without_an_ack_is_dropped() {
    let result = "(drop (call $result (i32.const 320) (i32.const 8)))";
    let snooze = "(call $snooze (i64.const 1)) (i32.const 1)";
    for end in ["(i32.const 1)", "(i32.const 2)", "(i32.const 7)", "(unreachable)", snooze] {
        let ran = run_probe(&format!("{result} {end}")).await;
        assert_ne!(ran.report.outcome, Outcome::Acked);
        assert_eq!(ran.report.result, None, "{end}");
    }
}

#[tokio::test]
async fn a_result_over_64_kib_is_refused_and_the_last_one_stays() {
    let grown = "(drop (memory.grow (i32.const 1)))";
    let fits = "(call $result (i32.const 0) (i32.const 65536))";
    let ran = run_probe(&format!("{grown} {fits}")).await;
    assert_eq!((ran.answer(), ran.report.result.map(|kept| kept.len())), (0, Some(65_536)));
    // −4 plus 4 is an ack, with which the report has a result.
    let ran = run_probe(&format!(
        "{grown} (drop (call $result (i32.const 320) (i32.const 8)))
         (i32.add (call $result (i32.const 0) (i32.const 65537)) (i32.const 4))"
    ))
    .await;
    assert_eq!(ran.report.outcome, Outcome::Acked);
    assert_eq!(ran.report.result, Some(Bytes::from_static(b"a reason")));
}
