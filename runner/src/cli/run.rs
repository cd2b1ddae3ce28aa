//! `duebox run`: the log of the daemon, and the errors that ended it.

use tracing::warn;

use super::support::failure::{Failure, split_remedy};
use crate::daemon::BadModules;
use crate::manifest::Runner;
use crate::observe::log::Telemetry;

/// The log of the daemon, from its start to its end.
pub struct StartedLog(Telemetry);

impl StartedLog {
    /// Starts the log as the manifest says.
    ///
    /// # Errors
    /// [`Failure`] if the filter is invalid.
    pub fn start(runner: &Runner) -> Result<Self, Failure> {
        let started = Telemetry::start(&runner.log, runner.log_format);
        started.map(Self).map_err(|error| {
            Failure::failed(error.to_string(), "correct runner.log, --log or DUEBOX_LOG")
        })
    }

    /// Writes out the log. Call it before an error is reported: then both come in their order.
    pub fn finish(self) {
        let dropped = self.0.dropped_lines();
        if dropped > 0 {
            warn!(lines = dropped, "log lines were dropped: stderr was too slow for them");
        }
    }
}

impl Failure {
    /// Why the daemon did not start or did not run.
    pub fn of_daemon(error: &anyhow::Error) -> Self {
        let text = format!("{error:#}");
        if error.is::<BadModules>() {
            return Self::bad_input(text, "correct the modules; duebox check looks at them all");
        }
        let (message, hint) = split_remedy(&text);
        Self::failed(message, hint.unwrap_or_else(|| "duebox check looks at the manifest".into()))
    }
}
