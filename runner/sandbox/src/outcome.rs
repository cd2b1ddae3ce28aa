//! What one run of a handler resulted in.

pub(crate) mod backtrace;
pub(crate) mod failure;
pub(crate) mod report;
