//! `duebox top` at a real terminal: a pty of `script`, keys as a person presses them, and the screen as it is
//! written.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use duebox_harness::{duebox_binary, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::producer::push_payload;
use crate::support::puppet::PUPPET;

/// A terminal in which `duebox top` runs.
struct Terminal {
    script: Child,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    fn open(ground: &Ground) -> Self {
        let top = format!(
            "stty cols 120 rows 30 && exec {} top --manifest {}",
            duebox_binary().display(),
            ground.path("duebox.toml").display()
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

    /// What was written since this was asked last holds these words, or will.
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
        // Both fail only for a process that is gone already.
        drop(self.script.kill());
        drop(self.script.wait());
    }
}

/// The text without what moves the cursor and sets colours.
fn plain(written: &[u8]) -> String {
    let text = String::from_utf8_lossy(written);
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' if letters.next() == Some('[') => {
                // Up to the letter that ends the sequence.
                letters.by_ref().find(char::is_ascii_alphabetic);
            }
            '\u{1b}' => {}
            letter => plain.push(letter),
        }
    }
    plain
}

#[test]
fn a_dead_job_is_found_and_requeued_by_a_few_keys() {
    let ground = Ground::new();
    ground.write("puppet.wat", PUPPET);
    ground.manifest("", &[topic("work", "puppet.wat", "max_attempts = 1")]);
    let daemon = ground.start();
    push_payload(&ground, "work", "ill-fated", "N");
    daemon.wait_for_line("its death", |line| line.has("settled", "dead"));
    let mut terminal = Terminal::open(&ground);
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
fn where_there_is_no_terminal_that_is_told() {
    let ground = Ground::new();
    ground.manifest("", &[]);
    let manifest = ground.path("duebox.toml").display().to_string();
    let output = Command::new(duebox_binary())
        .args(["top", "--manifest", &manifest])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("needs a terminal") && said.contains("duebox stats"), "{said}");
}
