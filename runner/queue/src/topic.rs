//! A topic as values: its shards and its limits. Nothing here calls Redis.

pub(crate) mod announced;
pub(crate) mod limits;
pub(crate) mod shards;
