//! A peer's program while it runs: it prepares a task, says that it is ready, does the task at the
//! word to go, and answers in one line of JSON. Every wait is bounded; dropping it kills the process.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long a peer may take for its preparation or a task. Draining 100,000 jobs takes the slowest one
/// a minute.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a peer is to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) task: &'static str,
    /// `default` or `tuned`.
    pub(crate) settings: &'a str,
    pub(crate) jobs: u64,
    pub(crate) spread_ms: u64,
}

/// What a peer says.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Answer {
    pub(crate) ready: bool,
    /// Why the task cannot be done.
    pub(crate) unsupported: Option<String>,
    pub(crate) seconds: Option<f64>,
    /// Jobs that were handled, each counted once.
    pub(crate) handled: u64,
    /// Further runs of those.
    pub(crate) twice: u64,
    /// From due time to start of each, µs; negative for early.
    pub(crate) late_us: Vec<f64>,
}

impl Answer {
    /// From due time to start, ms, the least first.
    pub(crate) fn sorted_late_ms(&self) -> Vec<f64> {
        let mut late_ms: Vec<f64> = self.late_us.iter().map(|us| us / 1_000.0).collect();
        late_ms.sort_by(f64::total_cmp);
        late_ms
    }
}

/// A peer's process.
pub(crate) struct Running {
    process: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(crate) fn start(program: &Path, asked: &Asked<'_>, port: u16) -> anyhow::Result<Self> {
        let Asked { task, settings, jobs, spread_ms } = asked;
        let mut command = Command::new(program);
        command
            .args([task, settings])
            .arg(format!("127.0.0.1:{port}"))
            .args([jobs.to_string(), spread_ms.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Some say at length what they did not find; what they answer is on stdout.
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut process =
            command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let stdin = process.stdin.take().context("the program has no stdin")?;
        let stdout = process.stdout.take().context("the program has no stdout")?;
        Ok(Self { process, stdin, stdout: BufReader::new(stdout).lines() })
    }

    pub(crate) fn pid(&self) -> anyhow::Result<u32> {
        self.process.id().context("the program has ended")
    }

    /// Waits until it is ready, or says that it cannot do this.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<Answer> {
        let answer = self.answer().await?;
        let known = answer.ready || answer.unsupported.is_some();
        ensure!(known, "the program answered before it was ready");
        Ok(answer)
    }

    /// Says the word to go, and waits for what it found.
    pub(crate) async fn go(&mut self) -> anyhow::Result<Answer> {
        self.stdin.write_all(b"go\n").await.context("the program does not listen")?;
        self.stdin.flush().await.context("the program does not listen")?;
        self.answer().await
    }

    async fn answer(&mut self) -> anyhow::Result<Answer> {
        let line = tokio::time::timeout(PATIENCE, self.stdout.next_line());
        let line = line.await.context("no answer in five minutes")??;
        let line = line.context("the program ended without an answer")?;
        serde_json::from_str(&line).with_context(|| format!("this is no answer: {line}"))
    }
}
