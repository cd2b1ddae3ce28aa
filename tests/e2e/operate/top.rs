//! `duebox top` on a pseudo-terminal of `script`, with real key presses.

use std::process::{Command, Stdio};

use duebox_harness::{Daemon, duebox_binary, eventually};
use serde_json::Value;

use crate::support::fixture::{Fixture, topic};
use crate::support::producer::push_payload;
use crate::support::puppet::{PARROT, PUPPET};
use crate::support::redis_state::key;
use crate::support::terminal::Terminal;

/// Sets the title of the terminal, clears the screen in two ways, and turns the direction of text.
const HOSTILE: &str = "a\x1b]0;owned\x07\x1b[2J\u{9b}2J\u{202e}\u{200f}z";
/// The same as an argument of redis-cli.
const QUOTED: &str = r#""a\x1b]0;owned\x07\x1b[2J\xc2\x9b2J\xe2\x80\xae\xe2\x80\x8fz""#;

/// `duebox top` in a terminal.
fn top(fixture: &Fixture) -> Terminal {
    let manifest = fixture.path("duebox.toml");
    Terminal::open(
        &format!("{} top --manifest {}", duebox_binary().display(), manifest.display()),
        (120, 30),
    )
}

#[test]
fn a_dead_job_is_requeued_with_the_keyboard() {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    fixture.manifest("", &[topic("work", "puppet.wat", "max_attempts = 1")]);
    let daemon = fixture.start();
    push_payload(&fixture, "work", "ill-fated", "N");
    daemon.wait_for_line("its death", |line| line.has("settled", "dead"));
    let mut terminal = top(&fixture);
    terminal.shows("work");
    terminal.press("\r");
    terminal.shows("ill-fated");
    terminal.press("r");
    terminal.shows("?");
    terminal.press("y");
    terminal.shows("requeued ill-fated");
    eventually("it ran again", || daemon.count(|line| line.has("settled", "dead")) == 2);
    terminal.press("qq");
    eventually("it has ended", || terminal.ended().is_some());
    let ended = terminal.ended().unwrap();
    assert!(ended.success(), "{ended}");
}

/// Characters that a terminal obeys, and those that set the direction of text.
fn is_obeyed(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The id, the payload, the log lines and the reason of a job are texts of strangers.
#[test]
fn texts_of_strangers_do_not_command_the_terminal() {
    let fixture = Fixture::new();
    fixture.write("parrot.wat", PARROT);
    fixture.manifest("", &[topic("work", "parrot.wat", "")]);
    for format in ["human", "json"] {
        run_hostile_job(&fixture, format);
    }
    for words in [
        &["dead", "list", "work"][..],
        &["dead", "show", "work", HOSTILE],
        &["get", "work", HOSTILE],
        &["stats"],
        &["doctor"],
    ] {
        let text = fixture.duebox(words);
        assert!(!text.contains(is_obeyed), "{words:?}: {text:?}");
        let json = fixture.duebox(&[words, &["--json"]].concat());
        assert!(!json.contains(is_obeyed), "{words:?}: {json:?}");
        for line in json.lines() {
            serde_json::from_str::<Value>(line).unwrap_or_else(|why| panic!("{why}: {line}"));
        }
    }
    let json = fixture.duebox(&["get", "work", HOSTILE, "--json"]);
    let job: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((job["id"].as_str(), job["payload"].as_str()), (Some(HOSTILE), Some(HOSTILE)));
    let mut terminal = top(&fixture);
    terminal.shows("work");
    terminal.press("\r");
    terminal.shows("owned");
    terminal.press("\r");
    terminal.shows("drop");
    terminal.press("qqq");
    eventually("it has ended", || terminal.ended().is_some());
    let all = terminal.all();
    assert!(!all.contains("\x1b]0;owned") && !all.contains("\x1b[2J\u{9b}"), "{all:?}");
    let is_text = |c: char| is_obeyed(c) && !matches!(c, '\x1b' | '\r' | '\x08' | '\x0e' | '\x0f');
    assert!(!all.contains(is_text), "{all:?}");
}

/// Runs the job on a daemon with this format of the log, which shows the texts on their lines.
fn run_hostile_job(fixture: &Fixture, format: &str) {
    let daemon = Daemon::start_with(&fixture.path("duebox.toml"), |command| {
        command.env("DUEBOX_LOG_FORMAT", format);
    });
    let (jobs, pending) = (key("work", "jobs"), key("work", "pending"));
    let push = format!("HSET {jobs} {QUOTED} {QUOTED}\nZADD {pending} 0 {QUOTED}");
    fixture.redis.pipe(&format!("MULTI\n{push}\nEXEC"));
    daemon.wait_for_line("its death", |line| {
        line.text().contains("owned") && line.text().contains("job dead")
    });
    for line in daemon.lines() {
        assert!(!line.text().contains(is_obeyed), "{line:?}");
        assert!(format == "human" || line.message() != "", "{line:?}");
    }
    let died = fixture.duebox(&["dead", "list", "work"]);
    assert!(died.contains("owned"), "{died}");
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
