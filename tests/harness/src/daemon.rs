//! The real `duebox` binary as a test sees it: started on a manifest, heard through its JSON log
//! lines, ended by signals. Dropping it kills the process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{patience, signal};

/// A daemon's lines kept in memory; a test that logs more should log less.
const LINES_MAX: usize = 2_000_000;
/// How many of the last lines a panic shows.
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

    /// A field of the line, wherever the log format puts it; `Null` if the line has no such field.
    pub fn field(&self, name: &str) -> &Value {
        match &self.json[name] {
            Value::Null => &self.json["fields"][name],
            found => found,
        }
    }

    /// A field as text; empty if the line has no such field or it is no text.
    pub fn str(&self, name: &str) -> &str {
        self.field(name).as_str().unwrap_or_default()
    }

    /// A field as a whole number, also where it was logged as text.
    pub fn number(&self, name: &str) -> Option<i64> {
        let field = self.field(name);
        field.as_i64().or_else(|| field.as_str()?.parse().ok())
    }

    /// A field as a number with decimals, also where it was logged as text.
    pub fn decimal(&self, name: &str) -> Option<f64> {
        let field = self.field(name);
        field.as_f64().or_else(|| field.as_str()?.parse().ok())
    }

    /// True if the field is this text.
    pub fn has(&self, name: &str, value: &str) -> bool {
        self.field(name).as_str() == Some(value)
    }

    /// The message of the line.
    pub fn message(&self) -> &str {
        self.str("message")
    }
}

#[derive(Debug, Default)]
struct Heard {
    lines: Vec<LogLine>,
    ended: bool,
}

type Shared = Arc<(Mutex<Heard>, Condvar)>;

/// A running `duebox run`.
#[derive(Debug)]
pub struct Daemon {
    process: Child,
    heard: Shared,
}

/// Where the binary under test is: beside the test's own.
///
/// # Panics
/// If it has not been built.
pub fn duebox_binary() -> PathBuf {
    let own = std::env::current_exe()
        .unwrap_or_else(|error| panic!("cannot tell where this test's binary is: {error}"));
    // A test lies in target/release/deps, another binary in target/release.
    let found = own.ancestors().skip(1).take(2).map(|dir| dir.join("duebox")).find(|p| p.is_file());
    found.unwrap_or_else(|| {
        panic!("no duebox binary near {}; run: cargo build --release -p duebox", own.display())
    })
}

impl Daemon {
    /// Starts `duebox run --manifest FILE` with JSON logs; it need not be up when this returns.
    ///
    /// # Panics
    /// If the binary is missing or cannot be started.
    pub fn start(manifest: &Path) -> Self {
        Self::start_with(manifest, |_| {})
    }

    /// The same, with the command open to changes: environment, further flags, directory.
    ///
    /// # Panics
    /// If the binary is missing or cannot be started.
    pub fn start_with(manifest: &Path, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(duebox_binary());
        command
            .arg("run")
            .arg("--manifest")
            .arg(manifest)
            .env("DUEBOX_LOG_FORMAT", "json")
            // What a test says in its manifest is what counts, whatever the shell around it holds.
            .env_remove("DUEBOX_REDIS_URL")
            // Many run at once: each on a port that is free, which its log tells.
            .env("DUEBOX_LISTEN", "127.0.0.1:0")
            .env_remove("DUEBOX_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        change(&mut command);
        let mut process = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {:?}: {error}", command.get_program()));
        let heard = Shared::default();
        if let Some(stderr) = process.stderr.take() {
            let heard = Arc::clone(&heard);
            std::thread::spawn(move || listen(stderr, &heard));
        }
        Self { process, heard }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<LogLine> {
        lock(&self.heard).lines.clone()
    }

    /// How many lines so far hold for `wanted`; cheaper than [`Daemon::lines`].
    pub fn count(&self, wanted: impl Fn(&LogLine) -> bool) -> usize {
        lock(&self.heard).lines.iter().filter(|line| wanted(line)).count()
    }

    /// Waits for a line, past or to come, and returns the first that `wanted` accepts.
    ///
    /// # Panics
    /// Names `what`, with the end of the log, if no such line comes within the patience or the
    /// daemon ends without it.
    #[track_caller]
    pub fn wait_for_line(&self, what: &str, wanted: impl Fn(&LogLine) -> bool) -> LogLine {
        let deadline = Instant::now() + patience();
        let mut seen = 0;
        let mut heard = lock(&self.heard);
        loop {
            if let Some(line) = heard.lines[seen..].iter().find(|line| wanted(line)) {
                return line.clone();
            }
            seen = heard.lines.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if heard.ended || left.is_zero() {
                let why = if heard.ended { "the daemon ended" } else { "patience ended" };
                let tail = tail(&heard.lines);
                drop(heard);
                panic!("{why} before this line of the daemon's log: {what}; the log ends:\n{tail}");
            }
            let (_, changed) = &*self.heard;
            let woken = changed.wait_timeout(heard, left).unwrap_or_else(PoisonError::into_inner);
            heard = woken.0;
        }
    }

    /// Sends the daemon the signal with this name (without `SIG`), such as `HUP` or `STOP`.
    ///
    /// # Panics
    /// If the daemon is gone.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        signal::send_signal(name, self.pid());
    }

    /// Asks the daemon to end (SIGTERM) and waits until it has.
    ///
    /// # Panics
    /// If it still runs after the patience.
    pub fn terminate(&mut self) -> ExitStatus {
        if let Some(status) = self.exited() {
            return status;
        }
        signal::send_signal("TERM", self.pid());
        self.wait_exit()
    }

    /// Ends the daemon at once (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only for a process that is gone already, which is what is wanted.
        drop(self.process.kill());
        drop(self.process.wait());
    }

    /// How the daemon ended, if it did.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.process
            .try_wait()
            .unwrap_or_else(|error| panic!("cannot wait for the daemon: {error}"))
    }

    /// Waits until the daemon has ended by itself and its log is complete.
    ///
    /// # Panics
    /// If it still runs after the patience.
    pub fn wait_exit(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.exited()
                && lock(&self.heard).ended
            {
                return status;
            }
            assert!(
                started.elapsed() < patience(),
                "the daemon did not end; its log ends:\n{}",
                tail(&lock(&self.heard).lines)
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let tail = tail(&lock(&self.heard).lines);
            // The test has failed: what the daemon said last is what its reader needs.
            #[expect(clippy::print_stderr, reason = "a failed test shows the daemon's log")]
            {
                eprintln!("the log of daemon {} ends:\n{tail}", self.pid());
            }
        }
        self.kill();
    }
}

fn listen(stderr: ChildStderr, heard: &Shared) {
    for line in BufReader::new(stderr).lines() {
        let Ok(text) = line else { break };
        let line = LogLine::new(text);
        let mut guard = lock(heard);
        assert!(guard.lines.len() < LINES_MAX, "the daemon logged more than {LINES_MAX} lines");
        guard.lines.push(line);
        drop(guard);
        heard.1.notify_all();
    }
    lock(heard).ended = true;
    heard.1.notify_all();
}

fn lock(heard: &Shared) -> MutexGuard<'_, Heard> {
    heard.0.lock().unwrap_or_else(PoisonError::into_inner)
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
