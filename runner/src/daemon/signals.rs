//! The signals that the daemon handles: SIGTERM and SIGINT stop it, SIGHUP reloads.

use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// The effect of a signal.
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
    /// Handles the signals from now on; none of them kills the process any more.
    ///
    /// # Errors
    /// The error of the system.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Stop,
            _ = self.interrupt.recv() => Signal::Stop,
            _ = self.hang_up.recv() => Signal::Reload,
        }
    }

    /// Waits for a signal to stop.
    pub async fn stop(&mut self) {
        while self.next().await != Signal::Stop {}
    }
}
