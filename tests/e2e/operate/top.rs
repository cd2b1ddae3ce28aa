//! `duebox top` on a pseudo-terminal of `script`, with real key presses.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use duebox_harness::{duebox_binary, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::producer::push_payload;
use crate::support::puppet::PUPPET;

/// A terminal in which `duebox top` runs.
struct Terminal {
    script: Child,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open(fixture: &Fixture) -> Self {
        let top = format!(
            "stty cols 120 rows 30 && exec {} top --manifest {}",
            duebox_binary().display(),
            fixture.path("duebox.toml").display()
        );
        let mut script = Command::new("script")
            .args(["--quiet", "--return", "--flush", "--command", &top, "/dev/null"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = script.stdout.take().unwrap();
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let screen = Arc::clone(&written);
        std::thread::spawn(move || {
            let mut piece = [0; 4_096];
            while let Ok(length @ 1..) = output.read(&mut piece) {
                screen.lock().unwrap().extend_from_slice(&piece[..length]);
            }
        });
        Self { script, written }
    }

    /// Waits until the output since the last call contains these words.
    fn shows(&self, words: &str) {
        eventually(words, || {
            let mut written = self.written.lock().unwrap();
            let found = plain(&written).contains(words);
            if found {
                written.clear();
            }
            found
        });
    }

    fn press(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
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

#[test]
fn a_dead_job_is_requeued_with_the_keyboard() {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    fixture.manifest("", &[topic("work", "puppet.wat", "max_attempts = 1")]);
    let daemon = fixture.start();
    push_payload(&fixture, "work", "ill-fated", "N");
    daemon.wait_for_line("its death", |line| line.has("settled", "dead"));
    let mut terminal = Terminal::open(&fixture);
    terminal.shows("work");
    terminal.press("\r");
    terminal.shows("ill-fated");
    terminal.press("r");
    terminal.shows("?");
    terminal.press("y");
    terminal.shows("requeued ill-fated");
    eventually("it ran again", || daemon.count(|line| line.has("settled", "dead")) == 2);
    terminal.press("qq");
    eventually("it has ended", || terminal.script.try_wait().unwrap().is_some());
    let ended = terminal.script.try_wait().unwrap().unwrap();
    assert!(ended.success(), "{ended}");
}

#[test]
fn a_missing_terminal_is_an_error() {
    let fixture = Fixture::new();
    fixture.manifest("", &[]);
    let manifest = fixture.path("duebox.toml").display().to_string();
    let output = Command::new(duebox_binary())
        .args(["top", "--manifest", &manifest])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("needs a terminal") && printed.contains("duebox stats"), "{printed}");
}
