//! Options of single jobs (ttr, attempts), and changes to waiting jobs: cancel and run again.

use std::time::Duration;

use duebox_harness::{LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_handler_line, settled_as, verdicts};

const TOPIC: &str = "work";

fn fixture(handler: &Handler, keys: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("work.wat", handler.wat());
    fixture.manifest("", &[topic(TOPIC, "work.wat", keys)]);
    fixture
}

fn of(id: &'static str, settled: &'static str) -> impl Fn(&LogLine) -> bool {
    move |line| settled_as(line, settled) && line.has("job_id", id)
}

#[test]
fn options_of_a_job_override_those_of_its_topic() {
    let long = Handler::logs("ran").naps(Duration::from_secs(7_200));
    let fixture = fixture(&long, "ttr = \"300ms\"\nmax_attempts = 2\nbackoff = [\"1ms\"]");
    let daemon = fixture.start();
    fixture.duebox(&["push", TOPIC, "--id", "plain"]);
    fixture.duebox(&["push", TOPIC, "--id", "own", "--ttr", "900ms", "--max-attempts", "1"]);
    let plain = daemon.wait_for_line("plain dies", of("plain", "dead"));
    let own = daemon.wait_for_line("own dies", of("own", "dead"));
    assert_eq!((plain.number("attempt"), own.number("attempt")), (Some(2), Some(1)));
    let wall = |line: &LogLine| line.decimal("wall_ms").unwrap();
    println!("ttr 300 ms ended after {} ms, ttr 900 ms after {} ms", wall(&plain), wall(&own));
    assert!(wall(&plain) >= 300.0 && wall(&own) >= 900.0);
    for id in ["plain", "own"] {
        assert_eq!(fixture.store().dead_class(TOPIC, id), "timeout");
    }
}

#[test]
fn a_cancelled_job_does_not_run_or_retry() {
    let handler = Handler::logs("ran").naps(Duration::from_millis(700)).nacks();
    let fixture = fixture(&handler, "backoff = [\"1ms\"]");
    let mut daemon = fixture.start();
    fixture.duebox(&["push", TOPIC, "--id", "waits", "--in", "1500ms"]);
    assert_eq!(fixture.duebox(&["cancel", TOPIC, "waits"]), "cancelled waits in work\n");
    fixture.duebox(&["push", TOPIC, "--id", "runs"]);
    daemon.wait_for_line("it runs", is_handler_line);
    assert!(fixture.duebox(&["cancel", TOPIC, "runs"]).contains("leased"));
    daemon.wait_for_line("its verdict", of("runs", "cancelled"));
    // Due after the cancelled job.
    fixture.duebox(&["push", TOPIC, "--id", "last", "--in", "1600ms", "--max-attempts", "1"]);
    daemon.wait_for_line("the last", of("last", "dead"));
    assert!(daemon.terminate().success());
    let ids: Vec<String> = verdicts(&daemon).into_iter().map(|verdict| verdict.id).collect();
    assert_eq!(ids, ["runs", "last"]);
    assert_eq!(fixture.store().live_count(TOPIC), 0);
}

#[test]
fn dead_jobs_run_again_with_all_their_attempts() {
    let fixture = fixture(&Handler::logs("ran").nacks(), "max_attempts = 2\nbackoff = [\"1ms\"]");
    let daemon = fixture.start();
    let ids = ["a", "b", "c"];
    for id in ids {
        fixture.duebox(&["push", TOPIC, "--id", id]);
    }
    let dead = || daemon.count(|line| settled_as(line, "dead"));
    eventually("three are dead", || dead() == ids.len());
    fixture.duebox(&["requeue", TOPIC, "--all"]);
    eventually("three are dead again", || dead() == 2 * ids.len());
    for id in ids {
        let attempts: Vec<i64> =
            verdicts(&daemon).iter().filter(|v| v.id == id).map(|v| v.attempt).collect();
        assert_eq!(attempts, [1, 2, 1, 2]);
    }
}
