//! What a run of a handler results in: the outcome for the job, its report, and the evidence of a failure.

mod backtrace;
pub(crate) mod failure;
pub(crate) mod report;
