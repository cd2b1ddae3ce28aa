//! What all instances of one loaded module have in common.

use std::sync::Arc;

use wasmtime::{Engine, ModuleExport, Store};

use crate::grants::Grants;
use crate::instance::guest::{Attempt, Guest, GuestSetup};
use crate::instance::limiter::Limiter;
use crate::instance::linked::Linked;
use crate::instance::reset::StartImage;
use crate::limits::Limits;
use crate::memory_budget::MemoryAccount;

/// A linked module with its limits and grants. Instances are created from it.
#[derive(Clone)]
pub(crate) struct Template {
    pub(crate) linked: Linked,
    pub(crate) exports: ModuleExports,
    /// The state to which instances are reset after each job, if they can be.
    pub(crate) image: Option<Arc<StartImage>>,
    /// Bytes of linear memory that an instance starts with.
    pub(crate) initial_memory: usize,
    pub(crate) imports_wasi: bool,
    pub(crate) limits: Limits,
    pub(crate) grants: Arc<Grants>,
    /// The memory that the instances hold.
    pub(crate) account: Arc<MemoryAccount>,
}

/// The exports that the host uses.
#[derive(Clone)]
pub(crate) struct ModuleExports {
    pub(crate) entry: EntryPoint,
    pub(crate) initialize: Option<ModuleExport>,
    pub(crate) memory: Option<ModuleExport>,
}

/// The signature of `handle`.
#[derive(Clone)]
pub(crate) enum EntryPoint {
    /// `handle(len)`: the guest reads the payload.
    Pull { handle: ModuleExport },
    /// `handle(ptr, len)`: the host writes the payload to the address that `alloc` returns.
    Push { handle: ModuleExport, alloc: ModuleExport },
}

impl Template {
    pub(crate) fn engine(&self) -> &Engine {
        self.linked.engine()
    }

    /// Whether an instance whose job ended well runs another job.
    pub(crate) fn reuses_instances(&self) -> bool {
        self.limits.instances.jobs_each > 1 || self.image.is_some()
    }

    /// Whether an instance runs several jobs without a reset, so that one sees what another left in memory.
    pub(crate) fn is_warm(&self) -> bool {
        self.limits.instances.jobs_each > 1
    }

    /// How many jobs one instance may run without a reset between them.
    pub(crate) fn jobs_each(&self) -> u32 {
        self.limits.instances.jobs_each
    }

    /// The state of a new instance.
    pub(crate) fn guest(&self, attempt: Attempt) -> Guest {
        let setup = GuestSetup {
            grants: Arc::clone(&self.grants),
            limiter: Limiter::new(&self.limits, Arc::clone(&self.account)),
            fuel: self.limits.fuel,
            memory_export: self.exports.memory,
        };
        Guest::new(setup, attempt)
    }

    /// Creates an instance, whose initial memory the store has paid for.
    pub(crate) async fn instantiate(
        &self,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<wasmtime::Instance> {
        self.linked.instantiate(store).await
    }
}
