//! Every SDK passes every case of `cases/` with the same log lines.

use std::collections::BTreeMap;

use duebox_conformance::{Module, cases, config, services};
use duebox_sandbox::Instances;

const FRESH: Instances = Instances { snapshot: false, jobs_each: 1 };
const SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 1 };
const WARM: Instances = Instances { snapshot: false, jobs_each: 50 };
const WARM_SNAPSHOT: Instances = Instances { snapshot: true, jobs_each: 50 };

fn passes(language: &str, instances: Instances) {
    let (mut modules, services) = (BTreeMap::new(), services());
    let mut faults = Vec::new();
    for case in cases() {
        let handler = format!("{}-{language}", case.handler);
        // The other handlers must load without these grants: their modules import nothing of the
        // kind.
        let built = || match case.handler.as_str() {
            "reach" => Module::with_services(&handler, config(), instances, &services),
            _ => Module::built_with(&handler, config(), instances),
        };
        let module = modules.entry(handler.clone()).or_insert_with(built);
        let case = case.for_language(language).at(&services);
        faults.extend(case.differences(module));
    }
    let (count, faults) = (faults.len(), faults.join("\n"));
    assert_eq!(count, 0, "{language}, {instances:?}: faults\n{faults}");
}

#[test]
fn the_rust_sdk_conforms() {
    passes("rust", FRESH);
}

#[test]
fn the_go_sdk_conforms() {
    passes("go", FRESH);
}

#[test]
fn the_assemblyscript_sdk_conforms() {
    passes("as", FRESH);
}

#[test]
fn the_c_header_conforms() {
    passes("c", FRESH);
}

#[test]
fn the_javascript_sdk_conforms() {
    passes("js", FRESH);
}

#[test]
fn the_python_sdk_conforms() {
    passes("py", FRESH);
}

#[test]
fn all_conform_from_a_snapshot() {
    for language in ["rust", "go", "as", "c"] {
        passes(language, SNAPSHOT);
    }
}

#[test]
fn all_conform_in_warm_instances() {
    for instances in [WARM, WARM_SNAPSHOT] {
        for language in ["rust", "go", "as", "c", "js", "py"] {
            passes(language, instances);
        }
    }
}
