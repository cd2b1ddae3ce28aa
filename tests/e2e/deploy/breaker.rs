//! The circuit breaker holds back the jobs of a failing handler and spends none of their attempts.

use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};
use serde_json::Value;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_handler_line, is_verdict, settled_as, verdicts};
use crate::support::producer::push_many;
use crate::support::puppet::{PUPPET, puppet_job, push_jobs};

const TOPIC: &str = "work";
const FAILURES: usize = 5;

fn opens(line: &LogLine) -> bool {
    line.has("level", "WARN") && line.message().starts_with("the breaker is open")
}

fn stays_open(line: &LogLine) -> bool {
    line.has("level", "WARN") && line.message().starts_with("the breaker stays open")
}

fn closes(line: &LogLine) -> bool {
    line.message().starts_with("the breaker is closed")
}

fn failed(line: &LogLine) -> bool {
    is_verdict(line) && line.has("class", "nack")
}

/// A handler that logs a word, sleeps and nacks.
fn failing() -> Handler {
    Handler::logs("failing").naps(Duration::from_millis(50)).nacks()
}

#[test]
fn the_jobs_of_a_failing_handler_wait_until_another_module_serves() {
    let fixture = Fixture::new();
    fixture.write("work.wat", failing().wat());
    let keys = "concurrency = 2\nbackoff = \"1h\"\nbreaker = { failures = 5, probe = \"1h\", on = [\"nack\"] }";
    fixture.manifest("", &[topic(TOPIC, "work.wat", keys)]);
    let daemon = fixture.start();
    let store = fixture.store();
    push_many(&fixture, TOPIC, 60);
    let line = daemon.wait_for_line("it opens", opens);
    assert!(line.has("class", "nack") && line.message().contains("1h"), "{}", line.text());
    eventually("running jobs are settled and others released", || {
        store.stage(TOPIC, "unack").is_empty()
    });
    let paid = store.attempts(TOPIC);
    // Two run at once, so one job that had started when the fifth failed ends too.
    assert!((FAILURES..=FAILURES + 1).contains(&paid.len()), "{paid:?}");
    assert!(paid.values().all(|failures| *failures == 1), "{paid:?}");
    assert_eq!(store.stage(TOPIC, "retry").len(), paid.len());
    assert_eq!((store.live_count(TOPIC), store.stage(TOPIC, "dead").len()), (60, 0));

    fixture.write("work.wat", Handler::logs("well").wat());
    daemon.wait_for_line("it closes", closes);
    eventually("the others run", || store.live_count(TOPIC) == paid.len());
    assert_eq!(store.attempts(TOPIC), paid, "the others paid for it");
    assert_eq!((daemon.count(opens), daemon.count(closes), daemon.count(stays_open)), (1, 1, 0));
    assert_eq!(daemon.count(failed), paid.len());
}

/// Each end counts when it happens, not with the worker's next batch.
#[test]
fn jobs_that_fail_at_once_do_not_overshoot() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("failing").nacks().wat());
    let keys = "concurrency = 2\nbackoff = \"1h\"\nbreaker = { failures = 10, probe = \"1h\", on = [\"nack\"] }";
    fixture.manifest("", &[topic(TOPIC, "work.wat", keys)]);
    let daemon = fixture.start();
    let store = fixture.store();
    push_many(&fixture, TOPIC, 200);
    daemon.wait_for_line("it opens", opens);
    eventually("the others are released", || store.stage(TOPIC, "unack").is_empty());
    let paid = store.attempts(TOPIC).len();
    // Two run at once, so one more may have started.
    assert!((10..=11).contains(&paid), "{paid} started");
}

#[test]
fn a_successful_trial_job_closes_the_breaker() {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let keys = "concurrency = 1\nmax_attempts = 1\nbreaker = { failures = 5, probe = \"300ms\", on = [\"nack\"] }";
    fixture.manifest("", &[topic(TOPIC, "puppet.wat", keys)]);
    // Seven failing jobs precede thirty good ones. A slow handler leases no job ahead.
    let bad = (0..7).map(|n| puppet_job(&format!("bad-{n}"), "lzzzN", r#"{"priority":"high"}"#));
    let good = (0..30).map(|n| puppet_job(&format!("good-{n}"), "lz", "{}"));
    let daemon = fixture.start();
    fixture.duebox(&["pause", TOPIC]);
    push_jobs(&fixture, TOPIC, &bad.chain(good).collect::<Vec<_>>());
    fixture.duebox(&["resume", TOPIC]);
    eventually("all are over", || daemon.count(is_over) == 37);
    assert_eq!(daemon.count(opens), 1);
    // The sixth is tried alone, the seventh and a good one in the next round.
    assert_eq!((daemon.count(stays_open), daemon.count(closes)), (1, 1));
    assert_eq!(between(&daemon, opens, stays_open), 1, "more than one was tried");
    assert_eq!(between(&daemon, stays_open, closes), 2);
    let good = verdicts(&daemon).into_iter().filter(|v| v.id.starts_with("good"));
    assert!(good.filter(|v| v.settled == "done").all(|v| v.attempt == 1), "a good one paid");
}

/// Nacks with its own wait.
const POLLS: &str = r#"(module
  (import "duebox_v1" "retry_after" (func $retry_after (param i64)))
  (func (export "handle") (param i32) (result i32)
    (call $retry_after (i64.const 3600000))
    (i32.const 1)))"#;

#[test]
fn a_nack_with_its_own_wait_is_not_a_failure() {
    let fixture = Fixture::new();
    fixture.write("polls.wat", POLLS);
    let keys = "concurrency = 1\nbreaker = { failures = 3, probe = \"1h\", on = [\"nack\"] }";
    fixture.manifest("", &[topic(TOPIC, "polls.wat", keys)]);
    let daemon = fixture.start();
    push_many(&fixture, TOPIC, 40);
    eventually("all have polled", || daemon.count(failed) == 40);
    assert_eq!(daemon.count(opens), 0);
}

#[test]
fn shards_share_one_breaker() {
    let fixture = Fixture::new();
    fixture.write("work.wat", failing().wat());
    let keys = "concurrency = 4\nshards = 4\nmax_attempts = 2\nbackoff = \"0s\"\nbreaker = { failures = 8, probe = \"1s\", on = [\"nack\"] }";
    fixture.manifest("", &[topic(TOPIC, "work.wat", keys)]);
    let daemon = fixture.start();
    let jobs: Vec<_> = (0..200).map(|n| puppet_job(&format!("job-{n}"), "", "{}")).collect();
    push_jobs(&fixture, TOPIC, &jobs);
    eventually("it was tried three times", || daemon.count(stays_open) >= 3);
    assert_eq!(daemon.count(opens), 1);
    // Jobs that ran when it opened ended long before the first trial.
    assert_eq!(between(&daemon, stays_open, stays_open), 2, "shards tried side by side");
    let (rounds, paid) = (daemon.count(stays_open), daemon.count(failed));
    // Those that ran when it opened; rounds of 1, 2, 4, 8, 8 … jobs, and the one under way.
    let probes: usize = (0..=rounds).map(|round| (1 << round).min(8)).sum();
    assert!(paid <= 8 + 3 + probes, "{paid} attempts were spent in {rounds} rounds");

    // Setting `failures` to zero closes it permanently.
    fixture
        .manifest("", &[topic(TOPIC, "work.wat", &keys.replace("failures = 8", "failures = 0"))]);
    daemon.wait_for_line("it closes", closes);
    eventually("all fail as often as they may", || daemon.count(is_over) == 200);
    assert_eq!((daemon.count(opens), daemon.count(failed)), (1, 400));
}

#[test]
fn what_jobs_do_wrong_does_not_stop_their_topic() {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let own = "concurrency = 1\nmax_attempts = 1\n";
    let [quiet, listed] = ["quiet", "listed"];
    let topics = [
        topic(quiet, "puppet.wat", &format!("{own}breaker = {{ failures = 3, probe = \"1h\" }}")),
        topic(
            listed,
            "puppet.wat",
            &format!(
                "{own}breaker = {{ failures = 3, probe = \"1h\", on = [\"nack\", \"trap\"] }}"
            ),
        ),
    ];
    fixture.manifest("", &topics);
    let daemon = fixture.start();
    let jobs = |what: &str| -> Vec<_> {
        (0..20).map(|n| puppet_job(&format!("{what}-{n}"), what, "{}")).collect()
    };
    // By default neither nacks nor drops count; a drop does not where nacks do.
    push_jobs(&fixture, quiet, &jobs("N"));
    push_jobs(&fixture, quiet, &jobs("D"));
    push_jobs(&fixture, listed, &jobs("D"));
    eventually("all are dead", || daemon.count(|line| settled_as(line, "dead")) == 60);
    assert_eq!(daemon.count(opens), 0);
    push_jobs(&fixture, listed, &jobs("N"));
    let line = daemon.wait_for_line("it opens", opens);
    assert!(line.has("topic", listed), "{}", line.text());
}

/// Whether this is the last verdict of a job.
fn is_over(line: &LogLine) -> bool {
    settled_as(line, "done") || settled_as(line, "dead")
}

/// The number of handler lines between the first line of one kind and the next of another.
fn between(daemon: &Daemon, from: fn(&LogLine) -> bool, until: fn(&LogLine) -> bool) -> usize {
    let lines = daemon.lines();
    let after = lines.iter().skip_while(|line| !from(line)).skip(1);
    after.take_while(|line| !until(line)).filter(|line| is_handler_line(line)).count()
}

#[test]
fn snoozes_beyond_the_last_are_nacks_for_breaker_log_and_stats_too() {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let keys = "concurrency = 1\nmax_attempts = 1\nmax_snoozes = 0\n\
        breaker = { failures = 5, probe = \"1h\", on = [\"nack\"] }\nrollback = { min_jobs = 0 }";
    fixture.manifest("", &[topic(TOPIC, "puppet.wat", keys)]);
    let mut daemon = fixture.start();
    let jobs: Vec<_> = (0..30).map(|n| puppet_job(&n.to_string(), "s", "{}")).collect();
    push_jobs(&fixture, TOPIC, &jobs);
    daemon.wait_for_line("it opens", opens);
    let dead = || daemon.count(|line| settled_as(line, "dead"));
    eventually("the failed ones are dead", || dead() == FAILURES);
    let line = daemon.wait_for_line("a verdict", is_verdict);
    assert!(line.has("verdict", "nack") && line.has("class", "nack"), "{}", line.text());
    assert!(line.str("reason").contains("max_snoozes"), "{}", line.text());
    // `top` reads the same sums.
    let total = || {
        let stats: Value =
            serde_json::from_str(&fixture.duebox(&["stats", TOPIC, "--json"])).unwrap();
        stats["topics"][0]["handler"]["total"].clone()
    };
    eventually("stats count them as failed", || total()["failed"] == FAILURES);
    assert_eq!(total()["acked"], 0);
    assert!(daemon.terminate().success());
    let sums = daemon.wait_for_line("the sums", |line| line.message() == "done");
    let sums = ["attempts", "failed", "snoozed", "dead"].map(|name| sums.number(name).unwrap());
    assert_eq!(sums, [5, 5, 0, 5]);
    assert_eq!(fixture.store().live_count(TOPIC), 25, "the others wait and lose nothing");
}
