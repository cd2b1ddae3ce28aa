//! The daemon as a child process: started with the manifest, observed through its JSON log, stopped
//! by SIGTERM or killed by SIGKILL. Dropping it kills the process.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::Args;

/// Maximum number of unread log lines; when it is reached, the daemon's log blocks and its jobs do
/// not.
const LINES_MAX: usize = 4_096;
/// Longer than the manifest's drain_timeout plus the time that Redis takes to stop.
const STOP_MAX: Duration = Duration::from_secs(45);

/// A parsed line of the daemon's log.
#[derive(Debug)]
pub(crate) enum Line {
    /// A handler's line about a job.
    Handler { job_id: String, attempt: u32, digest: String, at_us: i64, message: String },
    /// A warning or an error.
    Problem(String),
    /// Anything else.
    Other,
}

/// The running daemon.
pub(crate) struct Daemon {
    process: Child,
    lines: mpsc::Receiver<Line>,
}

impl Daemon {
    /// Starts the daemon with its data in `data` and the shop at `shop`.
    pub(crate) fn start(args: &Args, data: &Path, shop: &str) -> anyhow::Result<Self> {
        let mut process = Command::new(&args.duebox)
            .arg("run")
            .arg("--manifest")
            .arg(&args.manifest)
            .env("QUICKSTART_DATA", data)
            .env("SHOP", shop)
            .env("DUEBOX_LOG", "info")
            .env("DUEBOX_LOG_FORMAT", "json")
            .env_remove("DUEBOX_REDIS_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is handled by the demo, which then stops the daemon.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!(
                    "cannot start {}; run: cargo build --release -p duebox",
                    args.duebox.display()
                )
            })?;
        let (sender, lines) = mpsc::channel(LINES_MAX);
        if let Some(stderr) = process.stderr.take() {
            tokio::spawn(listen(stderr, sender));
        }
        Ok(Self { process, lines })
    }

    /// The next log line; `None` at the end of the log.
    pub(crate) async fn line(&mut self) -> Option<Line> {
        self.lines.recv().await
    }

    /// Kills the daemon, as a crash would: it releases no job. Its log can still be read to the
    /// end.
    pub(crate) async fn kill(&mut self) -> anyhow::Result<()> {
        self.process.kill().await.context("cannot kill the daemon")
    }

    /// Asks the daemon to stop and waits until it has exited.
    pub(crate) async fn stop(mut self) -> anyhow::Result<ExitStatus> {
        if let Some(pid) = self.process.id() {
            let kill = format!("kill -s TERM {pid}");
            let sent = Command::new("sh").args(["-c", &kill]).status().await;
            sent.context("cannot run sh to stop the daemon")?;
        }
        self.lines.close();
        let ended = timeout(STOP_MAX, self.process.wait()).await;
        let ended = ended.with_context(|| format!("the daemon still runs after {STOP_MAX:?}"))?;
        ended.context("cannot wait for the daemon")
    }
}

async fn listen(stderr: ChildStderr, lines: mpsc::Sender<Line>) {
    let mut reader = BufReader::new(stderr).lines();
    while let Ok(Some(text)) = reader.next_line().await {
        // When the receiver is closed, keep reading, so that the pipe does not fill up.
        if !lines.is_closed() && lines.send(Line::read(text)).await.is_err() {
            lines.closed().await;
        }
    }
}

impl Line {
    fn read(text: String) -> Self {
        let json: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let field = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        if field("target") == "handler" {
            let at = field("timestamp").parse::<jiff::Timestamp>();
            return Self::Handler {
                job_id: field("job_id"),
                attempt: json["attempt"].as_u64().and_then(|n| n.try_into().ok()).unwrap_or(1),
                digest: field("digest"),
                at_us: at.map(jiff::Timestamp::as_microsecond).unwrap_or_default(),
                message: field("message"),
            };
        }
        match field("level").as_str() {
            "WARN" | "ERROR" => {
                Self::Problem(problem(&["topic", "job_id", "message", "reason"].map(field)))
            }
            // Text that is not JSON was printed before the log started: a refusal or a panic.
            "" => Self::Problem(text),
            _ => Self::Other,
        }
    }
}

/// The text of a problem: which job has it and why, if it is one of a job.
fn problem([topic, job_id, message, reason]: &[String; 4]) -> String {
    match (job_id.as_str(), reason.as_str()) {
        ("", _) => message.clone(),
        (_, "") => format!("{topic} {job_id}: {message}"),
        _ => format!("{topic} {job_id}: {message} ({reason})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_by_kind() {
        let handler = r#"{"timestamp":"2026-11-21T15:03:29.000250Z","level":"INFO","message":"verdict=ack","topic":"t","job_id":"a","attempt":2,"digest":"d1","target":"handler"}"#;
        let Line::Handler { job_id, attempt, digest, at_us, message } =
            Line::read(handler.to_owned())
        else {
            panic!("no handler line")
        };
        assert_eq!((job_id.as_str(), attempt, digest.as_str()), ("a", 2, "d1"));
        assert_eq!(message, "verdict=ack");
        assert_eq!(at_us % 1_000_000, 250);
        let warning = r#"{"level":"WARN","message":"slow","target":"duebox"}"#;
        assert!(matches!(Line::read(warning.to_owned()), Line::Problem(text) if text == "slow"));
        let dead = r#"{"level":"ERROR","message":"job dead: attempt 1 of 8 failed","topic":"t","job_id":"a","reason":"no such order","target":"duebox::job"}"#;
        let text = "t a: job dead: attempt 1 of 8 failed (no such order)";
        assert!(matches!(Line::read(dead.to_owned()), Line::Problem(read) if read == text));
        assert!(matches!(Line::read("thread panicked".to_owned()), Line::Problem(_)));
    }
}
