//! Runs the compiler of each language with the flags that a handler needs: a library instead of a program, no debug
//! information, a small stack. Everything it writes is in the project's folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::project::{HandlerLanguage, RUST_TARGET, tools};
use crate::cli::support::failure::Failure;

/// What the compilers write, until it takes its place. No daemon loads a file whose name begins with a dot.
const COMPILED: &str = "build/.compiled.wasm";
/// Variables that would lead a build of cargo elsewhere, or hide the flags of the project.
const CARGO_VARIABLES: [&str; 6] = [
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
    "RUSTFLAGS",
];
/// Flags of a project in C, one a line; clangd reads them too.
const C_FLAGS: &str = "compile_flags.txt";
/// The host clears the whole stack for each job, so a small one is cheaper.
const C_STACK: &str = "-Wl,-z,stack-size=65536";

/// Compiles a project, and returns the file that the compiler wrote.
pub(super) fn compile(language: HandlerLanguage, dir: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(dir.join("build")).map_err(|error| unwritable(dir, &error))?;
    match language {
        HandlerLanguage::Rust => rust(dir),
        HandlerLanguage::Go => go(dir),
        HandlerLanguage::AssemblyScript => assemblyscript(dir),
        HandlerLanguage::C => c(dir),
        HandlerLanguage::TypeScript | HandlerLanguage::Python | HandlerLanguage::Wat => {
            Err(Failure::bad_input("there is nothing to build", "name the source in duebox.toml"))
        }
    }
}

fn rust(dir: &Path) -> Result<PathBuf, Failure> {
    let mut cargo = command("cargo", dir);
    cargo.args(["build", "--release", "--target", RUST_TARGET, "--target-dir", "target"]);
    cargo.args(["--message-format", "json-render-diagnostics"]).stdout(Stdio::piped());
    CARGO_VARIABLES.iter().for_each(|name| {
        cargo.env_remove(name);
    });
    let output = cargo.output().map_err(|error| not_started("cargo", &error))?;
    if !output.status.success() {
        return Err(failed("cargo build", "correct what cargo reports above"));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    library(&messages).ok_or_else(|| {
        Failure::bad_input(
            format!("{} builds no library that can be a handler", dir.join("Cargo.toml").display()),
            "move the code to src/lib.rs, call duebox_sdk::handler!(handle) in it, and add to Cargo.toml:\n  \
             [lib]\n  crate-type = [\"cdylib\"]",
        )
    })
}

/// The module that cargo reports: that of the last library of type cdylib.
fn library(messages: &str) -> Option<PathBuf> {
    let read = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let kinds = message["target"]["crate_types"].as_array()?;
        let is_library =
            message["reason"] == "compiler-artifact" && kinds.iter().any(|kind| kind == "cdylib");
        let mut files = message["filenames"].as_array()?.iter().filter_map(Value::as_str);
        let module = files.rfind(|file| file.ends_with(".wasm")).map(PathBuf::from);
        module.filter(|_| is_library)
    };
    messages.lines().filter_map(read).next_back()
}

fn go(dir: &Path) -> Result<PathBuf, Failure> {
    let mut go = command("go", dir);
    // A reactor: without c-shared it would be a program, whose main runs.
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-w", "-o", COMPILED, "."]);
    go.env("GOOS", "wasip1").env("GOARCH", "wasm").env("GOFLAGS", "").env("GOWORK", "off");
    run(go, "go build", "correct what go reports above")?;
    Ok(dir.join(COMPILED))
}

fn assemblyscript(dir: &Path) -> Result<PathBuf, Failure> {
    let compiler = Path::new("node_modules/assemblyscript/bin/asc.js");
    if !dir.join(compiler).is_file() {
        let locked = dir.join("package-lock.json").is_file();
        let mut npm = command("npm", dir);
        npm.args([
            if locked { "ci" } else { "install" },
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ]);
        run(npm, "npm", "correct what npm reports above; it installs the AssemblyScript compiler")?;
    }
    let mut asc = command("node", dir);
    asc.arg(compiler).args(["assembly/index.ts", "--target", "release", "--outFile", COMPILED]);
    run(asc, "the AssemblyScript compiler", "correct what it reports above")?;
    Ok(dir.join(COMPILED))
}

fn c(dir: &Path) -> Result<PathBuf, Failure> {
    let compiler = tools::c_compiler().map_err(|missing| {
        Failure::failed(format!("{} is missing", missing.what), missing.remedy)
    })?;
    let mut command = match compiler {
        tools::CCompiler::Clang { clang, linker } => {
            let mut command = command(&clang.display().to_string(), dir);
            command.args(["--target=wasm32", "-ffreestanding"]);
            command.arg(format!("-fuse-ld={}", linker.display()));
            command
        }
        tools::CCompiler::Zig(zig) => {
            let mut command = command(&zig.display().to_string(), dir);
            command.args(["cc", "-target", "wasm32-freestanding"]);
            command
        }
    };
    command.args(["-O2", "-nostdlib", "-mbulk-memory", "-Wall", "-Wl,--no-entry", C_STACK]);
    let flags = fs::read_to_string(dir.join(C_FLAGS)).unwrap_or_default();
    // The target is for editors: each compiler has its own name for it.
    let is_own = |flag: &&str| !flag.is_empty() && !flag.starts_with("--target");
    command.args(flags.lines().map(str::trim).filter(is_own));
    command.args(["-o", COMPILED]).args(c_sources(dir));
    run(command, "the C compiler", "correct what it reports above")?;
    Ok(dir.join(COMPILED))
}

/// The sources of a project in C: in its folder and in `src`.
fn c_sources(dir: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for folder in ["", "src"] {
        let entries = fs::read_dir(dir.join(folder)).into_iter().flatten().flatten();
        let files = entries.map(|entry| Path::new(folder).join(entry.file_name()));
        sources.extend(files.filter(|file| file.extension().is_some_and(|ending| ending == "c")));
    }
    sources.sort();
    sources
}

/// A command in a folder. What it prints goes to stderr: stdout is for the result.
fn command(program: &str, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::from(io::stderr()))
        .stderr(Stdio::inherit());
    command
}

fn run(mut command: Command, what: &str, remedy: &str) -> Result<(), Failure> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(failed(what, remedy)),
        Err(error) => Err(not_started(what, &error)),
    }
}

fn failed(what: &str, remedy: &str) -> Failure {
    Failure::failed(format!("{what} failed; build/handler.wasm is as it was"), remedy)
}

fn not_started(what: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("{what} cannot be started: {error}"), "check its installation")
}

fn unwritable(dir: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", dir.join("build").display());
    Failure::failed(message, "name a project that this user can write")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_in_what_cargo_reports() {
        let artifact = |kind: &str, file: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"target\":{{\"crate_types\":[\"{kind}\"]}},\"filenames\":[\"{file}\"]}}"
            )
        };
        let (dependency, library_line) =
            (artifact("lib", "/a/libserde.rlib"), artifact("cdylib", "/a/handler.wasm"));
        let messages =
            format!("{dependency}\n{library_line}\n{{\"reason\":\"build-finished\"}}\nnot JSON");
        assert_eq!(library(&messages), Some(PathBuf::from("/a/handler.wasm")));
        assert_eq!(library(&artifact("bin", "/a/program.wasm")), None);
    }
}
