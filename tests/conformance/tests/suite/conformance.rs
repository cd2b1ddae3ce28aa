//! Every SDK passes every case of `cases/`, with the same words.

use duebox_conformance::{Module, cases, config};

fn passes(handler: &str) {
    let module = Module::built(handler, config());
    let faults: Vec<String> = cases().iter().flat_map(|case| case.faults(&module)).collect();
    assert!(faults.is_empty(), "{handler}: {} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_rust_sdk_conforms() {
    passes("echo-rust");
}

#[test]
fn the_go_sdk_conforms() {
    passes("echo-go");
}

#[test]
fn the_assemblyscript_sdk_conforms() {
    passes("echo-as");
}
