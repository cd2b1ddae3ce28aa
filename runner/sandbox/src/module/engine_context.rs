//! An engine with what belongs to it: the imports as they are linked there, and its clock. There is one of
//! each kind at most, started for the first module that needs it.

use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::{Engine, InstancePre, Linker, Module, UnknownImportError};

use crate::engine::{self, Kind, Ticker};
use crate::imports::abi;
use crate::imports::assemblyscript;
use crate::imports::wasi;
use crate::instance::guest::Guest;
use crate::module::error::{LoadError, SandboxError};
use crate::sandbox::SandboxConfig;

/// Where the handlers of one kind run.
pub(crate) struct Room {
    pub(crate) engine: Engine,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) kind: Kind,
    /// Whether instances come from a pool, or are made on demand.
    pub(crate) pooling: bool,
    linker: Linker<Guest>,
}

impl Room {
    /// Starts the engine and its clock.
    fn start(config: &SandboxConfig, kind: Kind) -> Result<Self, SandboxError> {
        let (engine, pooling) = engine::start(config, kind)?;
        let linker = link(&engine).map_err(|error| SandboxError::Engine(format!("{error:#}")))?;
        let ticker = Ticker::start(&engine)?;
        Ok(Self { engine, ticker, kind, pooling, linker })
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

/// The rooms there are.
pub(crate) struct Rooms {
    config: SandboxConfig,
    plain: Arc<Room>,
    others: Mutex<Vec<Arc<Room>>>,
}

impl Rooms {
    /// Starts the room that most modules run in.
    pub(crate) fn start(config: &SandboxConfig) -> Result<Self, SandboxError> {
        let plain = Kind { metered: false, snapshots: false };
        let plain = Arc::new(Room::start(config, plain)?);
        Ok(Self { config: config.clone(), plain, others: Mutex::default() })
    }

    /// The room of a kind, started if it is not there.
    pub(crate) fn of(&self, kind: Kind) -> Result<Arc<Room>, SandboxError> {
        if self.plain.kind == kind {
            return Ok(Arc::clone(&self.plain));
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = others.iter().find(|room| room.kind == kind) {
            return Ok(Arc::clone(room));
        }
        let room = Arc::new(Room::start(&self.config, kind)?);
        others.push(Arc::clone(&room));
        Ok(room)
    }

    /// Whether instances come from a pool, or are made on demand.
    pub(crate) fn are_pooling(&self) -> bool {
        self.plain.pooling
    }
}

fn link(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    abi::link(&mut linker)?;
    assemblyscript::link(&mut linker)?;
    wasi::link(&mut linker)?;
    Ok(linker)
}
