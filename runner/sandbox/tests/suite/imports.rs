//! The imports of `duebox_v1` that need no capability.

use std::collections::BTreeMap;

use bytes::Bytes;
use duebox_job::{FailureClass, JobId};
use duebox_sandbox::{Grants, Level, Limits};

use crate::support::{TestRun, job, load, load_with, probe, run, run_probe};

/// Evaluates an expression, logs this many bytes from address 0, and returns the value.
fn said(expression: &str) -> String {
    format!(
        "(local $n i32)
         (local.set $n {expression})
         (call $log (i32.const 2) (i32.const 0) (local.get $n))
         (local.get $n)"
    )
}

async fn says(expression: &str) -> (i32, String) {
    let ran = run_probe(&said(expression)).await;
    (ran.answer(), ran.texts().join("|"))
}

fn assert_faults(ran: &TestRun, import: &str) {
    let (class, reason) = ran.class();
    assert_eq!(class, FailureClass::Trap, "{import}: {reason}");
    assert!(reason.starts_with(&format!("{import}: ")), "{import} is not named: {reason}");
}

#[tokio::test]
async fn payload_read_copies_the_rest_of_the_payload() {
    let cases = [
        ("(call $payload_read (i32.const 0) (i32.const 0) (i32.const 12))", 12, "{\"order\":42}"),
        ("(call $payload_read (i32.const 0) (i32.const 0) (i32.const 100))", 12, "{\"order\":42}"),
        ("(call $payload_read (i32.const 0) (i32.const 9) (i32.const 2))", 2, "42"),
        ("(call $payload_read (i32.const 0) (i32.const 11) (i32.const 100))", 1, "}"),
        ("(call $payload_read (i32.const 0) (i32.const 12) (i32.const 100))", 0, ""),
        ("(call $payload_read (i32.const 0) (i32.const 13) (i32.const 100))", 0, ""),
        ("(call $payload_read (i32.const 0) (i32.const -1) (i32.const 100))", 0, ""),
        ("(call $payload_read (i32.const -1) (i32.const 0) (i32.const 0))", 0, ""),
        (
            "(call $payload_read (i32.const 0) (i32.const 0) (i32.const 65536))",
            12,
            "{\"order\":42}",
        ),
    ];
    for (call, copied, text) in cases {
        assert_eq!(says(call).await, (copied, text.to_owned()), "{call}");
    }
}

#[tokio::test]
async fn a_payload_may_be_any_bytes() {
    let handler = load(&probe(
        "(drop (call $payload_read (i32.const 0) (i32.const 0) (local.get $len)))
         (i32.load (i32.const 0))",
    ));
    let mut binary = job();
    binary.payload = Bytes::from_static(&[0xff, 0x00, 0xfe, 0x01]);
    assert_eq!(run(&handler, binary).await.answer(), i32::from_le_bytes([0xff, 0x00, 0xfe, 0x01]));
}

#[tokio::test]
async fn a_range_may_end_with_the_memory_and_one_byte_more_faults() {
    let calls = [
        ("payload_read", "(drop (call $payload_read (i32.const P) (i32.const 0) (i32.const L)))"),
        ("meta_read", "(drop (call $meta_read (i32.const 1) (i32.const P) (i32.const L)))"),
        ("meta_read", "(drop (call $meta_read (i32.const 99) (i32.const P) (i32.const L)))"),
        (
            "config_read",
            "(drop (call $config_read (i32.const P) (i32.const L) (i32.const 0) (i32.const 0)))",
        ),
        (
            "config_read",
            "(drop (call $config_read (i32.const 0) (i32.const 0) (i32.const P) (i32.const L)))",
        ),
        ("random", "(call $random (i32.const P) (i32.const L))"),
        ("reason", "(call $reason (i32.const P) (i32.const L))"),
        ("result", "(drop (call $result (i32.const P) (i32.const L)))"),
        ("log", "(call $log (i32.const 2) (i32.const P) (i32.const L))"),
    ];
    let fits = [(65_535, 1), (65_436, 100), (0, 65_536), (65_536, 0), (-1, 0)];
    let faults =
        [(65_536, 1), (65_437, 100), (0, 65_537), (1, 65_536), (-1, 1), (16, -1), (-1, -1)];
    for (import, call) in calls {
        let body = |(pointer, length): (i32, i32)| {
            let call = call.replace('P', &pointer.to_string()).replace('L', &length.to_string());
            format!("{call} (i32.const 0)")
        };
        for range in fits {
            assert_eq!(run_probe(&body(range)).await.answer(), 0, "{import} {range:?}");
        }
        for range in faults {
            assert_faults(&run_probe(&body(range)).await, import);
        }
    }
}

#[tokio::test]
async fn meta_read_returns_the_full_length_and_copies_what_fits() {
    let read = |key: u32, cap: u32| {
        format!("(call $meta_read (i32.const {key}) (i32.const 0) (i32.const {cap}))")
    };
    for (key, text) in [
        (1, "job-42"),
        (2, "order.close"),
        (3, "2"),
        (4, "8"),
        (5, "1763740800000"),
        (7, "trace: t-1\n"),
    ] {
        let (length, said) = says(&read(key, 100)).await;
        assert_eq!((length as usize, said.as_str()), (text.len(), text.trim_end()), "{key}");
        // A length of 0 returns only the size; a short one gets the beginning.
        assert_eq!(run_probe(&read(key, 0)).await.answer(), length);
        let (length, said) = says(&read(key, 1)).await;
        assert_eq!((length as usize, &said[..1]), (text.len(), &text[..1]), "{key}");
        assert!(!said.contains(&text[1..]) || text.len() == 1, "{key}: {said}");
    }
    for unknown in [0, 10, 99, u32::MAX] {
        let ran = run_probe(&read(unknown, 100).replace("4294967295", "-1")).await;
        assert_eq!(ran.answer(), -1, "{unknown}");
    }
}

#[tokio::test]
async fn an_id_from_plain_redis_commands_is_passed_unchanged() {
    let handler = load(&probe(
        "(drop (call $meta_read (i32.const 1) (i32.const 0) (i32.const 8)))
         (i32.load16_u (i32.const 0))",
    ));
    let mut odd = job();
    odd.id = JobId::from_redis(vec![0xff, 0x01]);
    assert_eq!(run(&handler, odd).await.answer(), 0x01ff);
}

#[tokio::test]
async fn meta_int_returns_only_the_numeric_metadata() {
    let int = |key: i32| format!("(i32.wrap_i64 (call $meta_int (i32.const {key})))");
    assert_eq!(run_probe(&int(3)).await.answer(), 2);
    assert_eq!(run_probe(&int(4)).await.answer(), 8);
    for key in [0, 1, 2, 7, 10, -1, i32::MAX] {
        assert_eq!(run_probe(&int(key)).await.answer(), -1, "{key}");
    }
    let due = "(i64.ne (call $meta_int (i32.const 5)) (i64.const 1763740800000))";
    assert_eq!(run_probe(due).await.answer(), 0);
}

#[tokio::test]
async fn the_clocks_are_consistent() {
    // now <= deadline; now + remaining time = deadline, within a second; 0 < remaining time <= ttr.
    let body = "(local $now i64) (local $left i64) (local $deadline i64)
        (local.set $now (call $meta_int (i32.const 8)))
        (local.set $left (call $meta_int (i32.const 9)))
        (local.set $deadline (call $meta_int (i32.const 6)))
        (if (i64.le_s (local.get $left) (i64.const 0)) (then (return (i32.const 10))))
        (if (i64.gt_s (local.get $left) (i64.const 60000)) (then (return (i32.const 11))))
        (if (i64.gt_s (local.get $now) (local.get $deadline)) (then (return (i32.const 12))))
        (local.set $now (i64.sub (i64.add (local.get $now) (local.get $left))
                                 (local.get $deadline)))
        (if (i64.gt_s (local.get $now) (i64.const 1000)) (then (return (i32.const 13))))
        (if (i64.lt_s (local.get $now) (i64.const -1000)) (then (return (i32.const 14))))
        (i32.const 0)";
    assert_eq!(run_probe(body).await.answer(), 0);
    for key in [6, 8, 9] {
        let call = format!("(call $meta_read (i32.const {key}) (i32.const 0) (i32.const 32))");
        let (length, text) = says(&call).await;
        assert_eq!(text.len(), length as usize);
        assert!(text.parse::<u64>().is_ok(), "{key}: {text}");
    }
}

#[tokio::test]
async fn config_read_returns_the_configured_values() {
    let config = BTreeMap::from([
        ("region".to_owned(), "eu-west".to_owned()),
        (String::new(), "the empty name".to_owned()),
    ]);
    let read = |key: u32, length: u32, cap: u32| {
        said(&format!(
            "(call $config_read (i32.const {key}) (i32.const {length}) (i32.const 0) (i32.const {cap}))"
        ))
    };
    for (body, answer, text) in [
        (read(256, 6, 100), 7, "eu-west"),
        (read(256, 6, 2), 7, "eu\0\0\0\0\0"),
        (read(0, 0, 100), 14, "the empty name"),
    ] {
        let grants = Grants { config: config.clone(), ..Grants::default() };
        let ran = run(&load_with(&probe(&body), Limits::default(), grants), job()).await;
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        assert_eq!((ran.answer(), ran.texts()), (answer, vec![text.as_str()]));
    }
}

#[tokio::test]
async fn config_read_reports_a_missing_key() {
    let read = |key: u32, length: u32| {
        format!(
            "(call $config_read (i32.const {key}) (i32.const {length}) (i32.const 0) (i32.const 9))"
        )
    };
    assert_eq!(run_probe(&read(288, 7)).await.answer(), -1, "unknown");
    assert_eq!(run_probe(&read(0, 0)).await.answer(), -1, "empty");
    assert_eq!(run_probe(&read(272, 2)).await.answer(), -3, "bad UTF-8");
}

#[tokio::test]
async fn random_fills_exactly_its_range() {
    // 32 random bytes are practically never all zero. The bytes next to them stay.
    let body = "(call $random (i32.const 1024) (i32.const 32))
        (if (i64.ne (i64.load (i32.const 1016)) (i64.const 0)) (then (return (i32.const 10))))
        (if (i64.ne (i64.load (i32.const 1056)) (i64.const 0)) (then (return (i32.const 11))))
        (i64.eqz (i64.or (i64.or (i64.load (i32.const 1024)) (i64.load (i32.const 1032)))
                         (i64.or (i64.load (i32.const 1040)) (i64.load (i32.const 1048)))))";
    assert_eq!(run_probe(body).await.answer(), 0);
}

#[tokio::test]
async fn log_levels_follow_the_abi() {
    let say = |level: i32| format!("(call $log (i32.const {level}) (i32.const 256) (i32.const 6))");
    let body: String = [0, 1, 2, 3, 4, 5, -1].into_iter().map(say).collect();
    let ran = run_probe(&format!("{body} (i32.const 0)")).await;
    let levels: Vec<Level> = ran.lines.iter().map(|(level, _)| *level).collect();
    use Level::{Debug, Error, Info, Trace, Warn};
    assert_eq!(levels, [Error, Warn, Info, Debug, Trace, Trace, Trace]);
    assert!(ran.texts().iter().all(|line| *line == "region"));
}

#[tokio::test]
async fn a_log_line_is_one_line_without_control_characters() {
    let handler = load(&probe(
        "(drop (call $payload_read (i32.const 0) (i32.const 0) (local.get $len)))
         (call $log (i32.const 2) (i32.const 0) (local.get $len))
         (i32.const 0)",
    ));
    let cases: [(&[u8], &[&str]); 7] = [
        (b"one", &["one"]),
        (b"one\ntwo\n", &["one", "two"]),
        (b"one\r\n\ntwo", &["one", "", "two"]),
        (b"", &[""]),
        (b"tab\tstays, \x1b[2Jand \x07\x00not this", &["tab\tstays, [2Jand not this"]),
        (b"bad \xff byte", &["bad \u{fffd} byte"]),
        ("c1 \u{9b}31m".as_bytes(), &["c1 31m"]),
    ];
    for (text, lines) in cases {
        let mut talkative = job();
        talkative.payload = Bytes::from_static(text);
        assert_eq!(run(&handler, talkative).await.texts(), lines, "{text:?}");
    }
}

#[tokio::test]
async fn before_the_job_only_log_and_random_work() {
    let early = |call: &str, starts: &str| {
        probe("(i32.const 0)").replace(
            "(func (export \"handle\")",
            &format!("(func $early {starts} {call}) (func (export \"handle\")"),
        )
    };
    let works = "(call $random (i32.const 0) (i32.const 8))
                 (call $log (i32.const 2) (i32.const 256) (i32.const 6))";
    let calls = [
        ("payload_read", "(drop (call $payload_read (i32.const 0) (i32.const 0) (i32.const 0)))"),
        ("meta_read", "(drop (call $meta_read (i32.const 1) (i32.const 0) (i32.const 0)))"),
        ("meta_int", "(drop (call $meta_int (i32.const 8)))"),
        (
            "config_read",
            "(drop (call $config_read (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))",
        ),
        ("retry_after", "(call $retry_after (i64.const 1))"),
        ("snooze", "(call $snooze (i64.const 1))"),
        ("reason", "(call $reason (i32.const 0) (i32.const 0))"),
        ("result", "(drop (call $result (i32.const 0) (i32.const 0)))"),
    ];
    let in_start =
        |call: &str| early(call, "").replace("(memory (export", "(start $early) (memory (export");
    let in_initialize = |call: &str| early(call, "(export \"_initialize\")");
    for module in [in_start(works), in_initialize(works)] {
        let ran = run(&load(&module), job()).await;
        assert_eq!((ran.answer(), ran.texts()), (0, vec!["region"]));
    }
    for (import, call) in calls {
        for module in [in_start(call), in_initialize(call)] {
            let ran = run(&load(&module), job()).await;
            let (class, reason) = ran.class();
            assert_eq!(class, FailureClass::Trap, "{import}");
            assert!(reason.starts_with(&format!("{import} does not work in a start")), "{reason}");
        }
    }
}
