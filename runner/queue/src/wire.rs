//! What passes over the connection: commands, scripts, keys and replies.

pub(crate) mod connection;
pub(crate) mod keys;
pub(crate) mod latency;
pub(crate) mod millis;
pub(crate) mod reply;
pub(crate) mod script;

/// Ids one script handles at most: a backlog never blocks Redis.
pub const BATCH_MAX: usize = 1_000;
