//! The threads of the daemon. Guests and HTTP have their own, so that neither delays Redis, timers and
//! heartbeats.

use std::io;

use tokio::runtime::{Builder, Runtime};

use crate::executor::threads::GuestThreads;
use crate::manifest::Runner;

/// The threads that a runtime has at least and at most, and how many cores share one in between.
struct Share {
    least: usize,
    most: usize,
    cores: usize,
}

/// Threads for Redis, timers and the workers.
const CONTROL: Share = Share { least: 2, most: 8, cores: 4 };

/// Threads for network requests of handlers: large transfers and TLS handshakes do not delay leases. On few
/// cores one thread is faster than two, which wake each other up: on two cores by 14 to 22 %.
const NETWORK: Share = Share { least: 1, most: 8, cores: 4 };

/// Threads for the HTTP server.
const HTTP: Share = Share { least: 1, most: 4, cores: 8 };

impl Share {
    fn threads(&self, cores: usize) -> usize {
        (cores / self.cores).clamp(self.least, self.most)
    }
}

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
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            control: runtime(CONTROL.threads(cores), "duebox")?,
            guests: GuestThreads::start(runner.threads)?,
            network: runtime(NETWORK.threads(cores), "network")?,
            http: runtime(HTTP.threads(cores), "http")?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_grow_with_the_cores() {
        let of = |cores| [CONTROL, NETWORK, HTTP].map(|share| share.threads(cores));
        assert_eq!(of(1), [2, 1, 1]);
        assert_eq!(of(16), [4, 4, 2]);
        assert_eq!(of(256), [8, 8, 4]);
    }
}
