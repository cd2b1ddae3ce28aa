//! The threads of the daemon. Guests and HTTP have their own, so that neither delays Redis, timers and
//! heartbeats.

use std::io;

use tokio::runtime::{Builder, Runtime};

use crate::executor::threads::GuestThreads;
use crate::manifest::Runner;

/// Threads for Redis, timers and the workers.
const CONTROL_THREADS: usize = 2;

/// Threads for network requests of handlers: large transfers and TLS handshakes do not delay leases.
const NETWORK_THREADS: usize = 2;

/// Threads for the HTTP server.
const HTTP_THREADS: usize = 1;

/// All threads of the daemon by purpose.
pub(super) struct AllThreads {
    pub(super) control: Runtime,
    pub(super) guests: GuestThreads,
    pub(super) network: Runtime,
    pub(super) http: Runtime,
}

impl AllThreads {
    /// Starts the threads.
    pub(super) fn start(runner: &Runner) -> io::Result<Self> {
        Ok(Self {
            control: runtime(CONTROL_THREADS, "duebox")?,
            guests: GuestThreads::start(runner.threads)?,
            network: runtime(NETWORK_THREADS, "network")?,
            http: runtime(HTTP_THREADS, "http")?,
        })
    }

    /// Stops the threads. It waits for no call that blocks: reading a file, compiling a module and resolving
    /// a name may take long, and nothing needs their results any more.
    pub(super) fn shutdown(self) {
        self.guests.shutdown();
        self.control.shutdown_background();
        self.network.shutdown_background();
        self.http.shutdown_background();
    }
}

fn runtime(threads: usize, name: &str) -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(threads).thread_name(name).enable_all().build()
}
