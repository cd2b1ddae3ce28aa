//! `duebox dev`: builds a project, serves it with a daemon of its own, and shows what becomes of its jobs; again after
//! each change.
//!
//! The daemon never outlives the session: every way out stops it, and on Linux the kernel ends it with this process.

mod build;
mod change;
mod daemon;
mod display;
mod feed;
mod line_process;
mod log_line;
mod project;
mod pusher;
mod samples;
mod session;
mod sources;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use duebox_job::TopicName;
use tokio::process::Command;

pub(super) use self::daemon::end_with_parent;
use self::display::Display;
use self::session::Session;
use super::Common;
use super::support::failure::Failure;
use super::support::{output, target};
use crate::service::value;

/// Build and serve a project, again after each change, and show what becomes of its jobs
///
/// Runs a daemon with the manifest of the project, and with a Redis of its own if the manifest says
/// redis.url = "managed". A change of a source is built as `duebox build` does, and the daemon takes
/// the new handler over. A build that fails shows what the compiler said, and the handler in service
/// stays. Each verdict is shown as it falls, with its log lines and the trace of a trap. Keys push
/// samples: the test cases of the topic, or --payload. Without a terminal it prints lines, and
/// SIGINT or SIGTERM ends it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox dev
  duebox dev order-close --push
  duebox dev --payload '{\"order\":42}' --redis-url managed

Exit codes:
  0  quit with q, Ctrl-C or a signal
  1  the daemon could not start, for example without Redis
  2  the folder has no manifest, or the manifest is invalid or binds no handler")]
pub(super) struct DevArgs {
    /// The folder of the project
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The topic of the samples; by default the one whose handler the project builds
    #[arg(long, value_name = "TOPIC", value_parser = value::topic)]
    topic: Option<TopicName>,
    /// Push this payload instead of the test cases: a text, @FILE for a file's content, - for stdin
    #[arg(long, value_name = "PAYLOAD|@FILE|-", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Push the sample at the start and after each change
    #[arg(long)]
    push: bool,
}

pub(super) fn dev(common: &Common, args: DevArgs) -> Result<ExitCode, Failure> {
    let manifest = manifest_of(common, &args.dir)?;
    target::block_on(async {
        let mut session = Session::open(common, manifest, args)?;
        let mut display = Display::open()?;
        let ended = display.run(&mut session).await;
        if display.close() && session.daemon.is_some() {
            output::print_aside("stopping the daemon");
        }
        let stopped = session.stop().await;
        ended.and(stopped).map(|()| ExitCode::SUCCESS)
    })
}

/// Gives a child of this program the manifest and the Redis of this command line.
fn pass_on(common: &Common, manifest: &Path, command: &mut Command) {
    command.arg("--manifest").arg(manifest);
    if let Some(url) = &common.redis_url {
        command.args(["--redis-url", url]);
    }
}

/// The manifest of a project. It must exist: it says what the handler may do.
fn manifest_of(common: &Common, dir: &Path) -> Result<PathBuf, Failure> {
    let manifest = common.manifest.clone().unwrap_or_else(|| dir.join("duebox.toml"));
    if manifest.is_file() {
        return Ok(manifest);
    }
    Err(Failure::bad_input(
        format!("there is no manifest {}", manifest.display()),
        "name the folder of a project (duebox dev DIR), or start one: duebox new typescript order-close",
    ))
}
