//! Runs compiled handlers in the real sandbox, on jobs made by hand, for the tests in this crate.
//!
//! Invariant: nothing here decides anything; what a test sees is what the module said and what the
//! sandbox made of it. A missing module is a failure that says how to build it, never a skipped test.

mod attempt;
mod case;
mod outside;
mod server;

pub use attempt::{Attempt, Module, Run, outside, repository, runtime};
pub use case::{Case, cases, config};
pub use outside::Outside;
