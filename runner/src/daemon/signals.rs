//! The signals the daemon heeds: SIGTERM and SIGINT end it, SIGHUP reloads.

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Drain and end.
    Stop,
    /// Look at the manifest and the modules.
    Reload,
}

/// The signals of this process.
pub struct Signals {
    terminate: Stream,
    interrupt: Stream,
    hang_up: Stream,
}

impl Signals {
    /// Starts to listen: from here on none of them ends the process by itself.
    ///
    /// # Errors
    /// What the system said, if it refuses.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.hang_up.recv() => Signal::Reload,
        }
    }

    /// Waits for one that ends the process.
    pub async fn stop(&mut self) {
        while self.next().await != Signal::Stop {}
    }
}
