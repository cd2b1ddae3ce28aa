//! From a module's file to code that is linked and can run.

pub(crate) mod cache;
pub(crate) mod check;
pub(crate) mod compile;
pub(crate) mod engine_context;
pub(crate) mod error;
pub(crate) mod missing;
pub(crate) mod segments;
pub(crate) mod snapshot;
