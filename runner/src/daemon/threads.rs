//! The threads of the daemon. Guests have threads of their own; Redis, timers and heartbeats keep theirs,
//! so that no guest and no request delays a heartbeat.

use std::io;

use tokio::runtime::{Builder, Runtime};

use crate::executor::threads::GuestThreads;
use crate::manifest::Runner;

/// Threads for Redis, timers and the workers' bookkeeping.
const CONTROL_THREADS: usize = 2;

/// Threads for the network requests of handlers. They are not those of Redis: a handler that moves many
/// bytes, or greets many servers over TLS, delays no lease.
const NETWORK_THREADS: usize = 2;

/// Threads for the HTTP server.
const HTTP_THREADS: usize = 1;

/// All threads of the daemon, by what they run.
pub(super) struct AllThreads {
    pub(super) control: Runtime,
    pub(super) guests: GuestThreads,
    pub(super) network: Runtime,
    pub(super) http: Runtime,
}

impl AllThreads {
    /// Starts them.
    pub(super) fn start(runner: &Runner) -> io::Result<Self> {
        Ok(Self {
            control: runtime(CONTROL_THREADS, "duebox")?,
            guests: GuestThreads::start(runner.threads)?,
            network: runtime(NETWORK_THREADS, "network")?,
            http: runtime(HTTP_THREADS, "http")?,
        })
    }

    /// Ends them. What runs on the network and HTTP threads is not waited for.
    pub(super) fn shutdown(self) {
        self.guests.shutdown();
        self.network.shutdown_background();
        self.http.shutdown_background();
    }
}

fn runtime(threads: usize, name: &str) -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build()
}
