//! The sandbox: the engine, what modules are linked to, and the way a module gets in.

use std::sync::Arc;

use wasmtime::{Engine, Linker, UnknownImportError};

use crate::compile::Compiler;
use crate::digest::Digest;
use crate::engine::{self, Ticker};
use crate::guest::Guest;
use crate::handler::Handler;
use crate::limits::{Grants, Limits};
use crate::refusal::{LoadError, SandboxError};
use crate::{abi, assemblyscript, wasi};

/// The size of a sandbox, fixed at its start.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// Guests that run at once, 1 or more. More wait for nothing: they end in a host fault.
    pub max_jobs: u32,
    /// The largest memory limit of any topic, in bytes. Bounds what an idle slot keeps; a topic may
    /// raise its limit above it by a reload.
    pub memory_max: usize,
    /// The largest table limit of any topic, in elements. Up to a million can be had by a reload.
    pub tables_max: u32,
}

/// Where handlers run. One a process: its engine shares a pool and a clock among all of them.
pub struct Sandbox {
    engine: Engine,
    ticker: Arc<Ticker>,
    compiler: Compiler,
    linker: Linker<Guest>,
    pooling: bool,
    tables_max: u32,
}

impl Sandbox {
    /// Starts the engine, its clock and its compile threads. Where the machine refuses the address
    /// space of a pool, it warns and goes on without one.
    ///
    /// # Errors
    /// [`SandboxError`] if the engine or a thread does not start.
    pub fn new(config: &SandboxConfig) -> Result<Self, SandboxError> {
        // Where RUST_BACKTRACE is set, every trap, and every errno of WASI, would capture the host's
        // frames: 20 to 100 µs a job for what tells nothing about the guest.
        wasmtime::error::disable_backtrace();
        let (engine, pooling) = engine::start(config)?;
        let linker = link(&engine).map_err(|error| SandboxError::Engine(format!("{error:#}")))?;
        let (ticker, compiler) = (Ticker::start(&engine)?, Compiler::new()?);
        let tables_max = engine::pool_tables(config);
        Ok(Self { engine, ticker, compiler, linker, pooling, tables_max })
    }

    /// Whether instances come from a pool, or are made on demand.
    pub fn is_pooling(&self) -> bool {
        self.pooling
    }

    /// Checks and compiles a module, binary or text. It runs none of it. Blocks, for seconds with a
    /// large module: call it where blocking is allowed.
    ///
    /// # Errors
    /// [`LoadError`] says what is wrong with the module and the remedy.
    pub fn load(&self, bytes: &[u8], limits: Limits, grants: Grants) -> Result<Handler, LoadError> {
        if limits.tables > self.tables_max {
            return Err(LoadError::PoolTables { wanted: limits.tables, max: self.tables_max });
        }
        let module = self.compiler.compile(&self.engine, bytes, &limits, &grants)?;
        let linked = self.linker.instantiate_pre(&module);
        let linked = linked.map_err(|error| match error.downcast_ref::<UnknownImportError>() {
            Some(unknown) => LoadError::UnknownImport {
                module: unknown.module().to_owned(),
                name: unknown.name().to_owned(),
            },
            None => LoadError::ImportType(format!("{error:#}")),
        })?;
        Handler::new(linked, Digest::of(bytes), limits, grants, Arc::clone(&self.ticker))
    }
}

fn link(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    abi::link(&mut linker)?;
    assemblyscript::link(&mut linker)?;
    wasi::link(&mut linker)?;
    Ok(linker)
}
