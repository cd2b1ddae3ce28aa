//! Code shared by the commands: output, failures, payloads, target topics and selection of ended
//! jobs.

pub(super) mod ended_jobs;
pub(super) mod failure;
pub(super) mod output;
pub(super) mod payload;
pub(super) mod target;
