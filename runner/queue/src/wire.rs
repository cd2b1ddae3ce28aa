//! What passes over the connection: commands, scripts, keys and replies.

pub(crate) mod attempts;
pub(crate) mod bounds;
pub(crate) mod connection;
pub(crate) mod constants;
pub(crate) mod keys;
pub(crate) mod latency;
mod link;
pub(crate) mod millis;
pub(crate) mod reply;
pub(crate) mod score;
pub(crate) mod script;
mod source;
