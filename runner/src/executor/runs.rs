//! What runs a module on a job: the sandbox, or what a simulation puts in its place.

use std::future::Future;
use std::sync::Arc;

use duebox_sandbox::{Handler, HostServices, Interrupt, Invocation, RunReport};
use futures_util::future::{BoxFuture, Either};

/// What runs a module on a job.
#[derive(Clone, Default)]
pub enum Runs {
    /// The sandbox.
    #[default]
    Sandbox,
    /// A simulation, which ignores the module.
    #[doc(hidden)]
    Simulated(Arc<dyn SimulatedRuns>),
}

/// Runs jobs without a module.
#[doc(hidden)]
pub trait SimulatedRuns: Send + Sync {
    /// Runs a job until it ends or is interrupted.
    fn run(&self, invocation: Invocation, interrupt: Interrupt) -> BoxFuture<'static, RunReport>;
}

impl Runs {
    pub(super) fn run<'h>(
        &self,
        handler: &'h Handler,
        invocation: Invocation,
        interrupt: Interrupt,
        services: Arc<HostServices>,
    ) -> impl Future<Output = RunReport> + use<'h> {
        match self {
            Self::Sandbox => Either::Left(handler.run(invocation, interrupt, services)),
            Self::Simulated(runs) => Either::Right(runs.run(invocation, interrupt)),
        }
    }
}
