//! `duebox run`: the daemon, from the manifest to its drain.

use std::process::ExitCode;

use tracing::warn;

use super::Common;
use super::support::failure::{Failure, split_remedy};
use crate::daemon::{self, BadModules};
use crate::manifest::Manifest;
use crate::observe::log::Telemetry;

pub(super) fn run(common: &Common) -> Result<ExitCode, Failure> {
    let manifest = Manifest::load_with(common.manifest(), &common.surroundings())?;
    let telemetry =
        Telemetry::start(&manifest.runner.log, manifest.runner.log_format).map_err(|error| {
            Failure::failed(error.to_string(), "correct runner.log, --log or DUEBOX_LOG")
        })?;
    let ended = daemon::run(manifest, common.surroundings());
    let dropped = telemetry.dropped_lines();
    if dropped > 0 {
        warn!(lines = dropped, "log lines were dropped: stderr was too slow for them");
    }
    // The log is written out before the error is told, so that they come in their order.
    drop(telemetry);
    ended.map(|()| ExitCode::SUCCESS).map_err(|error| failure(&error))
}

fn failure(error: &anyhow::Error) -> Failure {
    let text = format!("{error:#}");
    if error.is::<BadModules>() {
        return Failure::bad_input(text, "correct the modules; duebox check looks at them all");
    }
    let (message, hint) = split_remedy(&text);
    Failure::failed(message, hint.unwrap_or_else(|| "duebox check looks at the manifest".into()))
}
