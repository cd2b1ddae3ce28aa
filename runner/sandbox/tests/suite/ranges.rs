//! Pointers and lengths of every import: a range may end with the memory, and one byte more is a trap that
//! names the import. The table of imports is compared with docs/reference/abi.md.

use std::collections::BTreeSet;

use duebox_job::FailureClass;
use duebox_sandbox::{Grants, HostServices, HttpConfig, Limits};

use crate::http_guest::{client, grant};
use crate::support::{job, load_with, run_in};

/// Each import of `duebox_v1`, its type, and a call for each range that it takes. P and L stand for the range.
const CALLS: [(&str, &str, &[&str]); 17] = [
    ("payload_read", "(param i32 i32 i32) (result i32)", &["P 0 L"]),
    ("meta_read", "(param i32 i32 i32) (result i32)", &["1 P L", "99 P L"]),
    ("meta_int", "(param i32) (result i64)", &[]),
    ("config_read", "(param i32 i32 i32 i32) (result i32)", &["P L 0 0", "0 0 P L", "64 3 P L"]),
    ("random", "(param i32 i32)", &["P L"]),
    ("retry_after", "(param i64)", &[]),
    ("snooze", "(param i64)", &[]),
    ("reason", "(param i32 i32)", &["P L"]),
    ("result", "(param i32 i32) (result i32)", &["P L"]),
    ("log", "(param i32 i32 i32)", &["2 P L", "-1 P L", "99 P L"]),
    ("http_send", "(param i32 i32 i32 i32 i32) (result i32)", &["P L 0 0 0", "64 3 P L 0"]),
    ("http_read", "(param i32 i32 i32 i32) (result i32)", &["0 P 0 L", "1 P 9 L", "2 P -1 L"]),
    ("kv_get", "(param i32 i32 i32 i32) (result i32)", &["P L 0 0", "64 3 P L"]),
    (
        "kv_set",
        "(param i32 i32 i32 i32 i64 i32) (result i32)",
        &["P L 0 0 0i64 0", "64 3 P L 0i64 0", "64 3 P L 0i64 9", "64 3 P L -1i64 1"],
    ),
    ("kv_delete", "(param i32 i32) (result i32)", &["P L"]),
    ("kv_add", "(param i32 i32 i64 i32) (result i32)", &["P L 1i64 0"]),
    ("push", "(param i32 i32 i32 i32) (result i32)", &["P L 0 0", "64 3 P L"]),
];

/// Bytes of the memory.
const END: i64 = 65_536;
const FITS: [(i64, i64); 7] =
    [(END - 1, 1), (END - 100, 100), (0, END), (0, 0), (END, 0), (-1, 0), (-END, 0)];
const FAULTS: [(i64, i64); 12] = [
    (END, 1),
    (END - 1, 2),
    (END - 99, 100),
    (0, END + 1),
    (1, END),
    (-1, 1),
    (-1, 2),
    (-8, 16),
    (16, -1),
    (16, -16),
    (-1, -1),
    (i32::MIN as i64, i32::MAX as i64),
];

/// The arguments of a call as code: constants of 32 bits, or of 64 bits if they are marked so.
fn arguments(call: &str, (pointer, length): (i64, i64)) -> String {
    let constant = |word: &str| match (word, word.strip_suffix("i64")) {
        ("P", _) => format!("(i32.const {pointer}) "),
        ("L", _) => format!("(i32.const {length}) "),
        (_, Some(number)) => format!("(i64.const {number}) "),
        (number, None) => format!("(i32.const {number}) "),
    };
    call.split(' ').map(constant).collect()
}

fn module(namespace: &str, import: &str, ty: &str, arguments: &str) -> String {
    let drop = if ty.contains("result") { "(drop" } else { "(block" };
    format!(
        r#"(module
             (import "{namespace}" "{import}" (func $call {ty}))
             (memory (export "memory") 1)
             (data (i32.const 64) "abc")
             (func (export "handle") (param i32) (result i32)
               {drop} (call $call {arguments}))
               (i32.const 0)))"#
    )
}

/// Runs a module with all capabilities, but without a granted origin.
async fn ran(wat: &str) -> (Option<FailureClass>, String) {
    let grants = Grants {
        push: Some(vec!["*".to_owned()]),
        http: Some(grant(&[], &[])),
        kv: true,
        ..Grants::default()
    };
    let handler = load_with(wat, Limits::default(), grants);
    let http = Some(client(HttpConfig::default()));
    let kv = Some(std::sync::Arc::new(duebox_sandbox::MemoryKv::new()) as _);
    let ran =
        run_in(&handler, job(), |logs| HostServices { http, kv, ..HostServices::with_logs(logs) })
            .await;
    match &ran.report.outcome {
        duebox_job::Outcome::Acked => (None, String::new()),
        _ => (Some(ran.failure().class), ran.failure().reason.clone()),
    }
}

#[tokio::test]
async fn every_range_of_every_import_is_checked_at_its_edges() {
    for (import, ty, calls) in CALLS {
        for call in calls {
            for range in FITS {
                let wat = module("duebox_v1", import, ty, &arguments(call, range));
                assert_eq!(ran(&wat).await.0, None, "{import} {call} {range:?}");
            }
            for range in FAULTS {
                let wat = module("duebox_v1", import, ty, &arguments(call, range));
                let (class, reason) = ran(&wat).await;
                assert_eq!(class, Some(FailureClass::Trap), "{import} {call} {range:?}: {reason}");
                assert!(reason.starts_with(&format!("{import}: the range")), "{reason}");
            }
        }
    }
}

#[tokio::test]
async fn a_number_needs_eight_bytes_of_memory() {
    let ty = "(param i32 i32 i64 i32) (result i32)";
    for (at, fits) in [(END - 8, true), (0, true), (END - 7, false), (END, false), (-1, false)] {
        let wat = module("duebox_v1", "kv_add", ty, &arguments(&format!("64 3 1i64 {at}"), (0, 0)));
        let (class, reason) = ran(&wat).await;
        assert_eq!(class.is_none(), fits, "{at}: {reason}");
        assert!(fits || reason.starts_with("kv_add: the range of 8 bytes"), "{at}: {reason}");
    }
}

/// Strings of AssemblyScript: a pointer, and their length four bytes before it.
#[tokio::test]
async fn every_string_of_assemblyscript_is_checked_at_its_edges() {
    let trace = "(param i32 i32 f64 f64 f64 f64 f64)";
    let floats = "(f64.const 0)".repeat(5);
    let mut calls = vec![
        ("trace", trace, format!("(i32.const P) (i32.const 1) {floats}")),
        ("abort", "(param i32 i32 i32 i32)", arguments("PP 0 0 0", (0, 0))),
        ("abort", "(param i32 i32 i32 i32)", arguments("0 PP 0 0", (0, 0))),
    ];
    for name in ["console.log", "console.debug", "console.info", "console.warn", "console.error"] {
        calls.push((name, "(param i32)", "(i32.const P)".to_owned()));
    }
    for (import, ty, call) in calls {
        for (pointer, lies_somewhere) in [
            (0, true),
            (4, true),
            (END, true),
            (1, false),
            (3, false),
            (END + 1, false),
            (-1, false),
            (-4, false),
        ] {
            let code = call.replace("PP", &pointer.to_string()).replace('P', &pointer.to_string());
            let (class, reason) = ran(&module("env", import, ty, &code)).await;
            // The memory before each of these is zero: strings of length 0.
            let is_range = reason.starts_with(&format!("{import}: the range"));
            assert_eq!(is_range, !lies_somewhere, "{import} {pointer}: {reason}");
            let traps = is_range || import == "abort";
            assert_eq!(class, traps.then_some(FailureClass::Trap), "{import} {pointer}: {reason}");
        }
    }
}

#[test]
fn the_table_contains_every_import_of_the_abi() {
    let abi = include_str!("../../../../docs/reference/abi.md");
    let named = abi.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('('));
    let is_name = |name: &&str| name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase());
    let listed: BTreeSet<&str> = named.map(|(name, _)| name).filter(is_name).collect();
    let exports = BTreeSet::from(["handle", "_initialize"]);
    let imports: BTreeSet<&str> = listed.difference(&exports).copied().collect();
    let here: BTreeSet<&str> = CALLS.iter().map(|(name, ..)| *name).collect();
    assert_eq!(here, imports);
}
