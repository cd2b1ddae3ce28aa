//! Redis in memory, as far as the queue uses it. The scripts are the queue's own and run on the same Lua.

mod command;
pub(crate) mod database;
mod hash;
mod hasher;
mod interpreter;
mod key;
pub(crate) mod leases;
pub mod server;
mod zset;
