//! A running peer program. It prepares a task, reports that it is ready, does the task when told to
//! go, and replies with one line of JSON. Every wait is bounded, and dropping it kills the process.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// How long a peer may take to prepare or do a task. The slowest one drains 100,000 jobs in about a
/// minute.
const PATIENCE: Duration = Duration::from_secs(300);

/// The task for a peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskRequest<'a> {
    pub(crate) task: &'static str,
    /// `default` or `tuned`.
    pub(crate) settings: &'a str,
    pub(crate) jobs: u64,
    pub(crate) spread_ms: u64,
    /// Where its handler posts each job, if it does.
    pub(crate) posts: Option<PostRequest<'a>>,
}

/// How a peer's handler posts its jobs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PostRequest<'a> {
    pub(crate) url: &'a str,
    /// Jobs at once.
    pub(crate) concurrency: u64,
}

/// A line that a peer prints.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TaskReply {
    pub(crate) ready: bool,
    /// Why the peer cannot do the task.
    pub(crate) unsupported: Option<String>,
    pub(crate) seconds: Option<f64>,
    /// Jobs handled, each counted once.
    pub(crate) handled: u64,
    /// Further runs of those jobs.
    pub(crate) twice: u64,
    /// From due time to start of each job, µs; negative if early.
    pub(crate) late_us: Vec<f64>,
}

impl TaskReply {
    /// From due time to start, ms, in ascending order.
    pub(crate) fn sorted_late_ms(&self) -> Vec<f64> {
        let mut late_ms: Vec<f64> = self.late_us.iter().map(|us| us / 1_000.0).collect();
        late_ms.sort_by(f64::total_cmp);
        late_ms
    }
}

/// A peer's process.
pub(crate) struct PeerProcess {
    process: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl PeerProcess {
    pub(crate) fn start(
        program: &Path,
        request: &TaskRequest<'_>,
        port: u16,
    ) -> anyhow::Result<Self> {
        let TaskRequest { task, settings, jobs, spread_ms, posts } = request;
        let mut command = Command::new(program);
        if let Some(PostRequest { url, concurrency }) = posts {
            command.env("PEER_POSTS_TO", url).env("PEER_CONCURRENCY", concurrency.to_string());
        }
        command
            .args([task, settings])
            .arg(format!("127.0.0.1:{port}"))
            .args([jobs.to_string(), spread_ms.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Some log much to stderr; replies are on stdout.
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

    /// Waits until the peer is ready or reports that it cannot do the task.
    pub(crate) async fn ready(&mut self) -> anyhow::Result<TaskReply> {
        let reply = self.read_reply().await?;
        let known = reply.ready || reply.unsupported.is_some();
        ensure!(known, "the program replied before it was ready");
        Ok(reply)
    }

    /// Tells the peer to go and waits for its reply.
    pub(crate) async fn go(&mut self) -> anyhow::Result<TaskReply> {
        self.stdin.write_all(b"go\n").await.context("the program closed its stdin")?;
        self.stdin.flush().await.context("the program closed its stdin")?;
        self.read_reply().await
    }

    async fn read_reply(&mut self) -> anyhow::Result<TaskReply> {
        let line = tokio::time::timeout(PATIENCE, self.stdout.next_line());
        let line = line.await.context("no reply in five minutes")??;
        let line = line.context("the program ended without a reply")?;
        serde_json::from_str(&line).with_context(|| format!("invalid reply: {line}"))
    }
}
