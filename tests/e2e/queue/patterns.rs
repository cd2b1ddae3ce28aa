//! Topics that no entry of the manifest names, and a pattern stands for: however they come to be, they
//! are found and served, by one module for all.

use std::collections::BTreeSet;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::handler::{Handler, digest};
use crate::support::log::{settled_as, verdicts};
use crate::support::producer::{push, push_many};

/// Ground with two modules, and a manifest of these topics.
fn ground(topics: &[String]) -> Ground {
    let ground = Ground::new();
    ground.write("one.wat", Handler::says("one").wat());
    ground.write("two.wat", Handler::says("two").wat());
    ground.manifest("", topics);
    ground
}

fn digest_of(word: &str) -> String {
    digest(Handler::says(word).wat().as_bytes())
}

fn wait_until_done(daemon: &Daemon, topic: &str, id: &str) -> LogLine {
    daemon.wait_for_line(id, |line| {
        settled_as(line, "done") && line.has("topic", topic) && line.has("job_id", id)
    })
}

fn served(daemon: &Daemon, name: &str) -> usize {
    daemon.count(|line| line.message() == "serving" && line.has("topic", name))
}

#[test]
fn a_topic_that_is_pushed_to_is_found() {
    let ground = ground(&[topic("sms.*", "one.wat", "")]);
    ground.duebox(&["push", "sms.early", "--id", "a"]);
    let mut daemon = ground.start();
    // Listed before the start; pushed through Duebox, which wakes; by plain commands, which do not.
    wait_until_done(&daemon, "sms.early", "a");
    ground.duebox(&["push", "sms.eu", "--id", "b"]);
    wait_until_done(&daemon, "sms.eu", "b");
    push(&ground, "sms.plain", "c", 0);
    push(&ground, "mail.plain", "d", 0);
    wait_until_done(&daemon, "sms.plain", "c");
    for name in ["sms.early", "sms.eu", "sms.plain"] {
        assert_eq!(served(&daemon, name), 1, "{name}");
        assert_eq!(ground.redis.cli(&["SISMEMBER", "duebox:topics", name]), "1");
    }
    assert!(daemon.terminate().success());
    assert_eq!(verdicts(&daemon).len(), 3);
    assert_eq!(ground.store().live_count("mail.plain"), 1);
}

#[test]
fn the_closest_entry_serves() {
    let ground = ground(&[
        topic("*", "one.wat", "max_pending = 1000"),
        topic("sms.eu.*", "two.wat", ""),
        topic("sms.*", "one.wat", "ttl = \"1h\""),
        topic("sms.eu.de", "one.wat", "max_pending = 77"),
    ]);
    let daemon = ground.start();
    for (name, word, field, value) in [
        ("sms.eu.de", "one", "max_pending", "77"),
        ("sms.eu.fr", "two", "max_pending", ""),
        ("sms.us", "one", "ttl", "3600000"),
        ("order", "one", "max_pending", "1000"),
    ] {
        ground.duebox(&["push", name, "--id", name]);
        let line = wait_until_done(&daemon, name, name);
        assert!(line.has("digest", &digest_of(word)), "{name}: {}", line.text());
        // The rules of the entry hold for the topic.
        assert_eq!(ground.redis.cli(&["HGET", &format!("duebox:{{{name}}}:meta"), field]), value);
    }
}

#[test]
fn a_new_module_serves_all_topics_of_its_pattern() {
    let ground = ground(&[topic("sms.*", "one.wat", "")]);
    let daemon = ground.start();
    let names = ["sms.a", "sms.b", "sms.c"];
    for name in names {
        ground.duebox(&["push", name, "--id", "first"]);
        assert!(wait_until_done(&daemon, name, "first").has("digest", &digest_of("one")));
    }
    ground.write("one.wat", Handler::says("new").wat());
    for name in names {
        daemon.wait_for_line("the new module", |line| {
            line.message().starts_with("a new module serves") && line.has("topic", name)
        });
        ground.duebox(&["push", name, "--id", "second"]);
        assert!(wait_until_done(&daemon, name, "second").has("digest", &digest_of("new")));
    }
}

#[test]
fn patterns_come_and_go_with_the_manifest() {
    let ground = ground(&[topic("own", "one.wat", "")]);
    ground.duebox(&["push", "own", "--id", "a"]);
    let daemon = ground.start();
    wait_until_done(&daemon, "own", "a");
    let pushed = push_many(&ground, "sms.eu", 3);
    // A pattern that comes finds what waits.
    ground.manifest("", &[topic("own", "one.wat", ""), topic("sms.*", "two.wat", "")]);
    eventually("what waits is run", || ground.store().live_count("sms.eu") == 0);
    // An entry of the topic's own takes it over.
    ground.manifest(
        "",
        &[
            topic("own", "one.wat", ""),
            topic("sms.*", "two.wat", ""),
            topic("sms.eu", "one.wat", ""),
        ],
    );
    daemon.wait_for_line("the other module", |line| {
        line.message().starts_with("a new module serves") && line.has("topic", "sms.eu")
    });
    // Without either it is left, and what is pushed waits.
    ground.manifest("", &[topic("own", "one.wat", "")]);
    daemon.wait_for_line("the farewell", |line| {
        line.has("topic", "sms.eu") && line.message().starts_with("unbound")
    });
    push(&ground, "sms.eu", "late", 0);
    ground.duebox(&["push", "own", "--id", "b"]);
    wait_until_done(&daemon, "own", "b");
    assert_eq!(ground.store().live("sms.eu"), BTreeSet::from(["late".to_owned()]));
    let ran: BTreeSet<String> = verdicts(&daemon)
        .into_iter()
        .filter(|verdict| verdict.topic == "sms.eu")
        .map(|verdict| verdict.id)
        .collect();
    assert_eq!(ran, pushed);
    // And back.
    ground.manifest("", &[topic("own", "one.wat", ""), topic("sms.*", "two.wat", "")]);
    wait_until_done(&daemon, "sms.eu", "late");
}

#[test]
fn a_broken_module_of_a_pattern_is_refused_at_the_start_and_at_a_reload_the_old_one_stays() {
    let ground = ground(&[topic("sms.*", "one.wat", "")]);
    let daemon = ground.start();
    ground.duebox(&["push", "sms.a", "--id", "first"]);
    wait_until_done(&daemon, "sms.a", "first");
    ground.write("one.wat", "(module (nonsense))");
    daemon.wait_for_line("the refusal", |line| {
        line.has("topic", "sms.*") && line.message().contains("the module in service stays")
    });
    // A topic that is found now is served by the old one, too.
    ground.duebox(&["push", "sms.b", "--id", "second"]);
    assert!(wait_until_done(&daemon, "sms.b", "second").has("digest", &digest_of("one")));
    drop(daemon);
    let mut second = Daemon::start(&ground.path("duebox.toml"));
    assert_eq!(second.wait_exit().code(), Some(2));
    let said: Vec<String> = second.lines().iter().map(|line| line.text().to_owned()).collect();
    assert!(said.join("\n").contains("topic sms.*: the handler"), "{said:?}");
}
