//! From a module's file to a compiled module: from the cache, or by compiling it.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::sync::Arc;

use parking_lot::Mutex;
use wasmtime::Module;

use super::cache::{CacheKey, ModuleCache};
use super::codegen::{CodeForm, CodeGenerator, CompileTask, invalid};
use super::compiled_code::{deserialize, deserialize_file};
use super::compiler_process::CompilerProcesses;
use super::engine_context::EngineContext;
use super::error::LoadError;
use super::interpreter::{self, Interpreter};
use super::snapshot::StartState;
use super::{cache, check, code, evaluate, own_binary};
use crate::digest::Digest;
use crate::engine::EngineKind;
use crate::error::SandboxError;
use crate::grants::Grants;
use crate::instance::linked::LinkedInterpreter;
use crate::instance::reset::StartImage;
use crate::limits::Limits;
use crate::snapshot_seed::SnapshotSeed;

/// The longest line of an error in a module's text that is shown, in characters.
const TEXT_LINE_MAX: usize = 120;
/// The longest text module, in bytes. Its parser takes about a hundred times as much memory.
const TEXT_MAX: usize = 1 << 20;

/// A module's file with the limits and grants of its topic.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The file as a binary module.
    pub(crate) binary: &'a [u8],
    /// What its jobs find when they start.
    pub(crate) start: StartState,
    pub(crate) digest: Digest,
    pub(crate) limits: &'a Limits,
    pub(crate) grants: &'a Grants,
    /// The seed of its snapshot; `None` takes the snapshot of the cache, or draws a seed.
    pub(crate) seed: Option<SnapshotSeed>,
}

/// A compiled module.
pub(crate) struct Compiled {
    pub(crate) module: Module,
    /// The state to which instances can be reset, if they can.
    pub(crate) image: Option<StartImage>,
    /// The seed of the snapshot.
    pub(crate) seed: Option<SnapshotSeed>,
}

/// An interpreter with an evaluated program.
pub(crate) struct Evaluated {
    pub(crate) linked: LinkedInterpreter,
    pub(crate) image: Option<StartImage>,
    pub(crate) seed: SnapshotSeed,
}

/// A program in a language that an interpreter runs.
pub struct Script<'a> {
    /// The interpreter's module. It is trusted, and has all imports of the ABI: what the topic does not grant
    /// is refused when it is called.
    pub interpreter: &'a [u8],
    /// The digest of the interpreter's module.
    pub interpreter_digest: Digest,
    /// The program, in the form that the interpreter expects.
    pub program: &'a [u8],
    /// What identifies the handler: a digest of the program and its interpreter.
    pub digest: Digest,
    /// The seed of the random bytes that the program draws while it is evaluated; `None` draws a seed.
    pub seed: Option<SnapshotSeed>,
}

/// An interpreter before it has evaluated a program.
#[derive(Clone)]
struct CompiledInterpreter {
    digest: Digest,
    kind: EngineKind,
    code: Module,
    memory: Module,
}

/// Compiles modules, in this process or in another one, and keeps them in a cache.
pub(crate) struct Compiler {
    generator: CodeGenerator,
    process: Option<CompilerProcesses>,
    cache: Option<ModuleCache>,
    /// The interpreters in use.
    interpreters: Mutex<Vec<CompiledInterpreter>>,
}

impl Compiler {
    /// A compiler in this process.
    pub(crate) fn new() -> Result<Self, SandboxError> {
        Ok(Self {
            generator: CodeGenerator::start()?,
            process: None,
            cache: None,
            interpreters: Mutex::default(),
        })
    }

    /// Stores compiled modules in a cache, and takes them from there.
    pub(crate) fn use_cache(&mut self, cache: ModuleCache) {
        self.cache = Some(cache);
    }

    /// Compiles in another process from now on.
    pub(crate) fn use_process(&mut self, process: CompilerProcesses) {
        self.process = Some(process);
    }

    /// Checks and compiles a module.
    pub(crate) fn compile(
        &self,
        context: &EngineContext,
        source: Source<'_>,
    ) -> Result<Compiled, LoadError> {
        check::check(source.binary, source.limits, source.grants)?;
        let (module, is_reset, seed) = match source.start {
            StartState::Run => (self.plain(context, source)?, false, None),
            StartState::Written => {
                let (module, exports_state) = self.resettable(context, source)?;
                (module, exports_state, None)
            }
            StartState::Snapshot => {
                let (module, seed) = self.snapshot(context, source)?;
                (module, true, Some(seed))
            }
        };
        // If this is not done at load, the first job pays for it.
        module.initialize_copy_on_write_image().map_err(invalid)?;
        let image = is_reset.then(|| StartImage::of(&module, &module, seed.is_some())).flatten();
        give_back_memory();
        Ok(Compiled { module, image, seed })
    }

    /// The module as it is.
    fn plain(&self, context: &EngineContext, source: Source<'_>) -> Result<Module, LoadError> {
        let cached = self.entry(context, source, "plain");
        self.cached_or(context, cached, || self.generate_checked(context, source, CodeForm::Plain))
    }

    /// The module, and whether it exports all that a job can change.
    fn resettable(
        &self,
        context: &EngineContext,
        source: Source<'_>,
    ) -> Result<(Module, bool), LoadError> {
        let entry = self.entry(context, source, "resettable");
        let found = entry.as_ref().and_then(|(cache, key)| {
            let file = cache.find(key)?;
            let [exports_state] = cache::last_bytes(&file).ok()?;
            Some((deserialize_file(&context.engine, file).ok()?, exports_state == 1))
        });
        if let Some(found) = found {
            return Ok(found);
        }
        let code = self.generate_checked(context, source, CodeForm::Resettable)?;
        if let Some((cache, key)) = &entry {
            cache.insert(key, &code);
        }
        let exports_state = code.last() == Some(&1);
        Ok((deserialize(&context.engine, &code).map_err(invalid)?, exports_state))
    }

    /// The cache, and the key of the module in this form.
    fn entry(
        &self,
        context: &EngineContext,
        source: Source<'_>,
        form: &str,
    ) -> Option<(&ModuleCache, CacheKey)> {
        let cache = self.cache.as_ref()?;
        Some((cache, CacheKey::new(&context.engine, source.digest, form)))
    }

    /// The snapshot of a module with its seed: of the cache, or a new one. A new one with a seed that is given
    /// does not replace the one of the cache.
    fn snapshot(
        &self,
        context: &EngineContext,
        source: Source<'_>,
    ) -> Result<(Module, SnapshotSeed), LoadError> {
        let shared = self.snapshot_entry(context, source, None);
        let own = source.seed.and_then(|seed| self.snapshot_entry(context, source, Some(seed)));
        for (cache, key) in shared.iter().chain(&own) {
            if let Some(found) = cached_snapshot(context, cache, key)
                && source.seed.is_none_or(|seed| seed == found.1)
            {
                return Ok(found);
            }
        }
        let seed = source.seed.unwrap_or_else(SnapshotSeed::draw);
        let code = self.generate_checked(context, source, CodeForm::Snapshot(seed))?;
        let entry = if source.seed.is_some() { own } else { shared };
        if let Some((cache, key)) = entry {
            cache.insert(&key, &[&code[..], &seed.bytes()].concat());
        }
        Ok((deserialize(&context.engine, &code).map_err(invalid)?, seed))
    }

    fn generate_checked(
        &self,
        context: &EngineContext,
        source: Source<'_>,
        form: CodeForm,
    ) -> Result<Vec<u8>, LoadError> {
        let Source { binary, limits, grants, .. } = source;
        code::check(binary)?;
        let task = CompileTask { binary, form, is_interpreter: false, limits, grants };
        self.generate(context, &task)
    }

    /// A program in an interpreter: compiles the interpreter, unless that has been done, and evaluates the
    /// program.
    pub(crate) fn evaluate(
        &self,
        context: &EngineContext,
        script: &Script<'_>,
        limits: &Limits,
        grants: &Grants,
    ) -> Result<Evaluated, LoadError> {
        let CompiledInterpreter { code, memory, .. } = self.interpreter(context, script)?;
        let memory = context.link(&memory)?;
        let linker = Arc::clone(&context.linker);
        let start = LinkedInterpreter { memory, code, linker };
        let seed = script.seed.unwrap_or_else(SnapshotSeed::draw);
        let evaluated = || {
            let granted = (grants, seed);
            let content = evaluate::evaluate(context, &start, script.program, limits, granted)?;
            self.memory(context, &interpreter::memory_module(&content))
        };
        let memory = context.link(&evaluated()?)?;
        give_back_memory();
        let image = StartImage::of(&start.code, memory.module(), true);
        Ok(Evaluated { linked: LinkedInterpreter { memory, ..start }, image, seed })
    }

    /// An interpreter. All its programs share its code.
    fn interpreter(
        &self,
        context: &EngineContext,
        script: &Script<'_>,
    ) -> Result<CompiledInterpreter, LoadError> {
        let digest = script.interpreter_digest;
        let mut known = self.interpreters.lock();
        let is_this = |it: &&CompiledInterpreter| it.digest == digest && it.kind == context.kind;
        if let Some(interpreter) = known.iter().find(is_this) {
            return Ok(interpreter.clone());
        }
        let Interpreter { code, memory } = Interpreter::split(script.interpreter)?;
        let cached = self.cache.as_ref();
        let cached =
            cached.map(|cache| (cache, CacheKey::new(&context.engine, digest, "interpreter")));
        let code = self.cached_or(context, cached, || {
            let (limits, grants) = (Limits::default(), Grants::default());
            let limits =
                Limits { fuel: context.kind.counts_fuel.then_some(NonZeroU64::MAX), ..limits };
            let task = CompileTask {
                binary: &code,
                form: CodeForm::Plain,
                is_interpreter: true,
                limits: &limits,
                grants: &grants,
            };
            self.generate(context, &task)
        })?;
        let memory = self.memory(context, &memory)?;
        let interpreter = CompiledInterpreter { digest, kind: context.kind, code, memory };
        known.push(interpreter.clone());
        Ok(interpreter)
    }

    /// A module that has a memory and no code.
    fn memory(&self, context: &EngineContext, binary: &[u8]) -> Result<Module, LoadError> {
        let (limits, grants) = (Limits::default(), Grants::default());
        let task = CompileTask {
            binary,
            form: CodeForm::Plain,
            is_interpreter: true,
            limits: &limits,
            grants: &grants,
        };
        let code = self.generator.generate(context, &task)?;
        let module = deserialize(&context.engine, &code).map_err(invalid)?;
        module.initialize_copy_on_write_image().map_err(invalid)?;
        Ok(module)
    }

    /// The module of the cache, or the one that `generate` compiles.
    fn cached_or(
        &self,
        context: &EngineContext,
        cached: Option<(&ModuleCache, CacheKey)>,
        generate: impl FnOnce() -> Result<Vec<u8>, LoadError>,
    ) -> Result<Module, LoadError> {
        let found = cached.as_ref().and_then(|(cache, key)| {
            let file = cache.find(key)?;
            deserialize_file(&context.engine, file).ok()
        });
        if let Some(module) = found {
            return Ok(module);
        }
        let code = generate()?;
        if let Some((cache, key)) = &cached {
            cache.insert(key, &code);
        }
        deserialize(&context.engine, &code).map_err(invalid)
    }

    fn generate(
        &self,
        context: &EngineContext,
        task: &CompileTask<'_>,
    ) -> Result<Vec<u8>, LoadError> {
        match &self.process {
            None => self.generator.generate(context, task),
            Some(process) => process.compile(task),
        }
    }

    /// The cache, and the key of the snapshot that all loads share, or of the one with this seed. A snapshot
    /// depends on the imports that `_initialize` calls, so its key contains the binary that took it. A snapshot
    /// may contain data of the environment or of a granted file, which may be secret or change. With one of
    /// them it is not written to disk.
    fn snapshot_entry(
        &self,
        context: &EngineContext,
        source: Source<'_>,
        seed: Option<SnapshotSeed>,
    ) -> Option<(&ModuleCache, CacheKey)> {
        let cache = self.cache.as_ref()?;
        let Source { digest, limits, grants, .. } = source;
        if !grants.env.is_empty() || !grants.dirs.is_empty() {
            return None;
        }
        let (fuel, binary) = (limits.fuel.map_or(0, u64::from), own_binary::fingerprint()?);
        let seed = seed.map(String::from).unwrap_or_default();
        let form = format!("seeded {} {} {fuel} {binary} {seed}", limits.memory, limits.tables);
        Some((cache, CacheKey::new(&context.engine, digest, &form)))
    }
}

/// A snapshot of the cache. Its seed follows the code.
fn cached_snapshot(
    context: &EngineContext,
    cache: &ModuleCache,
    key: &CacheKey,
) -> Option<(Module, SnapshotSeed)> {
    let file = cache.find(key)?;
    let seed = SnapshotSeed::of_bytes(cache::last_bytes(&file).ok()?);
    Some((deserialize_file(&context.engine, file).ok()?, seed))
}

/// Returns to the system what a load has freed, up to some hundred MiB: glibc would keep most of it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "no library wraps malloc_trim")]
fn give_back_memory() {
    // SAFETY: it may be called at any time, on any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back_memory() {}

/// The file as a binary module. A text module is parsed.
pub(crate) fn to_binary<'a>(bytes: &'a [u8], limits: &Limits) -> Result<Cow<'a, [u8]>, LoadError> {
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
    if bytes.len() > TEXT_MAX {
        return Err(LoadError::TextTooLarge { size: bytes.len(), max: TEXT_MAX });
    }
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
