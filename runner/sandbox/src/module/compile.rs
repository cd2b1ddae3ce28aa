//! From a module's file to code that can run. A short-lived engine compiles, and only its finished
//! code enters the engine that runs jobs: wasmtime 48 keeps what its compiler allocated for as long
//! as the engine lives, so an engine that both compiles and runs would grow with every reload. With a
//! cache, what was compiled once is not compiled again.

use std::borrow::Cow;
use std::fs::File;

use wasmtime::{Engine, Module};

use crate::digest::Digest;
use crate::engine;
use crate::instance::reset::Origin;
use crate::limits::{Grants, Limits};
use crate::module::cache::{Cache, Key};
use crate::module::check as module;
use crate::module::engine_context::Room;
use crate::module::error::{LoadError, SandboxError};
use crate::module::snapshot;

/// The longest line of a module's text that is quoted, in characters.
const TEXT_LINE_MAX: usize = 120;

/// How much nicer compile threads are than the daemon, and the nicest a thread can be.
const COMPILE_NICER: i32 = 5;
const NICE_MAX: i32 = 19;

/// A module that can run.
pub(crate) struct Compiled {
    pub(crate) module: Module,
    /// Where its instances start, if that is a snapshot to which they can be put back.
    pub(crate) origin: Option<Origin>,
}

/// Compiles modules, on a bounded number of threads however many are loaded at once.
pub(crate) struct Compiler {
    threads: rayon::ThreadPool,
    cache: Option<Cache>,
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
        Ok(Self { threads, cache: None })
    }

    /// Keeps what it compiles, and takes from there what was compiled before.
    pub(crate) fn keep_in(&mut self, cache: Cache) {
        self.cache = Some(cache);
    }

    /// Checks and compiles a file's bytes for the engine of a room.
    pub(crate) fn compile(
        &self,
        room: &Room,
        bytes: &[u8],
        digest: Digest,
        limits: &Limits,
        grants: &Grants,
    ) -> Result<Compiled, LoadError> {
        let binary = binary(bytes, limits)?;
        module::check(&binary, limits, grants)?;
        let snapshot = snapshot::is_wanted(limits, &binary);
        let kept = self.kept(room, digest, snapshot.then_some((limits, grants)));
        let found = kept.as_ref().and_then(|(cache, key)| {
            let file = cache.find(key)?;
            deserialize_file(&room.engine, file).ok()
        });
        let invalid = |error: wasmtime::Error| LoadError::Invalid(format!("{error:#}"));
        let module = match found {
            Some(module) => module,
            None => {
                let code = match snapshot {
                    false => self.precompile(&binary, room.kind.metered).map_err(invalid)?,
                    true => {
                        let image = self.snapshot(room, &binary, limits, grants)?;
                        self.precompile(&image, room.kind.metered).map_err(invalid)?
                    }
                };
                if let Some((cache, key)) = &kept {
                    cache.keep(key, &code);
                }
                deserialize(&room.engine, &code).map_err(invalid)?
            }
        };
        // Now, or the first job would pay for it.
        module.initialize_copy_on_write_image().map_err(invalid)?;
        let origin = if snapshot { Origin::of(&module) } else { None };
        Ok(Compiled { module, origin })
    }

    /// The cache, and the name of the module in it. A snapshot may hold what the environment or a granted
    /// file says, which may be secret, and change: with one of them it stays off the disk.
    fn kept(
        &self,
        room: &Room,
        digest: Digest,
        snapshot: Option<(&Limits, &Grants)>,
    ) -> Option<(&Cache, Key)> {
        let cache = self.cache.as_ref()?;
        let form = match snapshot {
            None => "plain".to_owned(),
            Some((limits, grants)) if grants.env.is_empty() && grants.dirs.is_empty() => {
                format!("exporting snapshot {} {} {}", limits.memory, limits.tables, limits.fuel)
            }
            Some(_) => return None,
        };
        Some((cache, Key::new(&room.engine, digest, &form)))
    }

    /// The module after its `_initialize`.
    fn snapshot(
        &self,
        room: &Room,
        binary: &[u8],
        limits: &Limits,
        grants: &Grants,
    ) -> Result<Vec<u8>, LoadError> {
        let _running = room.ticker.run();
        snapshot::take(binary, limits, grants, |instrumented| {
            let invalid = |error: wasmtime::Error| LoadError::Invalid(format!("{error:#}"));
            let code = self.precompile(instrumented, room.kind.metered).map_err(invalid)?;
            room.link(&deserialize(&room.engine, &code).map_err(invalid)?)
        })
    }

    fn precompile(&self, binary: &[u8], metered: bool) -> wasmtime::Result<Vec<u8>> {
        self.threads.install(|| {
            let compiler = Engine::new(&engine::on_demand(metered))?;
            compiler.precompile_module(binary)
        })
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

#[expect(
    unsafe_code,
    reason = "wasmtime trusts precompiled code; the cache gives none but its own"
)]
fn deserialize_file(engine: &Engine, file: File) -> wasmtime::Result<Module> {
    // SAFETY: the cache gives out only files that `precompile_module` of a process of this user has filled,
    // that nobody else could write, and that are whole. Nobody writes them any more: a new one takes the
    // name of an old one, which stays as it is for who has it open.
    unsafe { Module::deserialize_open_file(engine, file) }
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
