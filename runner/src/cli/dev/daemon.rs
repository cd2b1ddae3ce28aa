//! The daemon of a session: `duebox run` as a child, which logs in JSON. It drains when the session ends.

use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;
use tokio::process::Command;

use super::line_process::{LineProcess, ProcessEvent};
use super::pass_on;
use crate::cli::Common;
use crate::deploy::module_file;

/// The last lines of a daemon that did not start, which say why.
const LAST_WORDS_MAX: usize = 40;
/// How long a daemon may take to end after its drain timeout; then it is killed.
const STOP_MAX: Duration = Duration::from_secs(20);
/// What is logged: all lines of handlers, and the traces of failed attempts.
const LOG_FILTER: &str = "info,handler=trace,duebox::trace=debug";

/// A running daemon.
pub(super) struct DevDaemon {
    process: LineProcess,
    /// Whether it serves its topics.
    pub(super) is_ready: bool,
    /// The digest that serves the topic of the samples; empty before.
    pub(super) serves: String,
    /// Lines that are not of its log.
    last_words: Vec<String>,
}

/// What a daemon did.
pub(super) enum DaemonEvent {
    /// It wrote a line.
    Line(String),
    /// It ended.
    Ended(ExitStatus),
}

impl DevDaemon {
    /// Starts a daemon on a manifest.
    pub(super) fn start(common: &Common, manifest: &Path) -> io::Result<Self> {
        let mut command = Command::new(module_file::program());
        command.args(["run", "--parent", &std::process::id().to_string()]);
        pass_on(common, manifest, &mut command);
        command.env("DUEBOX_LOG_FORMAT", "json");
        match &common.log {
            Some(filter) => drop(command.args(["--log", filter])),
            None if std::env::var_os("DUEBOX_LOG").is_some() => {}
            None => drop(command.env("DUEBOX_LOG", LOG_FILTER)),
        }
        let process = LineProcess::start(command)?;
        Ok(Self { process, is_ready: false, serves: String::new(), last_words: Vec::new() })
    }

    /// Waits for what it does next. Nothing is lost if the wait is given up.
    pub(super) async fn next(&mut self) -> io::Result<DaemonEvent> {
        Ok(match self.process.next().await? {
            ProcessEvent::Out(line) | ProcessEvent::Error(line) => DaemonEvent::Line(line),
            ProcessEvent::Ended(status) => DaemonEvent::Ended(status),
        })
    }

    /// Keeps a line that is not of its log.
    pub(super) fn said(&mut self, line: &str) {
        if self.last_words.len() < LAST_WORDS_MAX {
            self.last_words.push(line.to_owned());
        }
    }

    /// Why it ended, in its own words.
    pub(super) fn last_words(&self) -> String {
        self.last_words.join("\n")
    }

    /// Has it look at its files at once. Before it serves it would be killed by the signal.
    pub(super) fn reload(&self) {
        if self.is_ready {
            self.process.signal(Signal::HUP);
        }
    }

    /// Has it drain; a second time has it end at once.
    pub(super) fn terminate(&self) {
        self.process.signal(Signal::TERM);
    }

    /// Waits until it has ended, and kills it after `drain` and some seconds.
    pub(super) async fn ended(&mut self, drain: Duration) {
        let ended = async {
            // Its lines are read to the end, so that it never waits for a reader.
            while let Ok(DaemonEvent::Line(_)) = self.next().await {}
        };
        if tokio::time::timeout(drain + STOP_MAX, ended).await.is_err() {
            self.process.signal(Signal::KILL);
        }
    }
}

/// Has the kernel stop this process when the session that started it ends without stopping it. A no-op outside Linux.
pub(in crate::cli) fn end_with_parent(parent: u32) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getppid, set_parent_process_death_signal};
        // It fails for no signal that exists.
        set_parent_process_death_signal(Some(Signal::TERM)).unwrap_or_default();
        let now = getppid().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok());
        if now != Some(parent) {
            std::process::exit(0);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
}
