//! `duebox version`: which build this is.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::support::failure::Failure;
use super::support::output;

/// Show which build this is
///
/// `--verbose` adds what a report of a bug needs: the commit, the compiler, and the version of the
/// WebAssembly engine.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox version
  duebox version --verbose")]
pub(super) struct VersionArgs {
    /// Also show commit, target, compiler and engine
    #[arg(long, short)]
    verbose: bool,
    /// Print all of it as JSON
    #[arg(long)]
    json: bool,
}

/// How the binary was built. What is not known is absent.
#[derive(Serialize)]
struct Build {
    version: &'static str,
    commit: Option<&'static str>,
    target: &'static str,
    opt_level: &'static str,
    rustc: &'static str,
    wasmtime: &'static str,
    features: Vec<&'static str>,
}

const BUILD_COMMIT: &str = env!("DUEBOX_BUILD_COMMIT");

pub(super) fn version(args: &VersionArgs) -> Result<ExitCode, Failure> {
    let build = Build {
        version: env!("CARGO_PKG_VERSION"),
        commit: (!BUILD_COMMIT.is_empty()).then_some(BUILD_COMMIT),
        target: env!("DUEBOX_BUILD_TARGET"),
        opt_level: env!("DUEBOX_BUILD_OPT_LEVEL"),
        rustc: env!("DUEBOX_BUILD_RUSTC"),
        wasmtime: env!("DUEBOX_BUILD_WASMTIME"),
        features: if cfg!(feature = "fuzzing") { vec!["fuzzing"] } else { Vec::new() },
    };
    match (args.json, args.verbose) {
        (true, _) => output::print_json(&build)?,
        (false, true) => output::print(&format!("duebox {}\n{}", build.version, details(&build)))?,
        (false, false) => output::print(&format!("duebox {}", build.version))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn details(build: &Build) -> String {
    let or = |text: &str, missing: &str| if text.is_empty() { missing } else { text }.to_owned();
    output::fields(&[
        ("commit", build.commit.unwrap_or("unknown: not a release").to_owned()),
        ("target", build.target.to_owned()),
        ("opt-level", build.opt_level.to_owned()),
        ("features", or(&build.features.join(", "), "none")),
        ("rustc", or(build.rustc, "unknown")),
        ("wasmtime", or(build.wasmtime, "unknown")),
    ])
}
