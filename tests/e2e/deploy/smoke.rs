//! A module that fails a smoke case never runs a job.

use std::time::Duration;

use duebox_harness::Daemon;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, digest};
use crate::support::log::{is_handler_line, is_verdict, settled_as};
use crate::support::producer::push;

const TOPIC: &str = "work";

/// The topic with cases that expect these verdicts.
fn expecting(verdicts: &[&str]) -> String {
    let cases = verdicts.iter().map(|verdict| {
        format!("[[topics.{TOPIC}.smoke]]\npayload = \"{{}}\"\nexpect = \"{verdict}\"\n")
    });
    topic(TOPIC, "module.wasm", "") + &cases.collect::<String>()
}

#[test]
fn a_daemon_does_not_start_with_a_failing_module() {
    let fixture = Fixture::new();
    fixture.write("module.wasm", Handler::logs("no").nacks().wasm());
    fixture.manifest("", &[expecting(&["nack", "ack"])]);
    let mut daemon = Daemon::start(&fixture.path("duebox.toml"));
    assert_eq!(daemon.wait_exit().code(), Some(2));
    let printed: String = daemon.lines().iter().map(|line| format!("{}\n", line.text())).collect();
    for part in ["smoke case 2 of 2", "came to nack", "info: no", "hint: "] {
        assert!(printed.contains(part), "{part} is missing: {printed}");
    }
    assert_eq!(daemon.count(is_verdict), 0);
}

#[test]
fn a_reload_keeps_the_passing_module_and_its_jobs() {
    let fixture = Fixture::new();
    let good = Handler::logs("good").naps(Duration::from_secs(1)).wasm();
    fixture.write("module.wasm", &good);
    fixture.manifest("", &[expecting(&["ack"])]);
    let daemon = fixture.start();
    push(&fixture, TOPIC, "before", 0);
    daemon.wait_for_line("the job runs", is_handler_line);
    let bad = Handler::logs("bad").nacks().wasm();
    fixture.write("module.wasm", &bad);
    let refused = daemon.wait_for_line("the refusal", |line| {
        line.has("level", "WARN") && line.message().contains("the module in service stays")
    });
    for part in ["smoke case 1 of 1", "should come to ack and came to nack", "info: bad"] {
        assert!(refused.message().contains(part), "{part} is missing: {}", refused.text());
    }
    push(&fixture, TOPIC, "after", 0);
    for id in ["before", "after"] {
        let is_it = |line: &_| settled_as(line, "done") && line.has("job_id", id);
        assert!(daemon.wait_for_line(id, is_it).has("digest", &digest(&good)), "{id}");
    }
    // Smoke cases run without side effects: the bad module runs no job and logs no info line.
    assert_eq!(daemon.count(|line| line.has("digest", &digest(&bad)) && is_handler_line(line)), 0);

    // After a correction of the case the module on disk is loaded.
    fixture.manifest("", &[expecting(&["nack"])]);
    daemon.wait_for_line("the module is taken", |line| {
        line.message().starts_with("a new module serves") && line.has("digest", &digest(&bad))
    });
    push(&fixture, TOPIC, "last", 0);
    daemon.wait_for_line("last", |line| settled_as(line, "retry") && line.has("job_id", "last"));
}
