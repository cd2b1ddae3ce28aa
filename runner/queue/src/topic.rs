//! A topic as values: its shards, its limits and the jobs that are pushed to it. Nothing here calls Redis.

pub(crate) mod announced;
pub(crate) mod clocks;
pub(crate) mod limits;
pub(crate) mod new_job;
pub(crate) mod shards;
