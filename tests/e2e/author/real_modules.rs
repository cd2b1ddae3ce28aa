//! What the compilers write after an author's mistake is explained as the modules by hand in `tests/modules` are.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::refusals::{MODULES, inspect, is_golden, text};

/// Runs a compiler in a folder.
fn compile(folder: &Path, program: &str, args: &[&str], variables: &[(&str, &str)]) {
    let mut command = Command::new(program);
    let output = command.args(args).current_dir(folder).envs(variables.iter().copied()).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is not installed: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {}", text(&output.stderr));
}

/// Whether a module is refused in the words of a golden file, which may be that of a module by hand.
fn is_refused_like(folder: &Path, module: &str, golden: &str) -> bool {
    let output = inspect(folder, &[module]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{module}: {error}{}", text(&output.stdout));
    let by_hand = Path::new(MODULES).join(format!("{golden}.wat"));
    let name = if by_hand.exists() { format!("{golden}.wat") } else { module.to_owned() };
    is_golden(&Path::new(MODULES).join(format!("{golden}.err")), &error.replace(module, &name))
}

#[test]
fn a_program_of_go_is_recognized() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("go.mod"), "module handler\n\ngo 1.24\n").unwrap();
    fs::write(dir.path().join("main.go"), "package main\n\nfunc main() {}\n").unwrap();
    let target = [("GOOS", "wasip1"), ("GOARCH", "wasm"), ("GOFLAGS", ""), ("GOWORK", "off")];
    compile(dir.path(), "go", &["build", "-o", "program.wasm", "."], &target);
    assert!(is_refused_like(dir.path(), "program.wasm", "command_go"));
}

#[test]
fn a_program_of_rust_is_recognized_on_both_targets() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("main.rs"), "fn main() {}\n").unwrap();
    let rustc = ["--edition=2024", "-O", "main.rs", "-o"];
    let wasm = [&rustc[..], &["program.wasm", "--target", "wasm32-unknown-unknown"]].concat();
    compile(dir.path(), "rustc", &wasm, &[]);
    assert!(is_refused_like(dir.path(), "program.wasm", "program_rust"));

    // A library for this machine: built without a target.
    let native = [&rustc[..], &["libhandler.so", "--crate-type=cdylib"]].concat();
    compile(dir.path(), "rustc", &native, &[]);
    assert!(is_refused_like(dir.path(), "libhandler.so", "native"));
}
