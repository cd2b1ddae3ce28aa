//! A build of the project: `duebox build` as a child, whose output is shown as it comes.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use bytesize::ByteSize;
use rustix::process::Signal;
use serde::Deserialize;
use tokio::process::Command;

use super::line_process::{LineProcess, ProcessEvent};
use super::pass_on;
use crate::cli::Common;
use crate::deploy::module_file;

/// How much of a digest is shown, as in the daemon's log.
const DIGEST_SHOWN: usize = 12;

/// A build under way.
pub(super) struct Build {
    process: LineProcess,
    began: Instant,
    /// What it reported on stdout.
    report: Option<BuildReport>,
    /// The digest that took over while it was ending: the daemon may notice the module first.
    pub(super) took_over: Option<String>,
}

/// What a build did.
pub(super) enum BuildEvent {
    /// The compiler said something.
    Line(String),
    /// The module is about to take its place; the compiler of the language ran for this time.
    Compiled(Duration),
    /// It ended after this time.
    Ended(Result<BuildReport, Vec<String>>, Duration),
}

/// The part of the report that is shown.
#[derive(Debug, Deserialize)]
pub(super) struct BuildReport {
    digest: String,
    bytes: u64,
    problems: Vec<BuildProblem>,
    #[serde(default)]
    compiler_ms: f64,
}

#[derive(Debug, Deserialize)]
struct BuildProblem {
    message: String,
    hint: String,
}

impl Build {
    /// Starts the build of a folder.
    pub(super) fn start(common: &Common, manifest: &Path, dir: &Path) -> io::Result<Self> {
        let mut command = Command::new(module_file::program());
        command.arg("build").arg(dir).args(["--json", "--no-cost"]);
        pass_on(common, manifest, &mut command);
        let (process, began) = (LineProcess::start(command)?, Instant::now());
        Ok(Self { process, began, report: None, took_over: None })
    }

    /// Waits for what it does next. Nothing is lost if the wait is given up.
    pub(super) async fn next(&mut self) -> io::Result<BuildEvent> {
        loop {
            match self.process.next().await? {
                ProcessEvent::Error(line) => return Ok(BuildEvent::Line(line)),
                ProcessEvent::Out(line) => {
                    self.report = serde_json::from_str(&line).ok();
                    if let Some(report) = &self.report {
                        return Ok(BuildEvent::Compiled(report.compiler()));
                    }
                }
                ProcessEvent::Ended(status) => {
                    let report = self.report.take();
                    let result = match report {
                        Some(report) if status.success() => Ok(report),
                        // Without a report it has said why on stderr.
                        report => Err(report.map(BuildReport::problems).unwrap_or_default()),
                    };
                    return Ok(BuildEvent::Ended(result, self.began.elapsed()));
                }
            }
        }
    }

    /// How long it has been running.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Ends it, with the compilers that it started.
    pub(super) fn stop(&self) {
        self.process.signal_all(Signal::TERM);
    }
}

impl BuildReport {
    /// The start of the digest, as the daemon's log has it.
    pub(super) fn is(&self, short_digest: &str) -> bool {
        !short_digest.is_empty() && self.digest.starts_with(short_digest)
    }

    /// The handler, for people.
    pub(super) fn describe(&self) -> String {
        let digest: String = self.digest.chars().take(DIGEST_SHOWN).collect();
        format!("{digest}, {}", ByteSize(self.bytes).display().iec())
    }

    /// How long the language's compiler ran.
    pub(super) fn compiler(&self) -> Duration {
        Duration::try_from_secs_f64(self.compiler_ms / 1e3).unwrap_or_default()
    }

    fn problems(self) -> Vec<String> {
        let text = |BuildProblem { message, hint }| format!("error: {message}\nhint: {hint}");
        self.problems.into_iter().map(text).collect()
    }
}
