//! Topics that exist in Redis but not in the manifest: the jobs of a dead runner are reclaimed.

use std::collections::BTreeSet;
use std::time::Duration;

use duebox_harness::eventually;

use crate::support::fixture::{Fixture, topic, up};
use crate::support::handler::Handler;
use crate::support::log::{is_handler_line, settled_as, verdicts};
use crate::support::producer::{push, push_many};
use crate::support::redis_state::key;

#[test]
fn expired_leases_of_an_unbound_topic_are_reclaimed() {
    let fixture = Fixture::new();
    fixture.write("long.wat", Handler::logs("ran").naps(Duration::from_secs(7_200)).wat());
    fixture.write("quick.wat", Handler::logs("ran").wat());
    // With a thread for each of them, all jobs start at once.
    fixture.manifest("lease = \"1s\"\nthreads = 8", &[topic("old", "long.wat", "ttr = \"3h\"")]);
    let mut first = fixture.start();
    let ids = push_many(&fixture, "old", 5);
    eventually("five run", || first.count(is_handler_line) == 5);
    first.kill();
    let store = fixture.store();
    assert_eq!(store.stage("old", "unack"), ids);

    // A daemon of another application, which does not know the topic.
    let mut second =
        up(&fixture.manifest_named("second.toml", "", &[topic("new", "quick.wat", "")]));
    eventually("the leases are ended", || store.stage("old", "unack").is_empty());
    assert_eq!((store.stage("old", "retry"), store.live("old")), (ids.clone(), ids.clone()));
    // A crash is counted as a crash and not as an attempt.
    assert!(store.attempts("old").values().all(|counted| *counted == 1_000_000));
    second.wait_for_line("the word about it", |line| {
        line.has("topic", "old") && line.message().starts_with("unbound")
    });
    push(&fixture, "new", "own", 0);
    second.wait_for_line("its own job", |line| settled_as(line, "done"));
    assert_eq!(verdicts(&second).len(), 1, "it ran a job of a topic that is not its own");
    assert!(second.terminate().success());

    // The next runner of the topic gets the jobs with all their attempts.
    fixture.manifest("", &[topic("old", "quick.wat", "")]);
    let third = fixture.start();
    eventually("all are done", || third.count(|line| settled_as(line, "done")) == 5);
    assert!(verdicts(&third).iter().all(|verdict| verdict.attempt == 1));
    assert_eq!((store.live("old"), store.attempts("old").len()), (BTreeSet::new(), 0));
}

#[test]
fn expired_values_of_an_unbound_topic_are_pruned() {
    let fixture = Fixture::new();
    fixture.write("quick.wat", Handler::logs("ran").wat());
    let store = fixture.store();
    let on = |command: &str, name: &str, words: &[&str]| {
        let _: redis::Value = store.ask(redis::cmd(command).arg(key("old", name)).arg(words));
    };
    // More than one batch of expired values, one live value, and one without an expiry.
    let _: redis::Value = store.ask(redis::cmd("SADD").arg("duebox:topics").arg("old"));
    let over: Vec<String> = (0..1_200).map(|number| format!("over-{number}")).collect();
    let values: Vec<&str> = over.iter().flat_map(|name| [name, "v"]).collect();
    let times: Vec<&str> = over.iter().flat_map(|name| ["1763740800000", name]).collect();
    on("HSET", "kv", &values);
    on("ZADD", "kv:at", &times);
    let later = (store.now_ms() + 3_600_000).to_string();
    on("ZADD", "kv:at", &[&later, "later"]);
    on("HSET", "kv", &["later", "v", "always", "v"]);
    fixture.manifest("", &[topic("new", "quick.wat", "")]);
    let _daemon = fixture.start();
    let kept = || -> Vec<String> {
        let mut names: Vec<String> = store.ask(redis::cmd("HKEYS").arg(key("old", "kv")));
        names.sort();
        names
    };
    eventually("expired values are gone", || kept() == ["always", "later"]);
    let times: usize = store.ask(redis::cmd("ZCARD").arg(key("old", "kv:at")));
    assert_eq!(times, 1);
}

/// A daemon that does not bind a topic ends its leases, and leaves it to the topic's own daemons to bury jobs.
#[test]
fn only_a_daemon_that_binds_the_topic_buries_its_jobs() {
    let fixture = Fixture::new();
    fixture.write("long.wat", Handler::logs("ran").naps(Duration::from_secs(7_200)).wat());
    fixture.write("quick.wat", Handler::logs("ran").wat());
    let keys = "ttr = \"3h\"\nmax_crashes = 10";
    fixture.manifest("lease = \"1s\"", &[topic("old", "long.wat", keys)]);
    let store = fixture.store();
    let mut first = fixture.start();
    let rule: String = store.ask(redis::cmd("HGET").arg(key("old", "meta")).arg("max_crashes"));
    assert_eq!(rule, "10");
    let ids = push_many(&fixture, "old", 2);
    eventually("both run", || first.count(is_handler_line) == 2);
    first.kill();
    // The runners of the jobs have died twice before.
    for id in &ids {
        let _: i64 =
            store.ask(redis::cmd("HSET").arg(key("old", "attempts")).arg(id).arg(2_000_000));
    }
    let defaults = "[defaults]\nmax_crashes = 1\n".to_owned();
    let topics = [defaults, topic("new", "quick.wat", "")];
    let mut second = up(&fixture.manifest_named("second.toml", "", &topics));
    eventually("the leases are ended", || store.stage("old", "unack").is_empty());
    assert_eq!(
        (store.stage("old", "retry"), store.stage("old", "dead")),
        (ids.clone(), BTreeSet::new())
    );
    assert!(store.attempts("old").values().all(|counted| *counted == 3_000_000));
    assert!(second.terminate().success());

    fixture.manifest("", &[topic("old", "quick.wat", "max_crashes = 10")]);
    let third = fixture.start();
    eventually("all are done", || third.count(|line| settled_as(line, "done")) == 2);
}

#[test]
fn what_ended_in_an_unbound_topic_is_pruned_by_the_topics_own_rules() {
    let fixture = Fixture::new();
    fixture.write("quick.wat", Handler::logs("ran").wat());
    let rules = "retention = \"1h\"\ndone_retention = \"2h\"\nmax_dead = 2";
    fixture.manifest("", &[topic("old", "quick.wat", rules)]);
    let mut first = fixture.start();
    assert!(first.terminate().success());
    let store = fixture.store();
    let on = |command: &str, name: &str, words: &[&str]| {
        let _: redis::Value = store.ask(redis::cmd(command).arg(key("old", name)).arg(words));
    };
    let ago = |minutes: u64| (store.now_ms() - minutes * 60_000).to_string();
    for (id, minutes) in [("a", 90), ("b", 30), ("c", 20), ("d", 10)] {
        on("ZADD", "dead", &[&ago(minutes), id]);
        on("HSET", "dead:jobs", &[id, "p"]);
        on("ZADD", "done", &[&ago(minutes * 2), id]);
        on("HSET", "done:info", &[id, "{}"]);
    }
    for name in ["unique", "inbox"] {
        on("ZADD", name, &[&ago(1), "over", "9e15", "mark"]);
    }
    on("HSET", "ticks", &["gone", "1", "gone:line", "@daily", "gone:seen", "1"]);
    fixture.manifest("", &[topic("new", "quick.wat", "")]);
    let _second = fixture.start();
    let two = BTreeSet::from(["c".to_owned(), "d".to_owned()]);
    let mark = BTreeSet::from(["mark".to_owned()]);
    eventually("dead jobs are pruned", || store.stage("old", "dead") == two);
    eventually("done jobs are pruned", || store.stage("old", "done") == two);
    for name in ["unique", "inbox"] {
        eventually("expired marks are pruned", || store.stage("old", name) == mark);
    }
    eventually("schedules are pruned", || !store.keys("old").contains("ticks"));
}
