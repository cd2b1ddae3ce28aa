//! An engine with everything that belongs to it: the linked imports and the ticker. There is at most one of
//! each kind. It is started for the first module that needs it.

use std::sync::Arc;

use parking_lot::Mutex;
use wasmtime::{Engine, InstancePre, Linker, Module, UnknownImportError};

use super::error::LoadError;
use crate::config::SandboxConfig;
use crate::engine::ticker::Ticker;
use crate::engine::{self, EngineKind, JobEngine};
use crate::error::SandboxError;
use crate::imports;
use crate::instance::guest::Guest;

/// Where the handlers of one kind run.
pub(crate) struct EngineContext {
    pub(crate) engine: Engine,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) kind: EngineKind,
    is_pooling: bool,
    pub(crate) linker: Arc<Linker<Guest>>,
}

impl EngineContext {
    fn start(config: &SandboxConfig, kind: EngineKind) -> Result<Self, SandboxError> {
        Self::with(engine::start(config, kind)?, kind)
    }

    /// A context that creates each instance on demand, for the few of a snapshot.
    pub(crate) fn on_demand(kind: EngineKind) -> Result<Self, SandboxError> {
        let engine = Engine::new(&engine::on_demand(kind.counts_fuel))
            .map_err(|error| SandboxError::Engine { reason: format!("{error:#}") })?;
        Self::with(JobEngine { engine, is_pooling: false }, kind)
    }

    fn with(job_engine: JobEngine, kind: EngineKind) -> Result<Self, SandboxError> {
        let JobEngine { engine, is_pooling } = job_engine;
        let mut linker = Linker::new(&engine);
        imports::link(&mut linker)
            .map_err(|error| SandboxError::Engine { reason: format!("{error:#}") })?;
        let ticker = Ticker::start(&engine)?;
        Ok(Self { engine, ticker, kind, is_pooling, linker: Arc::new(linker) })
    }

    /// Links a module of this engine to the imports.
    pub(crate) fn link(&self, module: &Module) -> Result<InstancePre<Guest>, LoadError> {
        let linked = self.linker.instantiate_pre(module);
        linked.map_err(|error| match error.downcast_ref::<UnknownImportError>() {
            Some(unknown) => LoadError::UnknownImport {
                module: unknown.module().to_owned(),
                name: unknown.name().to_owned(),
            },
            None => LoadError::ImportType { reason: format!("{error:#}") },
        })
    }
}

/// The engine contexts of a sandbox.
pub(crate) struct EngineContexts {
    config: SandboxConfig,
    default: Arc<EngineContext>,
    others: Mutex<Vec<Arc<EngineContext>>>,
}

impl EngineContexts {
    /// Starts the context that most modules use.
    pub(crate) fn start(config: &SandboxConfig) -> Result<Self, SandboxError> {
        let kind = EngineKind { counts_fuel: false, resets_instances: false };
        let default = Arc::new(EngineContext::start(config, kind)?);
        Ok(Self { config: config.clone(), default, others: Mutex::default() })
    }

    /// The context of a kind, which the first call starts.
    pub(crate) fn get(&self, kind: EngineKind) -> Result<Arc<EngineContext>, SandboxError> {
        if self.default.kind == kind {
            return Ok(Arc::clone(&self.default));
        }
        let mut others = self.others.lock();
        if let Some(context) = others.iter().find(|context| context.kind == kind) {
            return Ok(Arc::clone(context));
        }
        let context = Arc::new(EngineContext::start(&self.config, kind)?);
        others.push(Arc::clone(&context));
        Ok(context)
    }

    /// Whether instances come from a pool. If not, they are allocated on demand.
    pub(crate) fn is_pooling(&self) -> bool {
        self.default.is_pooling
    }
}
