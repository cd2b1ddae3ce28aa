//! Runs compiled handlers in the real sandbox on jobs built by a test.
//!
//! Invariant: this crate decides nothing. A test sees the module's output and the sandbox's report.
//! A missing module is a failure that says how to build it, never a skipped test.

mod attempt;
mod case;
mod server;
mod services;

pub use attempt::{Attempt, Module, Run, repository, runtime, services};
pub use case::{Case, cases, config};
pub use services::Services;
