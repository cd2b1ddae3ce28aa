//! A pseudo-terminal of `script` in which a command runs, with real key presses.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use duebox_harness::eventually;

/// A terminal in which a command runs.
pub(crate) struct Terminal {
    script: Child,
    /// What was written since the last look.
    written: Arc<Mutex<Vec<u8>>>,
    /// Everything that was written.
    all: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Runs a command of the shell in a terminal with so many columns and rows.
    pub(crate) fn open(command: &str, (columns, rows): (u16, u16)) -> Self {
        let run = format!("stty cols {columns} rows {rows} && exec {command}");
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--flush", "--command", &run, "/dev/null"])
            .env_remove("DUEBOX_MANIFEST")
            .env_remove("DUEBOX_REDIS_URL")
            .env("DUEBOX_LISTEN", "127.0.0.1:0")
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = script.stdout.take().unwrap();
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let all = Arc::<Mutex<Vec<u8>>>::default();
        let (screen, record) = (Arc::clone(&written), Arc::clone(&all));
        std::thread::spawn(move || {
            let mut piece = [0; 4_096];
            while let Ok(length @ 1..) = output.read(&mut piece) {
                screen.lock().unwrap().extend_from_slice(&piece[..length]);
                record.lock().unwrap().extend_from_slice(&piece[..length]);
            }
        });
        Self { script, written, all }
    }

    /// Waits until the output since the last call contains these words.
    #[track_caller]
    pub(crate) fn shows(&self, words: &str) {
        eventually(words, || {
            let mut written = self.written.lock().unwrap();
            let found = plain(&written).contains(words);
            if found {
                written.clear();
            }
            found
        });
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// How the command ended, once it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.script.try_wait().unwrap()
    }

    /// Everything that was written.
    pub(crate) fn all(&self) -> String {
        String::from_utf8_lossy(&self.all.lock().unwrap()).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        drop(self.script.kill());
        drop(self.script.wait());
    }
}

/// The text without escape sequences.
fn plain(written: &[u8]) -> String {
    let text = String::from_utf8_lossy(written);
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' if letters.next() == Some('[') => {
                // Skip to the letter that ends the sequence.
                letters.by_ref().find(char::is_ascii_alphabetic);
            }
            '\u{1b}' => {}
            letter => plain.push(letter),
        }
    }
    plain
}
