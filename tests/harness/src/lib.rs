//! The ground that tests stand on: a real redis-server of their own, the real `duebox` binary, and
//! waiting for a condition instead of for a time.
//!
//! It knows none of the other crates, so all of them can be tested with it. It panics where
//! something is wrong, with a text that says what and the remedy: its callers are tests. Whatever it
//! starts ends with the value that owns it.

mod daemon;
mod eventually;
mod redis_server;
mod signal;

pub use daemon::{Daemon, LogLine, duebox_binary};
pub use eventually::{eventually, patience};
pub use redis_server::RedisServer;
pub use signal::send_signal;
