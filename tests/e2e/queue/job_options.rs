//! What a job brings along itself, and what people do to it while it lives: ttr and attempts of its
//! own, cancelled, and run again.

use std::time::Duration;

use duebox_harness::{LogLine, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_said, settled_as, verdicts};

const TOPIC: &str = "work";

fn ground(handler: &Handler, keys: &str) -> Ground {
    let ground = Ground::new();
    ground.write("work.wat", handler.wat());
    ground.manifest("", &[topic(TOPIC, "work.wat", keys)]);
    ground
}

fn of(id: &'static str, settled: &'static str) -> impl Fn(&LogLine) -> bool {
    move |line| settled_as(line, settled) && line.has("job_id", id)
}

#[test]
fn a_ttr_and_attempts_of_its_own_beat_the_topics() {
    let long = Handler::says("ran").naps(Duration::from_secs(7_200));
    let ground = ground(&long, "ttr = \"300ms\"\nmax_attempts = 2\nbackoff = [\"1ms\"]");
    let daemon = ground.start();
    ground.duebox(&["push", TOPIC, "--id", "plain"]);
    ground.duebox(&["push", TOPIC, "--id", "own", "--ttr", "900ms", "--max-attempts", "1"]);
    let plain = daemon.wait_for_line("plain dies", of("plain", "dead"));
    let own = daemon.wait_for_line("own dies", of("own", "dead"));
    assert_eq!((plain.number("attempt"), own.number("attempt")), (Some(2), Some(1)));
    let wall = |line: &LogLine| line.decimal("wall_ms").unwrap();
    println!("ttr 300 ms ended after {} ms, ttr 900 ms after {} ms", wall(&plain), wall(&own));
    assert!(wall(&plain) >= 300.0 && wall(&own) >= 900.0);
    for id in ["plain", "own"] {
        assert_eq!(ground.store().dead_class(TOPIC, id), "timeout");
    }
}

#[test]
fn a_cancelled_job_does_not_run_and_one_that_runs_is_not_tried_again() {
    let handler = Handler::says("ran").naps(Duration::from_millis(700)).nacks();
    let ground = ground(&handler, "backoff = [\"1ms\"]");
    let mut daemon = ground.start();
    ground.duebox(&["push", TOPIC, "--id", "waits", "--in", "1500ms"]);
    assert_eq!(ground.duebox(&["cancel", TOPIC, "waits"]), "cancelled waits in work\n");
    ground.duebox(&["push", TOPIC, "--id", "runs"]);
    daemon.wait_for_line("it runs", is_said);
    assert!(ground.duebox(&["cancel", TOPIC, "runs"]).contains("leased"));
    daemon.wait_for_line("its verdict", of("runs", "cancelled"));
    // Due after the cancelled one would have been.
    ground.duebox(&["push", TOPIC, "--id", "last", "--in", "1600ms", "--max-attempts", "1"]);
    daemon.wait_for_line("the last", of("last", "dead"));
    assert!(daemon.terminate().success());
    let ids: Vec<String> = verdicts(&daemon).into_iter().map(|verdict| verdict.id).collect();
    assert_eq!(ids, ["runs", "last"]);
    assert_eq!(ground.store().live_count(TOPIC), 0);
}

#[test]
fn dead_jobs_run_again_with_all_their_attempts() {
    let ground = ground(&Handler::says("ran").nacks(), "max_attempts = 2\nbackoff = [\"1ms\"]");
    let daemon = ground.start();
    let ids = ["a", "b", "c"];
    for id in ids {
        ground.duebox(&["push", TOPIC, "--id", id]);
    }
    let dead = || daemon.count(|line| settled_as(line, "dead"));
    eventually("three are dead", || dead() == ids.len());
    ground.duebox(&["requeue", TOPIC, "--all"]);
    eventually("three are dead again", || dead() == 2 * ids.len());
    for id in ids {
        let attempts: Vec<i64> =
            verdicts(&daemon).iter().filter(|v| v.id == id).map(|v| v.attempt).collect();
        assert_eq!(attempts, [1, 2, 1, 2]);
    }
}
