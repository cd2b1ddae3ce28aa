//! Makes a compiled module smaller, and puts it into its place whole once it has passed its checks: a daemon that watches
//! the place never reads half a module, nor one that it would refuse.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
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

/// A module next to its place. It is removed unless it is placed.
pub(super) struct Candidate {
    path: PathBuf,
    /// Its place.
    module: PathBuf,
}

impl Candidate {
    /// Takes what the compiler wrote, and optimizes it.
    pub(super) fn prepare(
        compiled: &Path,
        module: &Path,
        language: HandlerLanguage,
    ) -> Result<Self, Failure> {
        // No daemon loads a file whose name begins with a dot.
        let (path, module) = (module.with_file_name(".handler.new"), module.to_owned());
        let candidate = Self { path, module };
        let written = fs::read(compiled).and_then(|bytes| {
            let stripped = without_debug_sections(&bytes);
            fs::write(&candidate.path, stripped.as_deref().unwrap_or(&bytes))
        });
        // The compilers of some languages write next to the module; cargo keeps its own file.
        if compiled.parent() == candidate.module.parent() {
            drop(fs::remove_file(compiled));
        }
        written.map_err(|error| unwritable(&candidate.module, &error))?;
        optimize(&candidate.path, language);
        Ok(candidate)
    }

    /// The file that may become the module.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames it to its place, unless the module there is the same.
    pub(super) fn place(self) -> Result<(), Failure> {
        let placed = fs::read(&self.path).and_then(|bytes| {
            match fs::read(&self.module).is_ok_and(|module| module == bytes) {
                true => Ok(()),
                false => fs::rename(&self.path, &self.module),
            }
        });
        placed.map_err(|error| unwritable(&self.module, &error))
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // It is gone if it was placed.
        drop(fs::remove_file(&self.path));
    }
}

fn unwritable(module: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", module.display());
    Failure::failed(message, "name a project that this user can write")
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
