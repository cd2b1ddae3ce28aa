//! An engine with what belongs to it: the imports as they are linked there, and its clock. There are
//! two at most, one for the modules that have a budget of fuel and one for all others.

use std::sync::Arc;

use wasmtime::{Engine, InstancePre, Linker, Module, UnknownImportError};

use crate::engine::{self, Ticker};
use crate::guest::Guest;
use crate::refusal::{LoadError, SandboxError};
use crate::sandbox::SandboxConfig;
use crate::{abi, assemblyscript, wasi};

/// Where the handlers of one kind run.
pub(crate) struct Room {
    pub(crate) engine: Engine,
    pub(crate) ticker: Arc<Ticker>,
    /// Whether its modules count the fuel they burn.
    pub(crate) metered: bool,
    /// Whether instances come from a pool, or are made on demand.
    pub(crate) pooling: bool,
    linker: Linker<Guest>,
}

impl Room {
    /// Starts the engine and its clock.
    pub(crate) fn start(config: &SandboxConfig, metered: bool) -> Result<Self, SandboxError> {
        let (engine, pooling) = engine::start(config, metered)?;
        let linker = link(&engine).map_err(|error| SandboxError::Engine(format!("{error:#}")))?;
        let ticker = Ticker::start(&engine)?;
        Ok(Self { engine, ticker, metered, pooling, linker })
    }

    /// Links a module of this room's engine to what the host gives.
    pub(crate) fn link(&self, module: &Module) -> Result<InstancePre<Guest>, LoadError> {
        let linked = self.linker.instantiate_pre(module);
        linked.map_err(|error| match error.downcast_ref::<UnknownImportError>() {
            Some(unknown) => LoadError::UnknownImport {
                module: unknown.module().to_owned(),
                name: unknown.name().to_owned(),
            },
            None => LoadError::ImportType(format!("{error:#}")),
        })
    }
}

fn link(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    abi::link(&mut linker)?;
    assemblyscript::link(&mut linker)?;
    wasi::link(&mut linker)?;
    Ok(linker)
}
