//! The Redis server as this process uses it: outages, configuration checks, the managed server,
//! and the key-value store of handlers.

pub mod fitness;
pub mod handler_store;
pub mod managed;
pub mod outage;
pub mod primaries;
