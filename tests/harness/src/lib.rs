//! Test support: a real redis-server for each test, the real `duebox` binary, and waiting for
//! conditions.
//!
//! The crate depends on none of the other crates, so all of them can use it in tests. Its functions
//! panic on failure, because only tests call them; the message says what failed and how to fix it.
//! Every process that it starts ends with the value that owns it.

mod authority;
mod cgroup;
mod cluster_commands;
mod daemon;
mod eventually;
mod input;
mod lateness;
mod port;
mod proxy;
mod redis_cluster;
mod redis_server;
mod replica;
mod sentinel_group;
mod signal;
mod test_redis;
mod topology;

pub use authority::{Authority, CertificateFiles};
pub use cgroup::{Cgroup, Limits, Throttling};
pub use daemon::{Daemon, LogLine, duebox_binary};
pub use eventually::{eventually, patience};
pub use input::output_with;
pub use lateness::Lateness;
pub use port::free_port;
pub use proxy::Proxy;
pub use redis_cluster::RedisCluster;
pub use redis_server::RedisServer;
pub use sentinel_group::SentinelGroup;
pub use signal::send_signal;
pub use test_redis::TestRedis;
pub use topology::{Topology, is_left_out, leave_out};
