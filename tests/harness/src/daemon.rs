//! The real `duebox` binary in a test: started with a manifest, observed through its JSON log
//! lines, stopped by signals. Dropping it kills the process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{Cgroup, patience, signal};

/// Maximum number of log lines kept in memory; a test that reaches it should log less.
const LINES_MAX: usize = 2_000_000;
/// Number of last lines that a panic shows.
const TAIL: usize = 40;

/// One line of the daemon's log.
#[derive(Debug, Clone)]
pub struct LogLine {
    text: String,
    json: Value,
}

impl LogLine {
    fn new(text: String) -> Self {
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Self { text, json }
    }

    /// The line as the daemon wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A field of the line, wherever the log format puts it; `Null` if it is missing.
    pub fn field(&self, name: &str) -> &Value {
        match &self.json[name] {
            Value::Null => &self.json["fields"][name],
            found => found,
        }
    }

    /// A field as text; empty if it is missing or not text.
    pub fn str(&self, name: &str) -> &str {
        self.field(name).as_str().unwrap_or_default()
    }

    /// A field as an integer, even if it was logged as text.
    pub fn number(&self, name: &str) -> Option<i64> {
        let field = self.field(name);
        field.as_i64().or_else(|| field.as_str()?.parse().ok())
    }

    /// A field as a decimal number, even if it was logged as text.
    pub fn decimal(&self, name: &str) -> Option<f64> {
        let field = self.field(name);
        field.as_f64().or_else(|| field.as_str()?.parse().ok())
    }

    /// Whether the field is this text.
    pub fn has(&self, name: &str, value: &str) -> bool {
        self.field(name).as_str() == Some(value)
    }

    /// The message of the line.
    pub fn message(&self) -> &str {
        self.str("message")
    }
}

#[derive(Debug, Default)]
struct LogState {
    lines: Vec<LogLine>,
    ended: bool,
}

type Shared = Arc<(Mutex<LogState>, Condvar)>;

/// A running `duebox run`.
#[derive(Debug)]
pub struct Daemon {
    process: Child,
    log: Shared,
}

/// The binary under test, in the folder of the test's own binary or above it.
///
/// # Panics
/// If it has not been built.
pub fn duebox_binary() -> PathBuf {
    let own = std::env::current_exe()
        .unwrap_or_else(|error| panic!("cannot find this test's binary: {error}"));
    // A test is in target/release/deps, other binaries are in target/release.
    let found = own.ancestors().skip(1).take(2).map(|dir| dir.join("duebox")).find(|p| p.is_file());
    found.unwrap_or_else(|| {
        panic!("no duebox binary near {}; run: cargo build --release -p duebox", own.display())
    })
}

impl Daemon {
    /// Starts `duebox run --manifest FILE` with JSON logs. The daemon need not be ready on return.
    ///
    /// # Panics
    /// If the binary is missing or cannot be started.
    pub fn start(manifest: &Path) -> Self {
        Self::start_with(manifest, |_| {})
    }

    /// The same after `change` has modified the command: environment, further flags, directory.
    ///
    /// # Panics
    /// If the binary is missing or cannot be started.
    pub fn start_with(manifest: &Path, change: impl FnOnce(&mut Command)) -> Self {
        Self::start_binary(&duebox_binary(), manifest, change)
    }

    /// The same with another binary, such as one of another version.
    ///
    /// # Panics
    /// If the binary cannot be started.
    pub fn start_binary(binary: &Path, manifest: &Path, change: impl FnOnce(&mut Command)) -> Self {
        Self::spawn(Command::new(binary), manifest, change)
    }

    /// The same in a cgroup, from its first instruction on.
    ///
    /// # Panics
    /// If the binary is missing or cannot be started.
    pub fn start_in(cgroup: &Cgroup, manifest: &Path) -> Self {
        let mut shell = Command::new("sh");
        let entries = cgroup.entries();
        let enter: Vec<String> =
            entries.iter().map(|file| format!("echo $$ > '{}'", file.display())).collect();
        let script = format!("{} && exec \"$0\" \"$@\"", enter.join(" && "));
        shell.arg("-c").arg(script).arg(duebox_binary());
        Self::spawn(shell, manifest, |_| {})
    }

    fn spawn(mut command: Command, manifest: &Path, change: impl FnOnce(&mut Command)) -> Self {
        command
            .arg("run")
            .arg("--manifest")
            .arg(manifest)
            .env("DUEBOX_LOG_FORMAT", "json")
            // The manifest of the test decides, whatever the environment contains.
            .env_remove("DUEBOX_REDIS_URL")
            // Many daemons run at once: each uses a free port and logs it.
            .env("DUEBOX_LISTEN", "127.0.0.1:0")
            .env_remove("DUEBOX_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        change(&mut command);
        let mut process = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {:?}: {error}", command.get_program()));
        let log = Shared::default();
        if let Some(stderr) = process.stderr.take() {
            let log = Arc::clone(&log);
            std::thread::spawn(move || listen(stderr, &log));
        }
        Self { process, log }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<LogLine> {
        lock(&self.log).lines.clone()
    }

    /// The number of lines so far that match `wanted`; cheaper than [`Daemon::lines`].
    pub fn count(&self, wanted: impl Fn(&LogLine) -> bool) -> usize {
        lock(&self.log).lines.iter().filter(|line| wanted(line)).count()
    }

    /// The number of lines after the first `seen` that match `wanted`, and the number of all lines. A wait that counts only
    /// new lines takes no CPU time from the daemon that it measures.
    pub fn count_behind(&self, seen: usize, wanted: impl Fn(&LogLine) -> bool) -> (usize, usize) {
        let log = lock(&self.log);
        (log.lines[seen..].iter().filter(|line| wanted(line)).count(), log.lines.len())
    }

    /// Waits for a line that matches `wanted`, past or future, and returns the first.
    ///
    /// # Panics
    /// If no such line is logged within [`patience`](crate::patience), or the daemon exits without
    /// it. The message contains `what` and the end of the log.
    #[track_caller]
    pub fn wait_for_line(&self, what: &str, wanted: impl Fn(&LogLine) -> bool) -> LogLine {
        let deadline = Instant::now() + patience();
        let mut seen = 0;
        let mut log = lock(&self.log);
        loop {
            if let Some(line) = log.lines[seen..].iter().find(|line| wanted(line)) {
                return line.clone();
            }
            seen = log.lines.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if log.ended || left.is_zero() {
                let why = if log.ended { "the daemon exited" } else { "the wait timed out" };
                let tail = tail(&log.lines);
                drop(log);
                panic!("{why} before this line of the daemon's log: {what}; the log ends:\n{tail}");
            }
            let (_, changed) = &*self.log;
            let woken = changed.wait_timeout(log, left).unwrap_or_else(PoisonError::into_inner);
            log = woken.0;
        }
    }

    /// Sends the daemon the signal with this name (without `SIG`), such as `HUP` or `STOP`.
    ///
    /// # Panics
    /// If the daemon has exited.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        signal::send_signal(name, self.pid());
    }

    /// Asks the daemon to stop (SIGTERM) and waits until it has exited.
    ///
    /// # Panics
    /// If it still runs after [`patience`](crate::patience).
    pub fn terminate(&mut self) -> ExitStatus {
        if let Some(status) = self.exited() {
            return status;
        }
        signal::send_signal("TERM", self.pid());
        self.wait_exit()
    }

    /// Kills the daemon (SIGKILL) and waits until it has exited.
    pub fn kill(&mut self) {
        // Both fail only if the process has already exited.
        drop(self.process.kill());
        drop(self.process.wait());
    }

    /// The exit status, if the daemon has exited.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.process
            .try_wait()
            .unwrap_or_else(|error| panic!("cannot wait for the daemon: {error}"))
    }

    /// Waits until the daemon has exited by itself and its log is complete.
    ///
    /// # Panics
    /// If it still runs after [`patience`](crate::patience).
    pub fn wait_exit(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.exited()
                && lock(&self.log).ended
            {
                return status;
            }
            assert!(
                started.elapsed() < patience(),
                "the daemon did not exit; its log ends:\n{}",
                tail(&lock(&self.log).lines)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let tail = tail(&lock(&self.log).lines);
            // The test has failed, so show the end of the daemon's log.
            #[expect(clippy::print_stderr, reason = "a failed test shows the daemon's log")]
            {
                eprintln!("the log of daemon {} ends:\n{tail}", self.pid());
            }
        }
        self.kill();
    }
}

fn listen(stderr: ChildStderr, log: &Shared) {
    for line in BufReader::new(stderr).lines() {
        let Ok(text) = line else { break };
        let line = LogLine::new(text);
        let mut guard = lock(log);
        assert!(guard.lines.len() < LINES_MAX, "the daemon logged more than {LINES_MAX} lines");
        guard.lines.push(line);
        drop(guard);
        log.1.notify_all();
    }
    lock(log).ended = true;
    log.1.notify_all();
}

fn lock(log: &Shared) -> MutexGuard<'_, LogState> {
    log.0.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tail(lines: &[LogLine]) -> String {
    let from = lines.len().saturating_sub(TAIL);
    let last: Vec<&str> = lines[from..].iter().map(LogLine::text).collect();
    last.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_flat_and_nested() {
        for text in [
            r#"{"level":"INFO","fields":{"message":"m","attempt":2,"topic":"t"}}"#,
            r#"{"level":"INFO","message":"m","attempt":"2","topic":"t"}"#,
        ] {
            let line = LogLine::new(text.to_owned());
            assert_eq!(line.number("attempt"), Some(2));
            assert_eq!(line.decimal("attempt"), Some(2.0));
            assert!(line.has("topic", "t") && line.message() == "m");
            assert_eq!(line.str("nothing"), "");
        }
        assert_eq!(LogLine::new("no json".to_owned()).number("attempt"), None);
    }
}
