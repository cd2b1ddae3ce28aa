//! Generates the native code of a module in this process.
//!
//! A short-lived engine compiles, and only the finished code enters the engine that runs jobs. Wasmtime 48
//! keeps the allocations of its compiler for the lifetime of the engine, so an engine that both compiles and
//! runs would grow with every reload. With a cache, a module is compiled only once.

use std::io;

use serde::{Deserialize, Serialize};
use wasmtime::Engine;

use super::compiled_code::deserialize;
use super::engine_context::EngineContext;
use super::error::LoadError;
use super::snapshot;
use crate::engine;
use crate::error::SandboxError;
use crate::grants::Grants;
use crate::limits::Limits;
use crate::snapshot_seed::SnapshotSeed;

/// What compile threads add to the nice value of the daemon.
const COMPILE_NICE: i32 = 5;
const NICE_MAX: i32 = 19;

/// What is compiled of a module.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum CodeForm {
    /// The module as it is.
    Plain,
    /// The module with exports of its state, if that is possible. One byte behind the code says so: 1 or 0.
    Resettable,
    /// Its snapshot, for which `_initialize` draws the random bytes of this seed.
    Snapshot(SnapshotSeed),
}

/// A checked module to compile.
pub(super) struct CompileTask<'a> {
    pub(super) binary: &'a [u8],
    pub(super) form: CodeForm,
    /// Whether it is an interpreter of Duebox itself, and not a module of a topic.
    pub(super) is_interpreter: bool,
    pub(super) limits: &'a Limits,
    pub(super) grants: &'a Grants,
}

/// Generates code on a bounded number of threads, however many modules are loaded at the same time.
pub(super) struct CodeGenerator {
    threads: rayon::ThreadPool,
}

impl CodeGenerator {
    /// Starts one thread for each core. The threads have a lower priority than jobs.
    pub(super) fn start() -> Result<Self, SandboxError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(cores)
            .thread_name(|index| format!("compile-{index}"))
            .start_handler(|_| lower_priority())
            .build()
            .map_err(|error| SandboxError::Thread {
                thread: "compile",
                source: io::Error::other(error),
            })?;
        Ok(Self { threads })
    }

    /// The code of a module, or of its snapshot. `context` runs the module for the snapshot.
    pub(super) fn generate(
        &self,
        context: &EngineContext,
        task: &CompileTask<'_>,
    ) -> Result<Vec<u8>, LoadError> {
        let counts_fuel = context.kind.counts_fuel;
        let seed = match task.form {
            CodeForm::Plain => return self.precompile(task.binary, counts_fuel).map_err(invalid),
            CodeForm::Resettable => return self.resettable(task.binary, counts_fuel),
            CodeForm::Snapshot(seed) => seed,
        };
        let running = context.ticker.run();
        let image =
            snapshot::take(task.binary, task.limits, (task.grants, seed), |instrumented| {
                let code = self.precompile(instrumented, counts_fuel).map_err(invalid)?;
                context.link(&deserialize(&context.engine, &code).map_err(invalid)?)
            })?;
        drop(running);
        self.precompile(&image, counts_fuel).map_err(invalid)
    }

    fn resettable(&self, binary: &[u8], counts_fuel: bool) -> Result<Vec<u8>, LoadError> {
        let exported = snapshot::export_state(binary);
        let binary = exported.as_deref().unwrap_or(binary);
        let mut code = self.precompile(binary, counts_fuel).map_err(invalid)?;
        code.push(u8::from(exported.is_ok()));
        Ok(code)
    }

    fn precompile(&self, binary: &[u8], counts_fuel: bool) -> wasmtime::Result<Vec<u8>> {
        self.threads.install(|| {
            let compiler = Engine::new(&engine::on_demand(counts_fuel))?;
            compiler.precompile_module(binary)
        })
    }
}

pub(super) fn invalid(error: wasmtime::Error) -> LoadError {
    LoadError::Invalid { reason: format!("{error:#}") }
}

/// Gives this thread about a third of the CPU share of a thread that runs jobs. Only Linux has a priority
/// for single threads. If the system refuses it, compiling delays jobs more.
fn lower_priority() {
    let lower = || {
        let nice = rustix::process::getpriority_process(None)?;
        rustix::process::setpriority_process(None, (nice + COMPILE_NICE).min(NICE_MAX))
    };
    if cfg!(target_os = "linux")
        && let Err(error) = lower()
    {
        tracing::debug!("compile threads run at the priority of jobs: {error}");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn only_compile_threads_have_a_lower_priority() {
        let before = getpriority_process(None).unwrap();
        let generator = CodeGenerator::start().unwrap();
        let inside = generator.threads.install(|| getpriority_process(None)).unwrap();
        assert_eq!(inside, (before + COMPILE_NICE).min(NICE_MAX));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
