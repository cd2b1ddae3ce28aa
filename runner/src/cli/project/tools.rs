//! The compilers of a project: where they are on this machine, and how to install what is missing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{HandlerLanguage, RUST_TARGET};

/// The oldest Go with `//go:wasmexport`, and the oldest Node that the AssemblyScript compiler supports.
const GO_NEEDED: (u32, u32) = (1, 24);
const NODE_NEEDED: (u32, u32) = (20, 0);
/// The versions of LLVM whose programs have their version in their names.
const LLVM_VERSIONS: std::ops::RangeInclusive<u32> = 14..=24;

/// A tool that a build needs and this machine lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingTool {
    /// What is missing.
    pub(crate) what: String,
    /// The command that installs it, or where it is to be had.
    pub(crate) remedy: String,
}

/// A compiler of C.
pub(crate) enum CCompiler {
    /// Clang, and its linker for wasm.
    Clang { clang: PathBuf, linker: PathBuf },
    /// The clang and the linker inside zig.
    Zig(PathBuf),
}

/// The first tool that the language's build needs in this folder and that is missing.
pub(crate) fn missing(language: HandlerLanguage, dir: &Path) -> Option<MissingTool> {
    match language {
        HandlerLanguage::TypeScript | HandlerLanguage::Python | HandlerLanguage::Wat => None,
        HandlerLanguage::Rust => missing_for_rust(dir),
        HandlerLanguage::Go => {
            let remedy = "install Go 1.24 or newer: https://go.dev/dl";
            missing_version("go", "version", GO_NEEDED, remedy)
        }
        HandlerLanguage::AssemblyScript => {
            let remedy = "install Node 20 or newer with npm: https://nodejs.org";
            missing_version("node", "--version", NODE_NEEDED, remedy)
                .or_else(|| find("npm").is_none().then(|| tool("npm", remedy)))
        }
        HandlerLanguage::C => c_compiler().err(),
    }
}

fn tool(what: &str, remedy: &str) -> MissingTool {
    MissingTool { what: what.to_owned(), remedy: remedy.to_owned() }
}

fn missing_for_rust(dir: &Path) -> Option<MissingTool> {
    if find("cargo").is_none() {
        let remedy = "install Rust: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh";
        return Some(tool("cargo", remedy));
    }
    // In the project's folder, which may name a toolchain of its own.
    let libraries = rust_sysroot(dir)?.join("lib/rustlib").join(RUST_TARGET);
    if libraries.is_dir() {
        return None;
    }
    let (what, remedy) =
        (format!("Rust's target {RUST_TARGET}"), format!("run: rustup target add {RUST_TARGET}"));
    Some(MissingTool { what, remedy })
}

/// The folder of the Rust toolchain that a folder uses.
fn rust_sysroot(dir: &Path) -> Option<PathBuf> {
    let text = output(Command::new("rustc").args(["--print", "sysroot"]).current_dir(dir))?;
    Some(PathBuf::from(text.trim()))
}

fn missing_version(
    program: &str,
    argument: &str,
    needed: (u32, u32),
    remedy: &str,
) -> Option<MissingTool> {
    if find(program).is_none() {
        return Some(tool(program, remedy));
    }
    let found = output(Command::new(program).arg(argument).env("GOTOOLCHAIN", "local"))
        .as_deref()
        .and_then(version)?;
    let (major, minor) = needed;
    let what = format!("{program} {major}.{minor} or newer (this is {}.{})", found.0, found.1);
    (found < needed).then(|| tool(&what, remedy))
}

/// The first version in a text such as `go version go1.24.3 linux/amd64`.
fn version(text: &str) -> Option<(u32, u32)> {
    let start = text.find(|letter: char| letter.is_ascii_digit())?;
    let mut numbers = text[start..].split(|letter: char| !letter.is_ascii_digit());
    Some((
        numbers.next()?.parse().ok()?,
        numbers.next().and_then(|text| text.parse().ok()).unwrap_or(0),
    ))
}

/// A clang that compiles to wasm, and a linker: LLVM's own, or the one that comes with Rust. Or else zig, which has both.
pub(crate) fn c_compiler() -> Result<CCompiler, MissingTool> {
    let compiles_to_wasm = |clang: &PathBuf| {
        let targets = output(Command::new(clang).arg("--print-targets"));
        targets.is_some_and(|targets| targets.contains("wasm32"))
    };
    let clang = versioned("clang").into_iter().find(compiles_to_wasm);
    let linker = versioned("wasm-ld").into_iter().next().or_else(linker_of_rust);
    let what = match clang {
        None => "clang with a back end for wasm32",
        Some(_) => "wasm-ld, the linker of LLVM for wasm",
    };
    if let (Some(clang), Some(linker)) = (clang, linker) {
        return Ok(CCompiler::Clang { clang, linker });
    }
    let remedy = "run: apt-get install clang lld (or install LLVM from https://releases.llvm.org, or \
                  zig from https://ziglang.org/download)";
    find("zig").map(CCompiler::Zig).ok_or_else(|| tool(what, remedy))
}

/// A program of LLVM by its name, and by its name with a version, newest first.
fn versioned(name: &str) -> Vec<PathBuf> {
    let plain = find(name);
    plain
        .into_iter()
        .chain(LLVM_VERSIONS.rev().filter_map(|version| find(&format!("{name}-{version}"))))
        .collect()
}

/// The linker in Rust's toolchain, under the name that clang calls.
fn linker_of_rust() -> Option<PathBuf> {
    let libraries = rust_sysroot(Path::new("."))?.join("lib/rustlib");
    let hosts = libraries.read_dir().ok()?.flatten();
    hosts.map(|host| host.path().join("bin/gcc-ld/wasm-ld")).find(|linker| linker.is_file())
}

/// A program on the search path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// What a program prints, if it succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_tools_print() {
        assert_eq!(version("go version go1.24.3 linux/amd64"), Some((1, 24)));
        assert_eq!(version("v22.11.0\n"), Some((22, 11)));
        assert_eq!(version("go version devel"), None);
        assert!((1, 9) < GO_NEEDED && (2, 0) > GO_NEEDED);
    }
}
