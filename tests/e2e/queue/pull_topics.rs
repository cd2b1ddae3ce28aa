//! Topics without a handler: the daemon keeps their jobs for pull consumers and publishes the topic rules in Redis.

use std::time::Duration;

use duebox_harness::{LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{settled_as, verdicts};
use crate::support::producer::push;
use crate::support::puppet::count_settled;

const RULES: &str = "max_running = 3\nrate = \"100/s\"\nburst = 7\nttl = \"1h\"\nmax_pending = 9\n\
    per_key_concurrency = 2\norder = \"relaxed\"\npriorities = true";

fn fixture(topics: &[String]) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("one.wat", Handler::logs("one").wat());
    fixture.manifest("", topics);
    fixture
}

/// A topic without a handler.
fn pulled(name: &str, keys: &str) -> String {
    format!("[topics.\"{name}\"]\n{keys}\n")
}

fn rule(fixture: &Fixture, topic: &str, field: &str) -> String {
    fixture.redis.cli(&["HGET", &format!("duebox:{{{topic}}}:meta"), field])
}

#[test]
fn jobs_of_a_topic_without_a_handler_wait_for_pull_consumers() {
    let fixture = fixture(&[topic("own", "one.wat", ""), pulled("mail", ""), pulled("fax.*", "")]);
    let mut daemon = fixture.start();
    for name in ["mail", "fax.eu"] {
        fixture.duebox(&["push", name, "--id", "a"]);
        daemon.wait_for_line("its service", |line| {
            line.has("topic", name) && line.message().starts_with("serving pull consumers")
        });
    }
    let stats = fixture.duebox(&["stats"]);
    let line = |topic: &str| stats.lines().find(|line| line.starts_with(topic)).unwrap();
    assert!(line("mail").ends_with("pull") && line("fax.eu").ends_with("pull"), "{stats}");
    assert!(!line("own").ends_with("pull"), "{stats}");
    let store = fixture.store();
    let taken = fixture.duebox(&["pull", "mail", "--lease", "1s", "--json"]);
    assert!(taken.replace(' ', "").contains("\"id\":\"a\""), "{taken}");
    assert_eq!(store.stage("mail", "unack").len(), 1);
    // No consumer settles or pulls, so the daemon ends the lease. A plain push is promoted.
    push(&fixture, "mail", "b", 0);
    eventually("the lease is ended", || store.stage("mail", "unack").is_empty());
    eventually("due jobs are promoted", || store.stage("mail", "ready").contains("b"));
    assert_eq!(store.attempts("mail")["a"], 1_000_000);
    // A new handler runs the waiting jobs.
    fixture.manifest("", &[topic("mail", "one.wat", "")]);
    eventually("the jobs are run", || store.live_count("mail") == 0);
    // Without the handler the topic is for pull consumers again, and pushed jobs wait.
    fixture.manifest("", &[topic("own", "one.wat", ""), pulled("mail", "")]);
    eventually("it is for pull consumers again", || {
        let is_it = |line: &LogLine| line.message().starts_with("serving pull consumers");
        daemon.count(|line| is_it(line) && line.has("topic", "mail")) == 2
    });
    fixture.duebox(&["push", "mail", "--id", "c"]);
    fixture.duebox(&["push", "own", "--id", "d"]);
    daemon.wait_for_line("the job of the other", |line| {
        settled_as(line, "done") && line.has("job_id", "d")
    });
    assert_eq!(store.live_count("mail"), 1);
    assert!(daemon.terminate().success());
    assert_eq!(verdicts(&daemon).len(), 3);
}

#[test]
fn rules_are_written_at_the_start_and_at_a_reload() {
    let fixture = fixture(&[topic("work", "one.wat", RULES), pulled("mail", "max_pending = 1")]);
    let daemon = fixture.start();
    for (field, value) in [
        ("max_running", "3"),
        ("rate", "10000.000000"),
        ("burst", "7"),
        ("ttl", "3600000"),
        ("max_pending", "9"),
        ("per_key", "2"),
        ("order", "relaxed"),
        ("priorities", "1"),
        ("shards", ""),
    ] {
        assert_eq!(rule(&fixture, "work", field), value, "{field}");
    }
    assert_eq!(rule(&fixture, "mail", "max_pending"), "1");
    fixture.manifest("", &[topic("work", "one.wat", "max_running = 4")]);
    daemon.wait_for_line("the reload", |line| line.message() == "the manifest is reloaded");
    eventually("the new rule is there", || rule(&fixture, "work", "max_running") == "4");
    for field in ["rate", "burst", "ttl", "max_pending", "per_key", "order", "priorities"] {
        eventually("the old rules are gone", || rule(&fixture, "work", field).is_empty());
    }
    // A removed topic keeps its rules, because other daemons may serve it.
    assert_eq!(rule(&fixture, "mail", "max_pending"), "1");
}

#[test]
fn rules_are_written_after_an_outage() {
    let mut fixture = fixture(&[topic("work", "one.wat", "max_pending = 5")]);
    let daemon = fixture.start();
    assert_eq!(rule(&fixture, "work", "max_pending"), "5");
    fixture.redis.stop();
    fixture.manifest(
        "",
        &[topic("work", "one.wat", "max_pending = 6"), topic("new", "one.wat", "max_pending = 7")],
    );
    daemon.wait_for_line("the reload", |line| line.message() == "the manifest is reloaded");
    fixture.redis.restart();
    eventually("the rule is there", || rule(&fixture, "work", "max_pending") == "6");
    eventually("the new topic's too", || rule(&fixture, "new", "max_pending") == "7");
    push(&fixture, "new", "a", 0);
    daemon.wait_for_line("a job of the new topic", |line| {
        settled_as(line, "done") && line.has("topic", "new")
    });
}

#[test]
fn max_running_holds_for_all_runners() {
    const MOST: usize = 2;
    let fixture = fixture(&[]);
    fixture.write("naps.wat", Handler::logs("nap").naps(Duration::from_millis(30)).wat());
    let keys = "max_running = 2\nconcurrency = 8";
    fixture.manifest("", &[topic("work", "naps.wat", keys)]);
    let daemons = [fixture.start(), fixture.start()];
    for n in 0..60 {
        push(&fixture, "work", &format!("{n}"), 0);
    }
    let store = fixture.store();
    let mut most = 0;
    eventually("all are done", || {
        most = most.max(store.stage("work", "unack").len());
        store.live_count("work") == 0
    });
    assert!((1..=MOST).contains(&most), "{most} ran at once");
    let done = || count_settled(&daemons.each_ref(), "done");
    // The log follows Redis.
    eventually("it is reported", || done() >= 60);
    assert_eq!(done(), 60);
}
