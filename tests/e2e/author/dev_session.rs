//! `duebox dev` without a terminal: the lines that it prints.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use duebox_harness::{duebox_binary, eventually, patience, send_signal};

/// A running session.
pub(super) struct DevSession {
    process: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl DevSession {
    /// Starts it in a folder, with this search path.
    pub(super) fn start(folder: &Path, args: &[&str], path: &OsStr) -> Self {
        let mut process = Command::new(duebox_binary())
            .arg("dev")
            .args(args)
            .current_dir(folder)
            .env("PATH", path)
            .env("DUEBOX_LISTEN", "127.0.0.1:0")
            .env_remove("DUEBOX_MANIFEST")
            .env_remove("DUEBOX_REDIS_URL")
            .env_remove("DUEBOX_LOG")
            .env("CARGO_TARGET_DIR", folder.join("../elsewhere"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (out, errors) = (process.stdout.take().unwrap(), process.stderr.take().unwrap());
        let (read, read_errors) = (Arc::clone(&lines), Arc::clone(&lines));
        std::thread::spawn(move || keep(BufReader::new(out), &read));
        std::thread::spawn(move || keep(BufReader::new(errors), &read_errors));
        Self { process, lines }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits for a line, past or future.
    #[track_caller]
    pub(super) fn shows(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        self.shows_after(0, what, wanted)
    }

    /// Waits for a line that came after so many lines.
    #[track_caller]
    pub(super) fn shows_after(
        &self,
        seen: usize,
        what: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> String {
        // A compiler may be slow on a loaded machine.
        let deadline = Instant::now() + 3 * patience();
        loop {
            let lines = self.lines.lock().unwrap().clone();
            if let Some(line) = lines.iter().skip(seen).find(|line| wanted(line)) {
                return line.clone();
            }
            assert!(Instant::now() < deadline, "waited for {what}:\n{}", lines.join("\n"));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// How many lines it has printed.
    pub(super) fn count(&self) -> usize {
        self.lines.lock().unwrap().len()
    }

    /// Stops it with SIGTERM.
    pub(super) fn terminate(self) -> ExitStatus {
        send_signal("TERM", self.pid());
        self.ended()
    }

    /// Waits for its end.
    pub(super) fn ended(mut self) -> ExitStatus {
        eventually("it has ended", || self.process.try_wait().unwrap().is_some());
        self.process.wait().unwrap()
    }
}

impl Drop for DevSession {
    fn drop(&mut self) {
        // Both fail only if it has already ended. Its daemon ends with it.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn keep(out: impl BufRead, lines: &Mutex<Vec<String>>) {
    for line in out.lines() {
        let Ok(line) = line else { return };
        lines.lock().unwrap().push(line);
    }
}

/// Whether a line has this label.
pub(super) fn is_verdict(line: &str, label: &str) -> bool {
    line.split_whitespace().nth(1) == Some(label)
}
