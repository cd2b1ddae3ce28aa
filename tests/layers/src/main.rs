//! Checks the layers of every crate in [`duebox_layers::declared::CRATES`]; exits 1 if one is not in order.
//!
//! `cargo run --manifest-path tests/layers/Cargo.toml [-- ROOT [CRATE…]]`: ROOT is the repository, by default the
//! current folder; with names, only those crates are checked.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "its reader is at a terminal")]

use std::path::PathBuf;
use std::process::ExitCode;

use duebox_layers::check;
use duebox_layers::declared::CRATES;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let root = PathBuf::from(arguments.next().unwrap_or_default());
    let wanted: Vec<String> = arguments.collect();
    if let Some(unknown) =
        wanted.iter().find(|name| CRATES.iter().all(|known| known.name != **name))
    {
        eprintln!("layers: there is no crate {unknown} in tests/layers/src/declared.rs");
        return ExitCode::from(2);
    }
    let mut faults = 0;
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    for declared in CRATES.iter().filter(|declared| is_wanted(declared.name)) {
        match check(&root, declared) {
            Ok(checked) => {
                for violation in &checked.violations {
                    eprintln!("{violation}");
                }
                faults += checked.violations.len();
                println!(
                    "{}: {} files, {} imports between layers, {} not in order",
                    declared.name,
                    checked.files,
                    checked.imports,
                    checked.violations.len()
                );
            }
            Err(error) => {
                eprintln!("{error}");
                faults += 1;
            }
        }
    }
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
