//! How the engine is linked, and the source of its SDK without comments and indentation.

use std::path::Path;
use std::{env, fs, io};

/// The parts of the module "duebox", in one scope.
const PARTS: [&str; 4] = ["duebox", "abort", "crypto", "web"];

fn main() -> io::Result<()> {
    // The daemon gives each instance a memory that already contains the evaluated program.
    for argument in ["--import-memory", "--export-memory", "--export=__stack_pointer"] {
        println!("cargo::rustc-link-arg-cdylib={argument}");
    }
    // The interpreter recurses for each call of the program. `STACK_MAX` in `src/runtime.rs` is less.
    println!("cargo::rustc-link-arg-cdylib=-zstack-size=524288");
    let mut source = String::new();
    for part in PARTS {
        let file = format!("src/{part}.js");
        println!("cargo::rerun-if-changed={file}");
        source.extend(fs::read_to_string(file)?.lines().map(shortened));
    }
    let folder = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&folder).join("sdk.js"), source)
}

/// A line without its indentation; nothing if it is a comment. No text of the SDK has several lines.
fn shortened(line: &str) -> String {
    let line = line.trim();
    let is_comment = line.starts_with("//") || (line.starts_with("/**") && line.ends_with("*/"));
    if is_comment || line.is_empty() { String::new() } else { format!("{line}\n") }
}
