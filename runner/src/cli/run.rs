//! `duebox run`: the log of the daemon, and the errors that ended it.

use duebox_queue::QueueError;
use duebox_sandbox::SandboxError;
use tracing::warn;

use super::support::failure::Failure;
use crate::daemon::BadModules;
use crate::http::BindError;
use crate::manifest::Runner;
use crate::observe::log::Telemetry;
use crate::observe::panics;
use crate::redis_host::fitness::Unfit;
use crate::redis_host::managed::RedisServerError;

/// The log of the daemon, from its start to its end.
pub struct StartedLog(Telemetry);

impl StartedLog {
    /// Starts the log as the manifest says; panics are logged too.
    ///
    /// # Errors
    /// [`Failure`] if the filter is invalid.
    pub fn start(runner: &Runner) -> Result<Self, Failure> {
        let started = Telemetry::start(&runner.log, runner.log_format).map_err(|error| {
            Failure::failed(error.to_string(), "correct runner.log, --log or DUEBOX_LOG")
        })?;
        panics::log_all();
        Ok(Self(started))
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
            return Self::bad_input(text, "correct the modules; duebox check reports all of them");
        }
        if let Some(error) = error.downcast_ref::<QueueError>() {
            return Self::of_queue(error);
        }
        if let Some(error) = error.downcast_ref::<BindError>() {
            return Self::failed(text, error.remedy());
        }
        if error.is::<SandboxError>() || error.is::<RedisServerError>() || error.is::<Unfit>() {
            return Self::with_own_remedy(text);
        }
        Self::failed(text, "check the manifest with: duebox check")
    }
}
