//! From a module's file to linked code: check, compile (or take from the cache), and link.

pub(crate) mod cache;
mod capabilities;
mod check;
pub(crate) mod compile;
pub(crate) mod engine_context;
mod error;
pub(crate) mod exports;
mod segments;
mod snapshot;

pub use capabilities::{Capability, MissingCapabilities};
pub use error::{LoadError, SnapshotError};
