//! What passes between the daemon and a source handler: values come out as they went in, and no payload ends more
//! than its job.
//!
//! `DUEBOX_BRIDGE_CASES=100000 cargo test … bridges` runs as many cases, which differ each time.

use std::collections::BTreeMap;
use std::path::Path;

use duebox_conformance::{Attempt, Module};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestCaseResult, TestRng, TestRunner};
use serde_json::{Value, json};

const CASES: u32 = 300;
/// What the largest result of a case may have, in bytes: a result has at most 64 KiB.
const BYTES_MAX: usize = 60_000;

/// The handlers of a language.
struct Bridge {
    /// Returns and pushes its payload, in an object.
    values: Module,
    /// Returns the payload of its kind.
    text: Module,
    bytes: Module,
}

fn bridges() -> Vec<(&'static str, Bridge)> {
    let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no folder: {error}"));
    let module = |name: &str, source: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, source).unwrap_or_else(|error| panic!("{name}: {error}"));
        Module::from_file(Path::new(&path), BTreeMap::new())
    };
    let javascript = Bridge {
        values: module(
            "values.js",
            "import { push, result } from 'duebox';
            export default (value) => { push('sms.out', { value }); result({ value }) };",
        ),
        text: module(
            "text.js",
            "import { result } from 'duebox';
            export const payload = 'text'; export default (text) => result(text);",
        ),
        bytes: module(
            "bytes.js",
            "import { result } from 'duebox';
            export const payload = 'bytes'; export default (bytes) => result(bytes);",
        ),
    };
    let python = Bridge {
        values: module(
            "values.py",
            "from duebox import push, result
def handle(value):
    push('sms.out', {'value': value})
    result({'value': value})
",
        ),
        text: module(
            "text.py",
            "from duebox import result\npayload = 'text'\ndef handle(text): result(text)\n",
        ),
        bytes: module(
            "bytes.py",
            "from duebox import result\npayload = 'bytes'\ndef handle(data): result(data)\n",
        ),
    };
    vec![("js", javascript), ("py", python)]
}

/// Runs a property: the same cases each time, or as many as the environment asks for.
pub(crate) fn holds<S: Strategy>(cases: S, property: impl Fn(S::Value) -> TestCaseResult) {
    holds_in(1, cases, property);
}

/// The same with a part of the cases, where each takes long.
pub(crate) fn holds_in<S: Strategy>(
    part: u32,
    cases: S,
    property: impl Fn(S::Value) -> TestCaseResult,
) {
    let asked = std::env::var("DUEBOX_BRIDGE_CASES").ok().and_then(|cases| cases.parse().ok());
    let count = asked.unwrap_or(CASES).div_ceil(part);
    let config = Config { cases: count, failure_persistence: None, ..Config::default() };
    let mut runner = match asked {
        Some(_) => TestRunner::new(config),
        None => {
            let algorithm = config.rng_algorithm;
            TestRunner::new_with_rng(config, TestRng::deterministic_rng(algorithm))
        }
    };
    runner.run(&cases, property).unwrap_or_else(|error| panic!("{error}"));
}

/// Names that mean something to an engine.
const KNOWN: [&str; 9] =
    ["__proto__", "constructor", "toJSON", "then", "length", "0", "-1", "__class__", ""];

fn names() -> impl Strategy<Value = String> {
    let known = prop::sample::select(&KNOWN[..]).prop_map(str::to_owned);
    prop_oneof![3 => any::<String>(), 1 => known]
}

fn numbers() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(|number| json!(number)),
        any::<u64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        (-40_i32..40).prop_map(|power| json!(10_f64.powi(power))),
    ]
}

fn values() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::Bool),
        4 => numbers(),
        4 => any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(8, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::vec((names(), inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
    .boxed()
}

/// The JSON of a value with every character beyond ASCII as an escape.
fn escaped(value: &Value) -> String {
    let escape = |c: char| match c.is_ascii() {
        true => c.to_string(),
        false => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect(),
    };
    value.to_string().chars().map(escape).collect()
}

/// Whether a value came out as it went in. Numbers may differ in the last digit, because serde reads them so, and in
/// JavaScript they have 53 bits.
fn is_same(out: &Value, wanted: &Value, is_exact: bool) -> bool {
    match (out, wanted) {
        (Value::Number(out), Value::Number(wanted)) => {
            if is_exact && (wanted.is_i64() || wanted.is_u64()) {
                return out == wanted;
            }
            let (out, wanted) = (out.as_f64(), wanted.as_f64());
            out.zip(wanted).is_some_and(|(out, wanted)| {
                (out - wanted).abs() <= wanted.abs() * 1e-15 + f64::MIN_POSITIVE
            })
        }
        (Value::Array(out), Value::Array(wanted)) => {
            out.len() == wanted.len()
                && out.iter().zip(wanted).all(|(out, wanted)| is_same(out, wanted, is_exact))
        }
        (Value::Object(out), Value::Object(wanted)) => {
            let is_there = |(name, wanted): (&String, &Value)| {
                out.get(name).is_some_and(|out| is_same(out, wanted, is_exact))
            };
            out.len() == wanted.len() && wanted.iter().all(is_there)
        }
        _ => out == wanted,
    }
}

#[test]
fn values_come_out_as_they_went_in() {
    for (language, bridge) in bridges() {
        holds(values(), |value| {
            let wanted = json!({ "value": value });
            for payload in [value.to_string(), escaped(&value)] {
                if payload.len() > BYTES_MAX {
                    continue;
                }
                let run = bridge.values.run(&Attempt::new(payload));
                prop_assert_eq!(run.verdict(), "ack", "{} {:?}", language, run);
                let pushed = run.follow_ups.first().map(|job| job.payload.to_vec());
                for out in [run.result.map(|result| result.to_vec()), pushed] {
                    let out: Value = serde_json::from_slice(&out.unwrap_or_default())
                        .map_err(|error| TestCaseError::fail(format!("{language}: {error}")))?;
                    let is_same = is_same(&out, &wanted, language == "py");
                    prop_assert!(is_same, "{}: {} and not {}", language, out, wanted);
                }
            }
            Ok(())
        });
    }
}

#[test]
fn texts_and_bytes_come_out_as_they_went_in() {
    for (language, bridge) in bridges() {
        holds((any::<String>(), any::<Vec<u8>>()), |(text, bytes)| {
            for (module, payload) in
                [(&bridge.text, text.into_bytes()), (&bridge.bytes, bytes.clone())]
            {
                let run = module.run(&Attempt::new(payload.clone()));
                prop_assert_eq!(run.verdict(), "ack", "{} {:?}", language, run);
                prop_assert_eq!(run.result.unwrap_or_default().to_vec(), payload);
            }
            let is_text = std::str::from_utf8(&bytes).is_ok();
            let run = bridge.text.run(&Attempt::new(bytes));
            prop_assert_eq!(run.verdict(), if is_text { "ack" } else { "drop" }, "{:?}", run);
            Ok(())
        });
    }
}

/// Documents with one to three damages each. The engines and serde agree on what is JSON.
#[test]
fn a_damaged_payload_is_dropped_and_nothing_else_happens() {
    let damage = (any::<prop::sample::Index>(), any::<u8>(), 0..4_u8);
    let cases = (values(), prop::collection::vec(damage, 1..4));
    for (language, bridge) in bridges() {
        holds(cases.clone(), |(value, damages)| {
            let mut payload = value.to_string().into_bytes();
            for (at, byte, kind) in damages {
                let at = at.index(payload.len() + 1);
                match kind {
                    0 => payload.insert(at, byte),
                    1 => payload.insert(at, b"{}[]\",:\\u0e-."[usize::from(byte) % 13]),
                    2 => payload.truncate(at),
                    _ => drop(payload.splice(at.., [b'9'; 40])),
                }
            }
            if payload.len() > BYTES_MAX || payload.is_empty() {
                return Ok(());
            }
            let parsed = serde_json::from_slice::<Value>(&payload);
            let run = bridge.values.run(&Attempt::new(payload.clone()));
            let wanted = match &parsed {
                Ok(_) => &["ack"][..],
                // Limits of serde's numbers and texts, not of JSON.
                Err(error) if is_limit(&error.to_string()) => &["ack", "drop"],
                Err(_) => &["drop"],
            };
            let shown = String::from_utf8_lossy(&payload);
            prop_assert!(wanted.contains(&run.verdict()), "{} {}: {:?}", language, shown, run);
            Ok(())
        });
    }
}

fn is_limit(error: &str) -> bool {
    ["out of range", "surrogate", "hex escape", "recursion"].iter().any(|it| error.contains(it))
}

/// Each ends its own job in some way that is not the host's fault, and the next job is acked.
#[test]
fn nested_and_huge_payloads_end_their_job_only() {
    let nested = |open: &str, close: &str, depth: usize| open.repeat(depth) + &close.repeat(depth);
    let payloads = [
        nested("[", "]", 100),
        nested("[", "]", 100_000),
        nested("{\"a\":", "", 100_000),
        nested("{\"a\":[", "]}", 3_000),
        "[".repeat(1_000_000),
        "9".repeat(1_000_000),
        format!("{}.{}e999999999", "9".repeat(5_000), "9".repeat(5_000)),
        format!("[{}0]", "0,".repeat(500_000)),
        format!("\"{}\"", "\\ud800".repeat(100_000)),
        format!("{{{}}}", vec!["\"k\":1"; 100_000].join(",")),
    ];
    for (language, bridge) in bridges() {
        for payload in &payloads {
            let shown: String = payload.chars().take(20).collect();
            let run = bridge.values.run(&Attempt::new(payload.clone()));
            let ends = ["ack", "nack", "drop", "stack_overflow", "out_of_memory"];
            assert!(ends.contains(&run.verdict()), "{language} {shown}: {:?}", run.outcome);
            let run = bridge.values.run(&Attempt::new("{}"));
            assert_eq!(run.verdict(), "ack", "{language} after {shown}: {:?}", run.outcome);
        }
    }
}
