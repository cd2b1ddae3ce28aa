//! A named pipe in place of a file is refused, and never waited for. The daemon ends on SIGTERM whatever a reload
//! waits for.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use duebox_harness::LogLine;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, digest, hostile};
use crate::support::log::settled_as;
use crate::support::producer::push;

const TOPIC: &str = "work";

/// Replaces a file by a named pipe that nobody writes to.
fn replace_by_pipe(fixture: &Fixture, name: &str) {
    let aside = fixture.path("pipe");
    assert!(Command::new("mkfifo").arg(&aside).status().unwrap().success());
    fs::rename(aside, fixture.path(name)).unwrap();
}

#[test]
fn a_pipe_in_place_of_a_module_or_a_manifest_only_causes_a_warning() {
    let fixture = Fixture::new();
    let first = Handler::logs("first").wasm();
    fixture.write("module.wasm", &first);
    let topics = [topic(TOPIC, "module.wasm", "")];
    fixture.manifest("", &topics);
    let mut daemon = fixture.start();
    for file in ["module.wasm", "duebox.toml"] {
        replace_by_pipe(&fixture, file);
        daemon.wait_for_line(file, |line: &LogLine| {
            line.has("level", "WARN")
                && line.text().contains(file)
                && line.text().contains("not a regular file")
        });
    }
    let second = Handler::logs("second").wasm();
    for name in ["duebox.toml", "module.wasm"] {
        fs::remove_file(fixture.path(name)).unwrap();
    }
    fixture.write("module.wasm", &second);
    fixture.manifest("", &topics);
    let serves = |line: &LogLine| line.message().starts_with("a new module serves");
    daemon.wait_for_line("the new module", serves);
    push(&fixture, TOPIC, "after", 0);
    let done = daemon.wait_for_line("the job", |line| settled_as(line, "done"));
    assert!(done.has("digest", &digest(&second)));
    assert!(daemon.terminate().success());
}

/// A topic with a case that an endless loop keeps busy for 10 s.
fn endless_cases() -> String {
    let case = format!("[[topics.{TOPIC}.smoke]]\npayload = \"{{}}\"\nexpect = \"ack\"\n");
    topic(TOPIC, "module.wat", "ttr = \"10s\"") + &case
}

#[test]
fn a_stop_does_not_wait_for_a_module_that_is_being_checked() {
    let fixture = Fixture::new();
    fixture.write("module.wat", Handler::logs("good").wat());
    fixture.manifest("", &[endless_cases()]);
    let mut daemon = fixture.start();
    // Its smoke case ends after 10 s.
    fixture.write("module.wat", hostile("endless_loop"));
    // The case runs when a thread of the daemon uses the processor; nothing else does.
    duebox_harness::eventually("the case runs", || cpu_ticks(daemon.pid()) > 40);
    let asked_at = Instant::now();
    assert!(daemon.terminate().success());
    assert!(asked_at.elapsed() < Duration::from_secs(4), "it took {:?}", asked_at.elapsed());
}

#[test]
fn a_start_can_be_stopped_while_a_module_is_being_checked() {
    let fixture = Fixture::new();
    fixture.write("module.wat", hostile("endless_loop"));
    fixture.manifest("", &[endless_cases()]);
    let mut daemon = duebox_harness::Daemon::start(&fixture.path("duebox.toml"));
    daemon.wait_for_line("the start", |line| line.message().starts_with("starting"));
    duebox_harness::eventually("the case runs", || cpu_ticks(daemon.pid()) > 40);
    let asked_at = Instant::now();
    assert!(daemon.terminate().success());
    assert!(asked_at.elapsed() < Duration::from_secs(4), "it took {:?}", asked_at.elapsed());
}

/// The CPU time of a process in ticks of 10 ms.
fn cpu_ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
