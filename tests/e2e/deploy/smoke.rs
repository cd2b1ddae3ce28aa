//! Smoke cases: a module that does not come to what they expect never runs a job.

use std::time::Duration;

use duebox_harness::Daemon;

use crate::support::fixture::{Ground, topic};
use crate::support::handler::{Handler, digest};
use crate::support::log::{is_said, is_verdict, settled_as};
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
fn a_daemon_does_not_start_on_a_module_that_fails_them() {
    let ground = Ground::new();
    ground.write("module.wasm", Handler::says("no").nacks().wasm());
    ground.manifest("", &[expecting(&["nack", "ack"])]);
    let mut daemon = Daemon::start(&ground.path("duebox.toml"));
    assert_eq!(daemon.wait_exit().code(), Some(2));
    let said: String = daemon.lines().iter().map(|line| format!("{}\n", line.text())).collect();
    for part in ["smoke case 2 of 2", "came to nack", "info: no", "hint: "] {
        assert!(said.contains(part), "{part} is missing: {said}");
    }
    assert_eq!(daemon.count(is_verdict), 0);
}

#[test]
fn a_reload_keeps_the_module_that_passes_them_and_what_runs_on_it() {
    let ground = Ground::new();
    let good = Handler::says("good").naps(Duration::from_secs(1)).wasm();
    ground.write("module.wasm", &good);
    ground.manifest("", &[expecting(&["ack"])]);
    let daemon = ground.start();
    push(&ground, TOPIC, "before", 0);
    daemon.wait_for_line("the job runs", is_said);
    let bad = Handler::says("bad").nacks().wasm();
    ground.write("module.wasm", &bad);
    let refused = daemon.wait_for_line("the refusal", |line| {
        line.has("level", "WARN") && line.message().contains("the module in service stays")
    });
    for part in ["smoke case 1 of 1", "should come to ack and came to nack", "info: bad"] {
        assert!(refused.message().contains(part), "{part} is missing: {}", refused.text());
    }
    push(&ground, TOPIC, "after", 0);
    for id in ["before", "after"] {
        let is_it = |line: &_| settled_as(line, "done") && line.has("job_id", id);
        assert!(daemon.wait_for_line(id, is_it).has("digest", &digest(&good)), "{id}");
    }
    // Cases run in a world of their own: of the bad module, no job and no line of info is seen.
    assert_eq!(daemon.count(|line| line.has("digest", &digest(&bad)) && is_said(line)), 0);

    // The case was wrong: the manifest says so, and the module that lies there is taken.
    ground.manifest("", &[expecting(&["nack"])]);
    daemon.wait_for_line("the module is taken", |line| {
        line.message().starts_with("a new module serves") && line.has("digest", &digest(&bad))
    });
    push(&ground, TOPIC, "last", 0);
    daemon.wait_for_line("last", |line| settled_as(line, "retry") && line.has("job_id", "last"));
}
