//! Records how the binary is built, for `duebox version`, and embeds the modules that serve handlers in other
//! languages, if `sdk/javascript/build.sh` has built them.

use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    record_build();
    embed_languages()
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
