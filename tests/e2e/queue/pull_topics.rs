//! Topics without a handler: the daemon runs none of their jobs, and keeps them for pull consumers; and
//! the rules of topics, which it writes into Redis for everybody.

use std::time::Duration;

use duebox_harness::{LogLine, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::handler::Handler;
use crate::support::log::{settled_as, verdicts};
use crate::support::producer::push;

const RULES: &str = "max_running = 3\nrate = \"100/s\"\nburst = 7\nttl = \"1h\"\nmax_pending = 9\n\
    per_key_concurrency = 2\norder = \"relaxed\"\npriorities = true";

fn ground(topics: &[String]) -> Ground {
    let ground = Ground::new();
    ground.write("one.wat", Handler::says("one").wat());
    ground.manifest("", topics);
    ground
}

/// A topic without a handler.
fn pulled(name: &str, keys: &str) -> String {
    format!("[topics.\"{name}\"]\n{keys}\n")
}

fn rule(ground: &Ground, topic: &str, field: &str) -> String {
    ground.redis.cli(&["HGET", &format!("duebox:{{{topic}}}:meta"), field])
}

#[test]
fn jobs_of_a_topic_without_a_handler_wait_for_pull_consumers() {
    let ground = ground(&[topic("own", "one.wat", ""), pulled("mail", ""), pulled("fax.*", "")]);
    let mut daemon = ground.start();
    for name in ["mail", "fax.eu"] {
        ground.duebox(&["push", name, "--id", "a"]);
        daemon.wait_for_line("its service", |line| {
            line.has("topic", name) && line.message().starts_with("serving pull consumers")
        });
    }
    let stats = ground.duebox(&["stats"]);
    let line = |topic: &str| stats.lines().find(|line| line.starts_with(topic)).unwrap();
    assert!(line("mail").ends_with("pull") && line("fax.eu").ends_with("pull"), "{stats}");
    assert!(!line("own").ends_with("pull"), "{stats}");
    let store = ground.store();
    let taken = ground.duebox(&["pull", "mail", "--lease", "1s", "--json"]);
    assert!(taken.replace(' ', "").contains("\"id\":\"a\""), "{taken}");
    assert_eq!(store.stage("mail", "unack").len(), 1);
    // Nobody settles it and nobody pulls: the daemon ends the lease. A plain push is promoted.
    push(&ground, "mail", "b", 0);
    eventually("the lease is ended", || store.stage("mail", "unack").is_empty());
    eventually("what is due is promoted", || store.stage("mail", "ready").contains("b"));
    assert_eq!(store.attempts("mail")["a"], 1_000_000);
    // A handler turns up, and runs what waits.
    ground.manifest("", &[topic("mail", "one.wat", "")]);
    eventually("the jobs are run", || store.live_count("mail") == 0);
    // It goes again: the topic is for pull consumers, and what is pushed waits.
    ground.manifest("", &[topic("own", "one.wat", ""), pulled("mail", "")]);
    eventually("it is for pull consumers again", || {
        let is_it = |line: &LogLine| line.message().starts_with("serving pull consumers");
        daemon.count(|line| is_it(line) && line.has("topic", "mail")) == 2
    });
    ground.duebox(&["push", "mail", "--id", "c"]);
    ground.duebox(&["push", "own", "--id", "d"]);
    daemon.wait_for_line("the job of the other", |line| {
        settled_as(line, "done") && line.has("job_id", "d")
    });
    assert_eq!(store.live_count("mail"), 1);
    assert!(daemon.terminate().success());
    assert_eq!(verdicts(&daemon).len(), 3);
}

#[test]
fn rules_are_written_at_the_start_and_at_a_reload() {
    let ground = ground(&[topic("work", "one.wat", RULES), pulled("mail", "max_pending = 1")]);
    let daemon = ground.start();
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
        assert_eq!(rule(&ground, "work", field), value, "{field}");
    }
    assert_eq!(rule(&ground, "mail", "max_pending"), "1");
    ground.manifest("", &[topic("work", "one.wat", "max_running = 4")]);
    daemon.wait_for_line("the reload", |line| line.message() == "the manifest is reloaded");
    eventually("the new rule is there", || rule(&ground, "work", "max_running") == "4");
    for field in ["rate", "burst", "ttl", "max_pending", "per_key", "order", "priorities"] {
        eventually("the old rules are gone", || rule(&ground, "work", field).is_empty());
    }
    // A topic that is removed keeps its rules: others may serve it.
    assert_eq!(rule(&ground, "mail", "max_pending"), "1");
}

#[test]
fn rules_of_a_reload_without_redis_are_written_when_it_is_back() {
    let mut ground = ground(&[topic("work", "one.wat", "max_pending = 5")]);
    let daemon = ground.start();
    assert_eq!(rule(&ground, "work", "max_pending"), "5");
    ground.redis.stop();
    ground.manifest(
        "",
        &[topic("work", "one.wat", "max_pending = 6"), topic("new", "one.wat", "max_pending = 7")],
    );
    daemon.wait_for_line("the reload", |line| line.message() == "the manifest is reloaded");
    ground.redis.restart();
    eventually("the rule is there", || rule(&ground, "work", "max_pending") == "6");
    eventually("the new topic's too", || rule(&ground, "new", "max_pending") == "7");
    push(&ground, "new", "a", 0);
    daemon.wait_for_line("a job of the new topic", |line| {
        settled_as(line, "done") && line.has("topic", "new")
    });
}

#[test]
fn max_running_holds_for_all_runners() {
    const MOST: usize = 2;
    let ground = ground(&[]);
    ground.write("naps.wat", Handler::says("nap").naps(Duration::from_millis(30)).wat());
    let keys = "max_running = 2\nconcurrency = 8";
    ground.manifest("", &[topic("work", "naps.wat", keys)]);
    let daemons = [ground.start(), ground.start()];
    for n in 0..60 {
        push(&ground, "work", &format!("{n}"), 0);
    }
    let store = ground.store();
    let mut most = 0;
    eventually("all are done", || {
        most = most.max(store.stage("work", "unack").len());
        store.live_count("work") == 0
    });
    assert!((1..=MOST).contains(&most), "{most} ran at once");
    let done: usize = daemons.iter().map(|d| d.count(|line| settled_as(line, "done"))).sum();
    assert_eq!(done, 60);
}
