//! A replica of a server that a test started.

use crate::{RedisServer, eventually};

impl RedisServer {
    /// Starts a replica of this server with further arguments, and waits until it has all data.
    ///
    /// # Panics
    /// If it does not start, or does not sync in time.
    pub fn replica(&self, args: &[&str]) -> Self {
        self.cli(&["CONFIG", "SET", "repl-diskless-sync-delay", "0"]);
        let of = format!("127.0.0.1 {}", self.port());
        let replica = Self::with_args(&[&["--replicaof", &of], args].concat());
        let port = format!("port={},state=online", replica.port());
        eventually("the replica follows", || {
            let is_up = replica.cli(&["INFO", "replication"]).contains("master_link_status:up");
            is_up
                && self.cli(&["INFO", "replication"]).contains(&port)
                && self.cli(&["WAIT", "1", "100"]) != "0"
        });
        replica
    }
}
