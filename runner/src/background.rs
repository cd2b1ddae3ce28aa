//! The loops of the daemon, one a file. Each runs until the daemon ends, and survives an outage of Redis.

pub mod control_channel;
pub mod durability;
pub mod limits;
pub mod maintenance;
pub mod poller;
pub mod primaries;
pub mod recovery;
pub mod relay;
pub mod scheduler;
pub mod topic_discovery;
pub mod wake_up;
pub mod wake_up_listener;
pub mod watching;
