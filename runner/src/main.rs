//! The `duebox` binary: parse → load → build → run → exit code.

use std::process::ExitCode;

use duebox::cli::{self, Common, Failure, Request, StartedLog};
use duebox::daemon::{Config, Daemon};

fn main() -> ExitCode {
    let ended = match cli::parse() {
        Ok(Request::Daemon(common)) => run_daemon(&common),
        Ok(Request::Compiler) => Ok(duebox_sandbox::run_compiler()),
        Ok(Request::Client(command)) => command.run(),
        Err(failure) => Err(failure),
    };
    ended.unwrap_or_else(Failure::report)
}

/// Runs `duebox run`.
fn run_daemon(common: &Common) -> Result<ExitCode, Failure> {
    let config = Config::load(common.manifest(), common.environment())?;
    let log = StartedLog::start(&config.manifest().runner)?;
    let ended = Daemon::build(config).and_then(|built| built.map_or(Ok(()), Daemon::run));
    log.finish();
    ended.map(|()| ExitCode::SUCCESS).map_err(|error| Failure::of_daemon(&error))
}
