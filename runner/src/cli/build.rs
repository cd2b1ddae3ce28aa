//! `duebox build`: compiles the handler of a project with the tools of its language, and inspects it.

mod compile;
mod place;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;

use self::place::Candidate;

use super::Common;
use super::inspect::{self, Subject, TrialMode};
use super::project::{HandlerLanguage, MODULE, ProjectKind, tools};
use super::support::failure::Failure;
use super::support::output;

/// The manifest of a project.
const MANIFEST: &str = "duebox.toml";

/// Compile the handler of a project, and check it
///
/// Finds the language by the project's files (Cargo.toml, go.mod, asconfig.json, *.c, or a .ts, .py
/// or .wat file, which needs no build) and runs its compiler with the flags that a handler needs.
/// Debug information is removed, the names of functions stay; with wasm-opt on the path, modules of
/// Rust and C are optimized by it. Then the handler is inspected, as `duebox inspect` does. What
/// passes becomes build/handler.wasm. Everything that is written is in the project.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox build
  duebox build handlers/order-close --json

Exit codes:
  0  the handler is built, and can be served
  1  the compiler failed, or is missing
  2  the folder has no handler, the handler is refused, or the manifest does not grant what it needs

After 1 and 2 build/handler.wasm is as it was.")]
pub(super) struct BuildArgs {
    /// The folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Do not call the handler to measure what a job costs
    #[arg(long)]
    no_cost: bool,
    /// Print the result of the inspection as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn build(common: &Common, args: &BuildArgs) -> Result<ExitCode, Failure> {
    let dir = args.dir.as_path();
    let Some((language, source)) = HandlerLanguage::of_project(dir) else {
        return Err(Failure::bad_input(
            format!(
                "{} has no handler: no Cargo.toml, go.mod, asconfig.json, and no single .c, .ts, .js, .py or .wat file",
                dir.display()
            ),
            "name the folder of a project, or start one: duebox new typescript order-close",
        ));
    };
    let (file, built) = match source {
        ProjectKind::Served(file) => (dir.join(file), None),
        ProjectKind::Compiled => (dir.join(MODULE), Some(compiled(language, dir)?)),
    };
    let manifest = common.manifest.clone().unwrap_or_else(|| dir.join(MANIFEST));
    let content = built.as_ref().map_or(file.as_path(), |(candidate, _)| candidate.path());
    let trial = if args.no_cost { TrialMode::LoadOnly } else { TrialMode::Measured(Bytes::new()) };
    let subject = Subject { manifest: &manifest, file: &file, content, trial };
    let mut inspection = inspect::examine(common, subject)?;
    inspection.compiler = built.as_ref().map(|(_, took)| *took);
    if args.json {
        // Before the module is in its place: `duebox dev` knows what it is when the daemon takes it over.
        inspect::print_report(&inspection)?;
    }
    if let Some((candidate, _)) = built.filter(|_| inspection.refusing_topics().is_empty()) {
        candidate.place()?;
    }
    if args.json {
        return Ok(inspect::exit_code(&inspection));
    }
    let nothing =
        if language.is_compiled() { "" } else { ": it is served as it is, nothing was built" };
    output::print(&format!("{} is a handler in {}{nothing}\n", file.display(), language.name()))?;
    inspect::print(&inspection, false)
}

/// Compiles a project. Returns what may become its module, and how long the compiler of the language ran.
fn compiled(language: HandlerLanguage, dir: &Path) -> Result<(Candidate, Duration), Failure> {
    if let Some(tools::MissingTool { what, remedy }) = tools::missing(language, dir) {
        let message = format!("{what} is missing, and handlers in {} need it", language.name());
        return Err(Failure::failed(message, remedy));
    }
    let began = Instant::now();
    let written = compile::compile(language, dir)?;
    let took = began.elapsed();
    Ok((Candidate::prepare(&written, &dir.join(MODULE), language)?, took))
}
