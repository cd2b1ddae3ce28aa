//! Every SDK passes every case of `cases/`, with the same words.

use std::collections::BTreeMap;

use duebox_conformance::{Module, cases, config};

fn passes(language: &str) {
    let mut modules = BTreeMap::new();
    let mut faults = Vec::new();
    for case in cases() {
        let handler = format!("{}-{language}", case.handler);
        let built = || Module::built(&handler, config());
        faults.extend(case.faults(modules.entry(handler.clone()).or_insert_with(built)));
    }
    assert!(faults.is_empty(), "{language}: {} faults\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_rust_sdk_conforms() {
    passes("rust");
}

#[test]
fn the_go_sdk_conforms() {
    passes("go");
}

#[test]
fn the_assemblyscript_sdk_conforms() {
    passes("as");
}
