//! `duebox build`: compiles the handler of a project with the tools of its language, and inspects it.

mod compile;
mod place;

use std::path::PathBuf;
use std::process::ExitCode;

use bytes::Bytes;
use clap::Args;

use super::Common;
use super::inspect;
use super::project::{HandlerLanguage, MODULE, ProjectKind, tools};
use super::support::failure::Failure;
use super::support::output;

/// The manifest of a project.
const MANIFEST: &str = "duebox.toml";

/// Compile the handler of a project, and check it
///
/// Finds the language by the project's files (Cargo.toml, go.mod, asconfig.json, *.c, or a .ts, .py
/// or .wat file, which needs no build), runs its compiler with the flags that a handler needs, and
/// writes build/handler.wasm. Everything that is written is in the project. Debug information is
/// removed, the names of functions stay; with wasm-opt on the path, modules of Rust and C are
/// optimized by it. Then the handler is inspected, as `duebox inspect` does.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox build
  duebox build handlers/order-close --json

Exit codes:
  0  the handler is built, and can be served
  1  the compiler failed, or is missing
  2  the folder has no handler, the handler is refused, or the manifest does not grant what it needs")]
pub(super) struct BuildArgs {
    /// The folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
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
    let file = match source {
        ProjectKind::Served(file) => dir.join(file),
        ProjectKind::Compiled => {
            if let Some(tools::MissingTool { what, remedy }) = tools::missing(language, dir) {
                let message =
                    format!("{what} is missing, and handlers in {} need it", language.name());
                return Err(Failure::failed(message, remedy));
            }
            let module = dir.join(MODULE);
            let compiled = compile::compile(language, dir)?;
            place::place(&compiled, &module, language)?;
            module
        }
    };
    let manifest = common.manifest.clone().unwrap_or_else(|| dir.join(MANIFEST));
    let inspection = inspect::examine(common, &manifest, &file, Bytes::new())?;
    if !args.json {
        let nothing =
            if language.is_compiled() { "" } else { ": it is served as it is, nothing was built" };
        output::print(&format!(
            "{} is a handler in {}{nothing}\n",
            file.display(),
            language.name()
        ))?;
    }
    inspect::print(&inspection, args.json)
}
