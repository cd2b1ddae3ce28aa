//! The sandbox: loads modules, and owns what all handlers share.

use std::path::Path;
use std::sync::Arc;

use wasmtime::Module;

use crate::config::SandboxConfig;
use crate::digest::Digest;
use crate::engine::{self, EngineKind};
use crate::error::SandboxError;
use crate::grants::Grants;
use crate::handler::{Handler, Shared};
use crate::imports::wasi;
use crate::instance::linked::Linked;
use crate::instance::reset::StartImage;
use crate::instance::template::{ModuleExports, Template};
use crate::limits::Limits;
use crate::memory_budget::MemoryAccount;
use crate::module::cache::ModuleCache;
use crate::module::compile::{self, Compiled, Compiler, Evaluated, Script, Source};
use crate::module::compiler_process::CompilerProcesses;
use crate::module::engine_context::EngineContexts;
use crate::module::snapshot::StartState;
use crate::module::{CompilerProcess, LoadError, exports};
use crate::snapshot_seed::SnapshotSeed;

/// Bytes of a page of linear memory.
const PAGE: usize = 64 << 10;

/// What distinguishes the template of one handler from another's, besides limits and grants.
struct TemplateParts<'a> {
    linked: Linked,
    exports: ModuleExports,
    image: Option<StartImage>,
    /// The module that defines the memory.
    memory: &'a Module,
    /// The module that imports the host's functions.
    code: &'a Module,
}

/// Where handlers run. A process needs one: all handlers share its instance pool, its cache and its memory
/// budget.
pub struct Sandbox {
    contexts: EngineContexts,
    compiler: Compiler,
    shared: Shared,
    tables_max: u32,
}

impl Sandbox {
    /// Starts the engine, its ticker and the compile threads. If the machine refuses the address space of
    /// the instance pool, it logs a warning and continues without a pool.
    ///
    /// # Errors
    /// [`SandboxError`] if the engine or a thread does not start.
    pub fn new(config: &SandboxConfig) -> Result<Self, SandboxError> {
        // With RUST_BACKTRACE, Wasmtime would capture the host's frames for every trap and every errno of
        // WASI. This takes 20 to 100 µs and says nothing about the guest.
        wasmtime::error::disable_backtrace();
        Ok(Self {
            contexts: EngineContexts::start(config)?,
            compiler: Compiler::new()?,
            shared: Shared::default(),
            tables_max: engine::pool_tables(config),
        })
    }

    /// Stores compiled modules in a directory, which is created if it does not exist. Loading a module from
    /// it takes milliseconds. It contains at most 1 GiB; the least recently used modules are removed.
    ///
    /// # Errors
    /// [`SandboxError::Cache`] if the directory cannot be opened, belongs to another user, or is writable by
    /// others: compiled code is trusted.
    pub fn use_cache_dir(&mut self, path: &Path) -> Result<(), SandboxError> {
        self.compiler.use_cache(ModuleCache::open(path)?);
        Ok(())
    }

    /// Compiles modules in another process with limits on memory and time. Initially they are compiled in
    /// this process, without limits: a hostile module can then use all of its memory.
    pub fn use_compiler_process(&mut self, process: CompilerProcess) {
        self.compiler.use_process(CompilerProcesses::new(process));
    }

    /// Limits the linear memory of all guests together, in bytes. Initially there is no limit. The guests of
    /// one handler may use seven eighths of it; the rest is reserved for handlers that hold less. A guest
    /// that starts waits within its ttr until there is room. A guest that grows beyond the limit ends as a
    /// host fault, which spends no attempt. The limit may change while guests run.
    pub fn limit_memory(&self, bytes: usize) {
        self.shared.budget.limit(bytes);
    }

    /// Bytes of linear memory that guests hold now, including idle instances.
    pub fn memory_held(&self) -> usize {
        self.shared.budget.held()
    }

    /// Bytes of linear memory that all guests together may hold; `usize::MAX` without a limit.
    pub fn memory_max(&self) -> usize {
        self.shared.budget.max()
    }

    /// Whether instances come from a pool. If not, they are allocated on demand.
    pub fn is_pooling(&self) -> bool {
        self.contexts.is_pooling()
    }

    /// Checks and compiles a module, binary or text. It runs no function of the module, except
    /// `_initialize` for a snapshot. It blocks, for seconds with a large module.
    ///
    /// # Errors
    /// [`LoadError`] says what is wrong with the module, and the remedy.
    pub fn load(&self, bytes: &[u8], limits: Limits, grants: Grants) -> Result<Handler, LoadError> {
        self.load_with_seed(bytes, limits, grants, None)
    }

    /// Loads a module like [`load`](Self::load). If it starts from a snapshot, `_initialize` draws the random
    /// bytes of this seed: the snapshot is the one of the [handler](Handler::snapshot_seed) that had it.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_with_seed(
        &self,
        bytes: &[u8],
        limits: Limits,
        grants: Grants,
        seed: Option<SnapshotSeed>,
    ) -> Result<Handler, LoadError> {
        if limits.tables > self.tables_max {
            return Err(LoadError::PoolTables { wanted: limits.tables, max: self.tables_max });
        }
        wasi::check_dirs(&grants)?;
        let binary = &*compile::to_binary(bytes, &limits)?;
        let start = StartState::of(binary, &limits);
        let kind = EngineKind {
            counts_fuel: limits.fuel.is_some(),
            resets_instances: limits.instances.snapshot || start != StartState::Run,
        };
        let context = self
            .contexts
            .get(kind)
            .map_err(|error| LoadError::Engine { reason: error.to_string() })?;
        let digest = Digest::of(bytes);
        let source = Source { binary, start, digest, limits: &limits, grants: &grants, seed };
        let compiled = self.compiler.compile(&context, source)?;
        let Compiled { module, image, seed } = compiled;
        let parts = TemplateParts {
            linked: Linked::Module(context.link(&module)?),
            exports: exports::find(&module)?,
            image,
            memory: &module,
            code: &module,
        };
        let template = self.template(parts, limits, grants);
        let ticker = Arc::clone(&context.ticker);
        Ok(Handler::new(template, (digest, seed), ticker, self.shared.clone()))
    }

    /// Evaluates a program in its interpreter. Each job starts with the state after that, as with a snapshot:
    /// `limits.instances.snapshot` is ignored. It blocks for as long as the program's top level runs, and for
    /// seconds if the interpreter is not compiled yet.
    ///
    /// # Errors
    /// [`LoadError`] says what is wrong with the program, and the remedy.
    pub fn load_script(
        &self,
        script: &Script<'_>,
        limits: Limits,
        grants: Grants,
    ) -> Result<Handler, LoadError> {
        let kind = EngineKind { counts_fuel: limits.fuel.is_some(), resets_instances: true };
        let context = self
            .contexts
            .get(kind)
            .map_err(|error| LoadError::Engine { reason: error.to_string() })?;
        let Evaluated { linked, image, seed } =
            self.compiler.evaluate(&context, script, &limits, &grants)?;
        let (memory, code) = (linked.memory.module().clone(), linked.code.clone());
        // The program has been evaluated: `_initialize` is not called again.
        let exports = ModuleExports { initialize: None, ..exports::find(&code)? };
        let linked = Linked::Interpreter(linked);
        let parts = TemplateParts { linked, exports, image, memory: &memory, code: &code };
        let template = self.template(parts, limits, grants);
        let ticker = Arc::clone(&context.ticker);
        Ok(Handler::new(template, (script.digest, Some(seed)), ticker, self.shared.clone()))
    }

    fn template(&self, parts: TemplateParts<'_>, limits: Limits, grants: Grants) -> Template {
        let TemplateParts { linked, exports, image, memory, code } = parts;
        let pages = memory.resources_required().max_initial_memory_size.unwrap_or(0);
        // A warm topic keeps what a job left in memory, so its instances are not reset.
        let image = image.filter(|_| limits.instances.jobs_each <= 1).map(Arc::new);
        Template {
            linked,
            exports,
            image,
            initial_memory: usize::try_from(pages).unwrap_or(usize::MAX).saturating_mul(PAGE),
            imports_wasi: code.imports().any(|import| import.module() == wasi::NAMESPACE),
            limits,
            grants: Arc::new(grants),
            account: Arc::new(MemoryAccount::new(Arc::clone(&self.shared.budget))),
        }
    }
}
