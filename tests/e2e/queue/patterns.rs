//! Topics that only a pattern of the manifest matches are found and served, all with one module.

use std::collections::BTreeSet;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, digest};
use crate::support::log::{settled_as, verdicts};
use crate::support::producer::{push, push_many};

/// A fixture with two modules and a manifest with these topics.
fn fixture(topics: &[String]) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("one.wat", Handler::logs("one").wat());
    fixture.write("two.wat", Handler::logs("two").wat());
    fixture.manifest("", topics);
    fixture
}

fn digest_of(word: &str) -> String {
    digest(Handler::logs(word).wat().as_bytes())
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
fn a_topic_is_found_after_a_push() {
    let fixture = fixture(&[topic("sms.*", "one.wat", "")]);
    fixture.duebox(&["push", "sms.early", "--id", "a"]);
    let mut daemon = fixture.start();
    // Topics listed before the start, pushed through Duebox with a wake-up, and pushed by plain commands.
    wait_until_done(&daemon, "sms.early", "a");
    fixture.duebox(&["push", "sms.eu", "--id", "b"]);
    wait_until_done(&daemon, "sms.eu", "b");
    push(&fixture, "sms.plain", "c", 0);
    push(&fixture, "mail.plain", "d", 0);
    wait_until_done(&daemon, "sms.plain", "c");
    for name in ["sms.early", "sms.eu", "sms.plain"] {
        assert_eq!(served(&daemon, name), 1, "{name}");
        assert_eq!(fixture.redis.cli(&["SISMEMBER", "duebox:topics", name]), "1");
    }
    assert!(daemon.terminate().success());
    assert_eq!(verdicts(&daemon).len(), 3);
    assert_eq!(fixture.store().live_count("mail.plain"), 1);
}

#[test]
fn the_most_specific_entry_serves() {
    let fixture = fixture(&[
        topic("*", "one.wat", "max_pending = 1000"),
        topic("sms.eu.*", "two.wat", ""),
        topic("sms.*", "one.wat", "ttl = \"1h\""),
        topic("sms.eu.de", "one.wat", "max_pending = 77"),
    ]);
    let daemon = fixture.start();
    for (name, word, field, value) in [
        ("sms.eu.de", "one", "max_pending", "77"),
        ("sms.eu.fr", "two", "max_pending", ""),
        ("sms.us", "one", "ttl", "3600000"),
        ("order", "one", "max_pending", "1000"),
    ] {
        fixture.duebox(&["push", name, "--id", name]);
        let line = wait_until_done(&daemon, name, name);
        assert!(line.has("digest", &digest_of(word)), "{name}: {}", line.text());
        // The topic has the settings of the entry.
        assert_eq!(fixture.redis.cli(&["HGET", &format!("duebox:{{{name}}}:meta"), field]), value);
    }
}

#[test]
fn a_new_module_serves_all_topics_of_its_pattern() {
    let fixture = fixture(&[topic("sms.*", "one.wat", "")]);
    let daemon = fixture.start();
    let names = ["sms.a", "sms.b", "sms.c"];
    for name in names {
        fixture.duebox(&["push", name, "--id", "first"]);
        assert!(wait_until_done(&daemon, name, "first").has("digest", &digest_of("one")));
    }
    fixture.write("one.wat", Handler::logs("new").wat());
    for name in names {
        daemon.wait_for_line("the new module", |line| {
            line.message().starts_with("a new module serves") && line.has("topic", name)
        });
        fixture.duebox(&["push", name, "--id", "second"]);
        assert!(wait_until_done(&daemon, name, "second").has("digest", &digest_of("new")));
    }
}

#[test]
fn patterns_follow_the_manifest() {
    let fixture = fixture(&[topic("own", "one.wat", "")]);
    fixture.duebox(&["push", "own", "--id", "a"]);
    let daemon = fixture.start();
    wait_until_done(&daemon, "own", "a");
    let pushed = push_many(&fixture, "sms.eu", 3);
    // A new pattern serves the waiting jobs.
    fixture.manifest("", &[topic("own", "one.wat", ""), topic("sms.*", "two.wat", "")]);
    eventually("what waits is run", || fixture.store().live_count("sms.eu") == 0);
    // A table of the topic takes precedence.
    fixture.manifest(
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
    // Without either, pushed jobs wait.
    fixture.manifest("", &[topic("own", "one.wat", "")]);
    daemon.wait_for_line("the farewell", |line| {
        line.has("topic", "sms.eu") && line.message().starts_with("unbound")
    });
    push(&fixture, "sms.eu", "late", 0);
    fixture.duebox(&["push", "own", "--id", "b"]);
    wait_until_done(&daemon, "own", "b");
    assert_eq!(fixture.store().live("sms.eu"), BTreeSet::from(["late".to_owned()]));
    let ran: BTreeSet<String> = verdicts(&daemon)
        .into_iter()
        .filter(|verdict| verdict.topic == "sms.eu")
        .map(|verdict| verdict.id)
        .collect();
    assert_eq!(ran, pushed);
    // And back.
    fixture.manifest("", &[topic("own", "one.wat", ""), topic("sms.*", "two.wat", "")]);
    wait_until_done(&daemon, "sms.eu", "late");
}

#[test]
fn a_broken_module_of_a_pattern_is_refused() {
    let fixture = fixture(&[topic("sms.*", "one.wat", "")]);
    let daemon = fixture.start();
    fixture.duebox(&["push", "sms.a", "--id", "first"]);
    wait_until_done(&daemon, "sms.a", "first");
    fixture.write("one.wat", "(module (nonsense))");
    daemon.wait_for_line("the refusal", |line| {
        line.has("topic", "sms.*") && line.message().contains("the module in service stays")
    });
    // A topic that is found now is served by the old module too.
    fixture.duebox(&["push", "sms.b", "--id", "second"]);
    assert!(wait_until_done(&daemon, "sms.b", "second").has("digest", &digest_of("one")));
    drop(daemon);
    let mut second = Daemon::start(&fixture.path("duebox.toml"));
    assert_eq!(second.wait_exit().code(), Some(2));
    let printed: Vec<String> = second.lines().iter().map(|line| line.text().to_owned()).collect();
    assert!(printed.join("\n").contains("topic sms.*: the handler"), "{printed:?}");
}
