//! Records how the binary is built, for `duebox version`. Embeds the modules that serve handlers in other languages, if
//! `sdk/javascript/build.sh` has built them, and the files of the projects that `duebox new` starts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    record_build();
    embed_languages()?;
    embed_projects()
}

fn record_build() {
    println!("cargo::rerun-if-changed=../Cargo.lock");
    // The commit is given by what builds a release: asking Git would build the daemon anew after each commit.
    println!("cargo::rerun-if-env-changed=DUEBOX_COMMIT");
    let given = |name: &str| env::var(name).unwrap_or_default();
    set("COMMIT", &given("DUEBOX_COMMIT"));
    set("TARGET", &given("TARGET"));
    set("OPT_LEVEL", &given("OPT_LEVEL"));
    set("RUSTC", &rustc(&given("RUSTC")));
    set("WASMTIME", &locked("wasmtime"));
}

fn set(name: &str, value: &str) {
    println!("cargo::rustc-env=DUEBOX_BUILD_{name}={value}");
}

/// The version of the compiler; empty if it does not say.
fn rustc(program: &str) -> String {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.unwrap_or_default().trim().trim_start_matches("rustc ").to_owned()
}

/// The locked version of a crate; empty if there is no lock file.
fn locked(name: &str) -> String {
    let lock = fs::read_to_string("../Cargo.lock").unwrap_or_default();
    let entry = format!("name = \"{name}\"\nversion = \"");
    let version = lock.split_once(&entry).and_then(|(_, rest)| rest.split('"').next());
    version.unwrap_or_default().to_owned()
}

fn embed_languages() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/javascript/build");
    // The folder always exists: a missing path would make every build run this again.
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut code = String::new();
    for (constant, file) in [("ENGINE", "engine.wasm"), ("READER", "reader.wasm")] {
        let file = folder.join(file);
        let value = match file.canonicalize() {
            Ok(path) => format!("Some(include_bytes!({path:?}))"),
            Err(_) => "None".to_owned(),
        };
        code += &format!("pub(super) const {constant}: Option<&[u8]> = {value};\n");
    }
    let folder = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&folder).join("javascript.rs"), code)
}

/// The lists of files that `duebox new` writes: a constant, a folder of `sdk/`, and which of its entries belong to it;
/// none means all.
const PROJECT_FILES: [(&str, &str, &[&str]); 13] = [
    ("ASSEMBLYSCRIPT_TEMPLATE", "assemblyscript/template", &[]),
    (
        "ASSEMBLYSCRIPT_SDK",
        "assemblyscript",
        &["LICENSE-APACHE", "LICENSE-MIT", "README.md", "assembly", "package.json", "testing.mjs"],
    ),
    ("C_TEMPLATE", "c/template", &[]),
    ("C_SDK", "c", &["duebox.h", "duebox_http.h", "duebox_json.h", "duebox_redirect.h"]),
    ("GO_TEMPLATE", "go/template", &[]),
    ("GO_SDK", "go", &[]),
    ("PYTHON_TEMPLATE", "python/template", &[]),
    ("PYTHON_SDK", "python/types", &[]),
    ("RUST_TEMPLATE", "rust/template", &[]),
    ("RUST_SDK", "rust", &["Cargo.toml", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "src"]),
    ("TYPESCRIPT_TEMPLATE", "javascript/template", &[]),
    // The types. What runs in Node is complete only when npm has packed it.
    (
        "TYPESCRIPT_SDK",
        "javascript/types",
        &["LICENSE-APACHE", "LICENSE-MIT", "globals.d.ts", "index.d.ts", "tsconfig.json"],
    ),
    ("WAT_TEMPLATE", "wat/template", &[]),
];
/// What tools and tests leave in these folders.
const NOT_OF_A_PROJECT: [&str; 8] = [
    "Cargo.lock",
    "build",
    "data",
    "node_modules",
    "package-lock.json",
    "target",
    "template",
    "testdata",
];

fn embed_projects() -> io::Result<()> {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk").canonicalize()?;
    let mut code = String::new();
    for (constant, folder, entries) in PROJECT_FILES {
        let (folder, mut files) = (sdk.join(folder), Vec::new());
        match entries {
            [] => collect(&folder, &mut files)?,
            _ => entries.iter().try_for_each(|entry| collect(&folder.join(entry), &mut files))?,
        }
        files.sort();
        code += &format!("pub(super) const {constant}: Files = &[\n");
        for file in files {
            let name = file.strip_prefix(&folder).map_err(io::Error::other)?;
            // The tests of an SDK are of no use in a project; those of a template are.
            if !(constant.ends_with("_SDK") && name.to_string_lossy().ends_with("_test.go")) {
                code += &format!("    ({name:?}, include_str!({file:?})),\n");
            }
        }
        code += "];\n";
    }
    let folder = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&folder).join("projects.rs"), code)
}

/// Adds a file, or all files of a folder. A change of them, and a new one, run this again.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", path.display());
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !NOT_OF_A_PROJECT.contains(&name.as_str()) && !name.ends_with(".wasm") {
            collect(&entry.path(), files)?;
        }
    }
    Ok(())
}
