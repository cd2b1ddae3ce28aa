//! What remains of a panic in each language: the call stack with the names of the source, and the
//! last lines of the log.

use std::collections::BTreeMap;

use duebox_conformance::{Attempt, Module};

fn assert_panic_trace(handler: &str, call: &str) {
    let mut job = Attempt::new("");
    job.headers.insert("script".to_owned(), "log warn careful; panic all is lost".to_owned());
    let run = Module::built(handler, BTreeMap::new()).run(&job);
    assert_eq!(run.verdict(), "trap", "{run:?}");
    assert!(run.reason().contains("all is lost"), "{run:?}");
    let trace = run.trace.unwrap_or_default();
    assert!(trace.lines().skip(1).any(|line| line.contains(call)), "{call}: {trace}");
    assert_eq!(run.log_tail.first().map(String::as_str), Some("warn: careful"));
}

#[test]
fn a_panic_in_rust_has_a_call_stack() {
    assert_panic_trace("echo-rust", ": core::panicking::panic_fmt at 0x");
}

#[test]
fn a_panic_in_go_has_a_call_stack() {
    assert_panic_trace("echo-go", ": main.handle at 0x");
}

#[test]
fn an_error_in_assemblyscript_has_a_call_stack() {
    assert_panic_trace("echo-as", ": assembly/index/");
}
