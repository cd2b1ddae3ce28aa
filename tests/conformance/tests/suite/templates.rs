//! The templates build and run: `sdk/new.sh` copies a template into a folder elsewhere,
//! `handlers/build.sh` compiles it, and the three modules behave the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use duebox_conformance::{Attempt, Module, repository};

/// Runs a script of the repository; on failure returns its output.
fn script(name: &str, arguments: &[&str], out: &Path) -> Result<(), String> {
    let mut command = Command::new("bash");
    command.arg(repository().join(name)).args(arguments).env("DUEBOX_HANDLERS_OUT", out);
    let output = command.output().map_err(|error| format!("cannot start bash: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{name} {arguments:?}: {errors}")) }
}

fn builds_and_runs(language: &str) {
    let home =
        tempfile::tempdir().unwrap_or_else(|error| panic!("cannot create a directory: {error}"));
    let project = home.path().join(format!("hello-{language}"));
    let folder = project.display().to_string();
    assert_eq!(script("sdk/new.sh", &[language, &folder], home.path()), Ok(()));
    let again = script("sdk/new.sh", &[language, &folder], home.path());
    assert!(again.is_err_and(|errors| errors.contains("is there already")));
    assert_eq!(script("handlers/build.sh", &[&folder], home.path()), Ok(()));

    let greeting = BTreeMap::from([("greeting".to_owned(), "Moin".to_owned())]);
    let module = home.path().join(format!("hello-{language}.wasm"));
    let module = Module::from_file(&module, greeting);
    let run = module.run(&Attempt::new(r#"{"name":"Ada"}"#).number(2));
    assert_eq!(run.verdict(), "ack", "{run:?}");
    assert_eq!(run.lines, ["info Moin, Ada! (attempt 2 of 8)"]);
    let run = module.run(&Attempt::new(r#"{"name":"Ada","asleep":true}"#));
    assert_eq!((run.verdict(), run.retry_after_ms()), ("nack", Some(60_000)), "{run:?}");
    assert_eq!(module.run(&Attempt::new("Ada")).verdict(), "drop");
}

#[test]
fn the_rust_template_builds_and_runs() {
    builds_and_runs("rust");
}

#[test]
fn the_go_template_builds_and_runs() {
    builds_and_runs("go");
}

#[test]
fn the_assemblyscript_template_builds_and_runs() {
    builds_and_runs("assemblyscript");
}
