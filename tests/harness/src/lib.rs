//! Test support: a real redis-server for each test, the real `duebox` binary, and waiting for
//! conditions.
//!
//! The crate depends on none of the other crates, so all of them can use it in tests. Its functions
//! panic on failure, because only tests call them; the message says what failed and how to fix it.
//! Every process that it starts ends with the value that owns it.

mod daemon;
mod eventually;
mod proxy;
mod redis_server;
mod signal;

pub use daemon::{Daemon, LogLine, duebox_binary};
pub use eventually::{eventually, patience};
pub use proxy::Proxy;
pub use redis_server::RedisServer;
pub use signal::send_signal;
