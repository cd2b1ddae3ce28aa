//! The sandbox: where modules get in, and what all of them share.

use std::path::Path;
use std::sync::Arc;

use crate::digest::Digest;
use crate::engine::{self, Kind};
use crate::handler::{Common, Handler};
use crate::imports::wasi;
use crate::limits::{Grants, Limits};
use crate::module::cache::Cache;
use crate::module::compile::Compiler;
use crate::module::engine_context::Rooms;
use crate::module::error::{LoadError, SandboxError};

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

/// Where handlers run. One a process: all of them share its pools and clocks.
pub struct Sandbox {
    rooms: Rooms,
    compiler: Compiler,
    common: Common,
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
        Ok(Self {
            rooms: Rooms::start(config)?,
            compiler: Compiler::new()?,
            common: Common::default(),
            tables_max: engine::pool_tables(config),
        })
    }

    /// Keeps compiled modules in a directory, which is made if it is not there: loading a module that
    /// is in it takes milliseconds. It holds at most 1 GiB; what was used longest ago goes first.
    ///
    /// # Errors
    /// [`SandboxError::Cache`] if the directory cannot be had, is not ours, or others can write it:
    /// what lies there is run without another look.
    pub fn keep_compiled_in(&mut self, folder: &Path) -> Result<(), SandboxError> {
        self.compiler.keep_in(Cache::open(folder)?);
        Ok(())
    }

    /// Bounds the linear memory of all guests together, in bytes; without it there is no bound. The guests
    /// of one handler may hold seven eighths of it; the rest is for handlers that hold less. A guest that
    /// starts waits for room within its ttr, and one that grows beyond it is interrupted: neither spends an
    /// attempt. It may be changed while guests run.
    pub fn limit_memory(&self, bytes: usize) {
        self.common.budget.limit(bytes);
    }

    /// Bytes of linear memory that guests hold now, warm ones that wait included.
    pub fn memory_held(&self) -> usize {
        self.common.budget.held()
    }

    /// Bytes of linear memory that all guests together may hold; `usize::MAX` for no bound.
    pub fn memory_max(&self) -> usize {
        self.common.budget.max()
    }

    /// Whether instances come from a pool, or are made on demand.
    pub fn is_pooling(&self) -> bool {
        self.rooms.are_pooling()
    }

    /// Checks and compiles a module, binary or text. It runs none of it, but `_initialize` for a snapshot.
    /// Blocks, for seconds with a large module: call it where blocking is allowed.
    ///
    /// # Errors
    /// [`LoadError`] says what is wrong with the module and the remedy.
    pub fn load(&self, bytes: &[u8], limits: Limits, grants: Grants) -> Result<Handler, LoadError> {
        if limits.tables > self.tables_max {
            return Err(LoadError::PoolTables { wanted: limits.tables, max: self.tables_max });
        }
        wasi::check_dirs(&grants)?;
        let kind = Kind { metered: limits.fuel > 0, snapshots: limits.instances.snapshot };
        let room = self.rooms.of(kind).map_err(|error| LoadError::Engine(error.to_string()))?;
        let digest = Digest::of(bytes);
        let compiled = self.compiler.compile(&room, bytes, digest, &limits, &grants)?;
        let (linked, ticker) = (room.link(&compiled.module)?, Arc::clone(&room.ticker));
        let common = self.common.clone();
        Handler::new(linked, compiled.origin, digest, limits, grants, ticker, common)
    }
}
