//! `duebox inspect`: what a handler's file contains, needs and costs; or why it is refused, and how to mend it.

mod cost;
mod examine;
mod mend;
mod needs;
mod report;
mod source;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

pub(super) use self::examine::{Inspection, Subject, TrialMode, examine, place_of};
use super::Common;
use super::support::failure::{BAD_INPUT, Failure};
use super::support::output;
use super::support::payload::Source;

/// The longest payload that a handler is tried on.
const PAYLOAD_MAX: usize = 64 << 20;

/// Show what a handler contains, needs and costs, or why it is refused
///
/// Prints exports, imports, the size of each section, what built the module, its digest, and what
/// compiling, instantiating and calling it costs on this machine; and the sandbox block of the
/// manifest that it needs. A refused module is explained in the words of its language. The handler
/// is called without effects: no request, an empty store, no follow-up.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox inspect build/handler.wasm
  duebox inspect build/handler.wasm --payload '{\"order\":42}' --json
  duebox inspect handler.ts

Exit codes:
  0  the handler can be served
  2  it is refused, or a topic of the manifest that binds it does not grant what it needs")]
pub(super) struct InspectArgs {
    /// The handler: .wasm, .wat, .js, .ts or .py
    #[arg(value_name = "MODULE")]
    module: PathBuf,
    /// The payload of the measured calls: a text, @FILE for a file's content, - for stdin; empty by default
    #[arg(long, value_name = "PAYLOAD|@FILE|-", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn inspect(common: &Common, args: &InspectArgs) -> Result<ExitCode, Failure> {
    let payload = Source::new(args.payload.clone()).read(PAYLOAD_MAX)?;
    let (manifest, file) = (common.manifest(), args.module.as_path());
    let subject = Subject { manifest, file, content: file, trial: TrialMode::Measured(payload) };
    let inspection = examine(common, subject)?;
    print(&inspection, args.json)
}

/// Prints an inspection. Fails if a topic that binds the handler would refuse it.
pub(super) fn print(inspection: &Inspection, json: bool) -> Result<ExitCode, Failure> {
    if json {
        print_report(inspection)?;
        return Ok(exit_code(inspection));
    }
    output::print(&report::describe(inspection))?;
    match inspection.refusing_topics().into_iter().next() {
        None => Ok(ExitCode::SUCCESS),
        Some((message, hint)) => Err(Failure::bad_input(message, hint)),
    }
}

/// Prints an inspection as JSON.
pub(super) fn print_report(inspection: &Inspection) -> Result<(), Failure> {
    output::print_json(&report::InspectReport::of(inspection))
}

/// Bad input if a topic that binds the handler would refuse it.
pub(super) fn exit_code(inspection: &Inspection) -> ExitCode {
    ExitCode::from(if inspection.refusing_topics().is_empty() { 0 } else { BAD_INPUT })
}

/// A path as it is shown.
fn shown(path: &Path) -> String {
    path.display().to_string()
}
