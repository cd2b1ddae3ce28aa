//! Compiles modules.
//!
//! A short-lived engine compiles, and only the finished code enters the engine that runs jobs. Wasmtime 48
//! keeps the allocations of its compiler for the lifetime of the engine, so an engine that both compiles and
//! runs would grow with every reload. With a cache, a module is compiled only once.

use std::borrow::Cow;
use std::fs::File;
use std::io;

use wasmtime::{Engine, Module};

use super::cache::{CacheKey, ModuleCache};
use super::engine_context::EngineContext;
use super::error::LoadError;
use super::{check, snapshot};
use crate::digest::Digest;
use crate::engine;
use crate::error::SandboxError;
use crate::grants::Grants;
use crate::instance::reset::SnapshotImage;
use crate::limits::Limits;

/// The longest line of an error in a module's text that is shown, in characters.
const TEXT_LINE_MAX: usize = 120;

/// What compile threads add to the nice value of the daemon.
const COMPILE_NICE: i32 = 5;
const NICE_MAX: i32 = 19;

/// A module's file with the limits and grants of its topic.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) digest: Digest,
    pub(crate) limits: &'a Limits,
    pub(crate) grants: &'a Grants,
}

/// A compiled module.
pub(crate) struct Compiled {
    pub(crate) module: Module,
    /// The state to which instances can be reset, if the module starts from a snapshot.
    pub(crate) image: Option<SnapshotImage>,
}

/// Compiles modules on a bounded number of threads, however many are loaded at the same time.
pub(crate) struct Compiler {
    threads: rayon::ThreadPool,
    cache: Option<ModuleCache>,
}

impl Compiler {
    /// Starts one thread for each core. The threads have a lower priority than jobs.
    pub(crate) fn new() -> Result<Self, SandboxError> {
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
        Ok(Self { threads, cache: None })
    }

    /// Stores compiled modules in a cache, and takes them from there.
    pub(crate) fn use_cache(&mut self, cache: ModuleCache) {
        self.cache = Some(cache);
    }

    /// Checks and compiles a module.
    pub(crate) fn compile(
        &self,
        context: &EngineContext,
        source: Source<'_>,
    ) -> Result<Compiled, LoadError> {
        let binary = to_binary(source.bytes, source.limits)?;
        check::check(&binary, source.limits, source.grants)?;
        let takes_snapshot = snapshot::is_needed(source.limits, &binary);
        let cached = self.cache_entry(context, source, takes_snapshot);
        let found = cached.as_ref().and_then(|(cache, key)| {
            let file = cache.find(key)?;
            deserialize_file(&context.engine, file).ok()
        });
        let module = match found {
            Some(module) => module,
            None => {
                let code = self.code(context, source, &binary, takes_snapshot)?;
                if let Some((cache, key)) = &cached {
                    cache.insert(key, &code);
                }
                deserialize(&context.engine, &code).map_err(invalid)?
            }
        };
        // If this is not done at load, the first job pays for it.
        module.initialize_copy_on_write_image().map_err(invalid)?;
        let image = if takes_snapshot { SnapshotImage::of(&module) } else { None };
        Ok(Compiled { module, image })
    }

    /// Compiles a module, or its snapshot.
    fn code(
        &self,
        context: &EngineContext,
        source: Source<'_>,
        binary: &[u8],
        takes_snapshot: bool,
    ) -> Result<Vec<u8>, LoadError> {
        let counts_fuel = context.kind.counts_fuel;
        if !takes_snapshot {
            return self.precompile(binary, counts_fuel).map_err(invalid);
        }
        let running = context.ticker.run();
        let image = snapshot::take(binary, source.limits, source.grants, |instrumented| {
            let code = self.precompile(instrumented, counts_fuel).map_err(invalid)?;
            context.link(&deserialize(&context.engine, &code).map_err(invalid)?)
        })?;
        drop(running);
        self.precompile(&image, counts_fuel).map_err(invalid)
    }

    /// The cache, and the key of the module. A snapshot may contain data of the environment or of a granted
    /// file, which may be secret or change. With one of them it is not written to disk.
    fn cache_entry(
        &self,
        context: &EngineContext,
        source: Source<'_>,
        takes_snapshot: bool,
    ) -> Option<(&ModuleCache, CacheKey)> {
        let cache = self.cache.as_ref()?;
        let Source { digest, limits, grants, .. } = source;
        let form = match takes_snapshot {
            false => "plain".to_owned(),
            true if grants.env.is_empty() && grants.dirs.is_empty() => {
                let fuel = limits.fuel.map_or(0, u64::from);
                format!("exporting snapshot {} {} {fuel}", limits.memory, limits.tables)
            }
            true => return None,
        };
        Some((cache, CacheKey::new(&context.engine, digest, &form)))
    }

    fn precompile(&self, binary: &[u8], counts_fuel: bool) -> wasmtime::Result<Vec<u8>> {
        self.threads.install(|| {
            let compiler = Engine::new(&engine::on_demand(counts_fuel))?;
            compiler.precompile_module(binary)
        })
    }
}

fn invalid(error: wasmtime::Error) -> LoadError {
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

/// The file as a binary module. A text module is parsed.
fn to_binary<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>, LoadError> {
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
    let binary =
        wat::parse_str(text).map_err(|error| LoadError::Text { reason: describe(&error) })?;
    Ok(Cow::Owned(binary))
}

/// The error with its line and column. Lines of the text are shortened.
fn describe(error: &wat::Error) -> String {
    let text = error.to_string().replace("<anon>:", "line ");
    let short = |line: &str| line.chars().take(TEXT_LINE_MAX).collect();
    text.lines().map(short).collect::<Vec<String>>().join("\n")
}

#[expect(unsafe_code, reason = "wasmtime trusts precompiled code; this process has compiled it")]
fn deserialize(engine: &Engine, code: &[u8]) -> wasmtime::Result<Module> {
    // SAFETY: `code` comes from `precompile_module` of this process, and has not left its memory.
    unsafe { Module::deserialize(engine, code) }
}

#[expect(
    unsafe_code,
    reason = "wasmtime trusts precompiled code; the cache contains only code that this user has compiled"
)]
fn deserialize_file(engine: &Engine, file: File) -> wasmtime::Result<Module> {
    // SAFETY: the cache returns only complete files with output of `precompile_module` that a process of
    // this user has written and no other user can write. Such a file never changes: a new file replaces its
    // name, and the old one stays as it is for those that have it open.
    unsafe { Module::deserialize_open_file(engine, file) }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn only_compile_threads_have_a_lower_priority() {
        let before = getpriority_process(None).unwrap();
        let compiler = Compiler::new().unwrap();
        let inside = compiler.threads.install(|| getpriority_process(None)).unwrap();
        assert_eq!(inside, (before + COMPILE_NICE).min(NICE_MAX));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
