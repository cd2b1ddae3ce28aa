//! What passes over the connection: commands, scripts, keys and replies.

mod address;
pub(crate) mod attempts;
pub(crate) mod bounds;
pub(crate) mod callers;
mod certificate;
pub(crate) mod cluster;
mod cluster_call;
pub(crate) mod connection;
pub(crate) mod connection_task;
pub(crate) mod constants;
pub(crate) mod copy_waits;
pub(crate) mod durability;
mod half_open;
pub(crate) mod keys;
pub(crate) mod last_attempt;
pub(crate) mod latency;
pub(crate) mod layout;
pub(crate) mod link;
pub(crate) mod login;
pub(crate) mod millis;
mod node_addresses;
#[cfg(feature = "redis-connection")]
pub(crate) mod redis_connection;
pub(crate) mod reply;
pub(crate) mod scan;
pub(crate) mod score;
pub(crate) mod script;
mod sentinel;
pub(crate) mod sentinel_report;
mod server_connection;
pub(crate) mod settings;
mod slots;
mod small_file;
mod source;
pub(crate) mod stream;
mod tls;
pub(crate) mod transport;
