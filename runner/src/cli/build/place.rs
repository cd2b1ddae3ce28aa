//! Makes a compiled module smaller, and puts it into its place whole: a daemon that watches it never reads half a module.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use duebox_sandbox::without_debug_sections;

use crate::cli::project::{HandlerLanguage, tools};
use crate::cli::support::failure::Failure;
use crate::cli::support::output;

/// What wasm-opt may use: what the sandbox runs, and compilers use by default.
const FEATURES: [&str; 6] = [
    "--enable-bulk-memory",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
];

/// Optimizes a module, and renames it to its place unless the module there is the same.
pub(super) fn place(
    compiled: &Path,
    module: &Path,
    language: HandlerLanguage,
) -> Result<(), Failure> {
    let new = module.with_file_name(".handler.new");
    let placed = fs::read(compiled).and_then(|bytes| {
        let stripped = without_debug_sections(&bytes);
        fs::write(&new, stripped.as_deref().unwrap_or(&bytes))?;
        optimize(&new, language);
        if fs::read(module).ok().as_ref() == Some(&fs::read(&new)?) {
            return fs::remove_file(&new);
        }
        fs::rename(&new, module)
    });
    // The compilers of some languages write next to the module; cargo keeps its own file.
    if compiled.parent() == module.parent() {
        drop(fs::remove_file(compiled));
    }
    placed.map_err(|error: io::Error| {
        drop(fs::remove_file(&new));
        let message = format!("{} cannot be written: {error}", module.display());
        Failure::failed(message, "name a project that this user can write")
    })
}

/// Runs wasm-opt on a module, if it is there. AssemblyScript's compiler has done the same, and Go's modules gain
/// little for many seconds.
fn optimize(module: &Path, language: HandlerLanguage) {
    let gains = matches!(language, HandlerLanguage::Rust | HandlerLanguage::C);
    let Some(program) = tools::find("wasm-opt").filter(|_| gains) else { return };
    let mut command = Command::new(program);
    // Names stay: the backtrace of a trap needs them.
    let optimized = module.with_file_name(".handler.optimized");
    command.args(["-O3", "--debuginfo"]).args(FEATURES).arg(module).arg("--output").arg(&optimized);
    let run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_optimized = run.is_ok_and(|status| status.success());
    if !(is_optimized && fs::rename(&optimized, module).is_ok()) {
        drop(fs::remove_file(optimized));
        output::print_aside(
            "warning: wasm-opt cannot optimize the module, which is used as the compiler wrote it",
        );
    }
}
