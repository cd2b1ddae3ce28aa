//! From a module's file to code that can run. A short-lived engine compiles, and only its finished
//! code enters the engine that runs jobs: wasmtime 48 keeps what its compiler allocated for as long
//! as the engine lives, so an engine that both compiles and runs would grow with every reload.

use std::borrow::Cow;

use wasmtime::{Engine, Module};

use crate::engine;
use crate::limits::{Grants, Limits};
use crate::module;
use crate::refusal::{LoadError, SandboxError};

/// The longest line of a module's text that is quoted, in characters.
const TEXT_LINE_MAX: usize = 120;

/// How much nicer compile threads are than the daemon, and the nicest a thread can be.
const COMPILE_NICER: i32 = 5;
const NICE_MAX: i32 = 19;

/// Compiles modules, on a bounded number of threads however many are loaded at once.
pub(crate) struct Compiler {
    threads: rayon::ThreadPool,
}

impl Compiler {
    /// As many threads as cores, which stand back where jobs want to run.
    pub(crate) fn new() -> Result<Self, SandboxError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(cores)
            .thread_name(|index| format!("compile-{index}"))
            .start_handler(|_| stand_back())
            .build()
            .map_err(|error| SandboxError::Thread { what: "compile", why: error.to_string() })?;
        Ok(Self { threads })
    }

    /// Checks and compiles a file's bytes for `engine`.
    pub(crate) fn compile(
        &self,
        engine: &Engine,
        bytes: &[u8],
        limits: &Limits,
        grants: &Grants,
    ) -> Result<Module, LoadError> {
        let binary = binary(bytes, limits)?;
        module::check(&binary, limits, grants)?;
        let code = self.threads.install(|| {
            let compiler = Engine::new(&engine::on_demand())?;
            compiler.precompile_module(&binary)
        });
        let invalid = |error: wasmtime::Error| LoadError::Invalid(format!("{error:#}"));
        let module = deserialize(engine, &code.map_err(invalid)?).map_err(invalid)?;
        // Now, or the first job would pay for it.
        module.initialize_copy_on_write_image().map_err(invalid)?;
        Ok(module)
    }
}

/// Gives this thread a third of the share that a thread with jobs gets. Linux alone knows a priority
/// of one thread; a machine that refuses it only compiles at the jobs' cost.
fn stand_back() {
    let nicer = || {
        let nice = rustix::process::getpriority_process(None)?;
        rustix::process::setpriority_process(None, (nice + COMPILE_NICER).min(NICE_MAX))
    };
    if cfg!(target_os = "linux")
        && let Err(error) = nicer()
    {
        tracing::debug!("compile threads run at the priority of jobs: {error}");
    }
}

/// The file as a binary module, parsed if it is text.
fn binary<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>, LoadError> {
    const MAGIC: &[u8] = b"\0asm";
    if bytes.len() > limits.module {
        return Err(LoadError::TooLarge { size: bytes.len(), max: limits.module });
    }
    if bytes.is_empty() {
        return Err(LoadError::Empty);
    }
    if MAGIC.starts_with(bytes) || bytes.starts_with(MAGIC) {
        return Ok(Cow::Borrowed(bytes));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| LoadError::NotWasm)?;
    if text.contains('\0') {
        return Err(LoadError::NotWasm);
    }
    let binary = wat::parse_str(text).map_err(|error| LoadError::Text(place(&error)))?;
    Ok(Cow::Owned(binary))
}

/// The error with the line and column it is at, and no more of the text than a person can read.
fn place(error: &wat::Error) -> String {
    let text = error.to_string().replace("<anon>:", "line ");
    let short = |line: &str| line.chars().take(TEXT_LINE_MAX).collect();
    text.lines().map(short).collect::<Vec<String>>().join("\n")
}

#[expect(unsafe_code, reason = "wasmtime trusts precompiled code; this code it made itself, above")]
fn deserialize(engine: &Engine, code: &[u8]) -> wasmtime::Result<Module> {
    // SAFETY: `code` comes from `precompile_module` of this very process, and never left its memory.
    unsafe { Module::deserialize(engine, code) }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn compile_threads_stand_back_and_no_other_does() {
        let before = getpriority_process(None).unwrap();
        let compiler = Compiler::new().unwrap();
        let inside = compiler.threads.install(|| getpriority_process(None)).unwrap();
        assert_eq!(inside, (before + COMPILE_NICER).min(NICE_MAX));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
