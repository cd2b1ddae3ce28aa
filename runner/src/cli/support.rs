//! What the commands share: output, failures, payloads, the target of a command, and the choice of jobs.

pub(super) mod ended_jobs;
pub(super) mod failure;
pub(super) mod output;
pub(super) mod payload;
pub(super) mod target;
