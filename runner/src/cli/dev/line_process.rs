//! A child process whose output is read line by line. It is in a process group of its own, so that a Ctrl-C on the terminal
//! reaches the session alone; dropped, it is killed.

use std::future::pending;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::Instant;

/// How long lines are awaited after the end: a process that it started may hold its output open.
const DRAIN: Duration = Duration::from_millis(200);

/// A running child.
pub(super) struct LineProcess {
    child: Child,
    out: Option<Lines<BufReader<ChildStdout>>>,
    error: Option<Lines<BufReader<ChildStderr>>>,
    ended: Option<(ExitStatus, Instant)>,
}

/// What a child did.
pub(super) enum ProcessEvent {
    /// A line on stdout.
    Out(String),
    /// A line on stderr.
    Error(String),
    /// It ended, and all of its lines were read.
    Ended(ExitStatus),
}

impl LineProcess {
    /// Starts a command. It gets no input.
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
        let out = child.stdout.take().map(|out| BufReader::new(out).lines());
        let error = child.stderr.take().map(|error| BufReader::new(error).lines());
        Ok(Self { child, out, error, ended: None })
    }

    /// Waits for what it does next. Nothing is lost if the wait is given up.
    pub(super) async fn next(&mut self) -> io::Result<ProcessEvent> {
        loop {
            if let (Some((status, _)), None, None) = (self.ended, &self.out, &self.error) {
                return Ok(ProcessEvent::Ended(status));
            }
            let drained = self.ended.map(|(_, until)| until);
            tokio::select! {
                biased;
                line = next_of(&mut self.error) => match line {
                    Some(line) => return Ok(ProcessEvent::Error(line)),
                    None => self.error = None,
                },
                line = next_of(&mut self.out) => match line {
                    Some(line) => return Ok(ProcessEvent::Out(line)),
                    None => self.out = None,
                },
                status = self.child.wait(), if drained.is_none() => {
                    self.ended = Some((status?, Instant::now() + DRAIN));
                }
                () = wait_until(drained) => (self.out, self.error) = (None, None),
            }
        }
    }

    /// Sends a signal to it. An ended one gets none.
    pub(super) fn signal(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It fails only if it has just ended.
            kill_process(pid, signal).unwrap_or_default();
        }
    }

    /// Sends a signal to it and to the processes that it started.
    pub(super) fn signal_all(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            kill_process_group(pid, signal).unwrap_or_default();
        }
    }

    /// Its id, until its end was awaited: nothing else can have it before.
    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }
}

/// The next line; `None` at the end, or if the output is not text.
async fn next_of<R: AsyncRead + Unpin>(lines: &mut Option<Lines<BufReader<R>>>) -> Option<String> {
    match lines {
        Some(lines) => lines.next_line().await.ok().flatten(),
        None => pending().await,
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_come_before_the_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut command = Command::new("sh");
            // The background process holds stderr open; its lines are not waited for.
            command.args(["-c", "echo out; echo error >&2; sleep 60 & exit 3"]);
            let mut process = LineProcess::start(command).unwrap();
            let mut seen = Vec::new();
            let status = loop {
                match process.next().await.unwrap() {
                    ProcessEvent::Out(line) | ProcessEvent::Error(line) => seen.push(line),
                    ProcessEvent::Ended(status) => break status,
                }
            };
            seen.sort();
            assert_eq!(
                (seen, status.code()),
                (vec!["error".to_owned(), "out".to_owned()], Some(3))
            );
        });
    }
}
