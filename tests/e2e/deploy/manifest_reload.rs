//! Edits of the manifest while jobs run: topics are added, removed and rebound, and settings change. An invalid
//! manifest changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, digest, hostile};
use crate::support::log::{handler_lines, is_handler_line, settled_as, verdicts};
use crate::support::producer::{push, push_many};

/// A fixture with several modules and a manifest with the topic `work`.
fn fixture(keys: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("one.wat", Handler::logs("one").wat());
    fixture.write("two.wat", Handler::logs("two").wat());
    fixture.write("naps.wat", Handler::logs("nap").naps(Duration::from_millis(500)).wat());
    fixture.write("nacks.wat", Handler::logs("no").nacks().wat());
    fixture.manifest("", &[topic("work", "one.wat", keys)]);
    fixture
}

fn wait_until_reloaded(daemon: &Daemon) {
    daemon.wait_for_line("the reload", |line| line.message() == "the manifest is reloaded");
}

fn wait_until_done(daemon: &Daemon, id: &str) -> LogLine {
    daemon.wait_for_line(id, |line| settled_as(line, "done") && line.has("job_id", id))
}

#[test]
fn an_added_topic_is_served() {
    let fixture = fixture("");
    let daemon = fixture.start();
    // The job waits, because no daemon serves its topic yet.
    push(&fixture, "more", "early", 0);
    push(&fixture, "work", "a", 0);
    wait_until_done(&daemon, "a");
    assert_eq!(fixture.store().live_count("more"), 1);
    fixture.manifest("", &[topic("work", "one.wat", ""), topic("more", "two.wat", "")]);
    wait_until_done(&daemon, "early");
    push(&fixture, "work", "b", 0);
    wait_until_done(&daemon, "b");
    let known = fixture.redis.cli(&["SISMEMBER", "duebox:topics", "more"]);
    assert_eq!(known, "1");
}

#[test]
fn running_jobs_of_a_removed_topic_finish_and_the_rest_stays() {
    let fixture = fixture("");
    fixture.manifest(
        "",
        &[topic("work", "one.wat", ""), topic("leaving", "naps.wat", "concurrency = 2")],
    );
    let daemon = fixture.start();
    let pushed = push_many(&fixture, "leaving", 7);
    eventually("two of them run", || daemon.count(is_handler_line) >= 2);
    fixture.manifest("", &[topic("work", "one.wat", "")]);
    daemon.wait_for_line("the farewell", |line| {
        line.has("topic", "leaving") && line.message().starts_with("unbound")
    });
    let store = fixture.store();
    eventually("what runs finishes", || store.stage("leaving", "unack").is_empty());
    let ran: BTreeSet<String> = handler_lines(&daemon).into_iter().map(|line| line.id).collect();
    let left: BTreeSet<String> = pushed.difference(&ran).cloned().collect();
    assert!(!left.is_empty(), "all had run before the topic was removed");
    eventually("their verdicts are in", || verdicts(&daemon).len() >= ran.len());
    assert_eq!(daemon.count(|line| settled_as(line, "done")), ran.len());
    assert_eq!((store.live("leaving"), store.stage("leaving", "ready")), (left.clone(), left));
    assert!(store.attempts("leaving").is_empty());
    // No daemon serves it any more; the other topic continues.
    push(&fixture, "work", "after", 0);
    wait_until_done(&daemon, "after");
    assert_eq!(
        handler_lines(&daemon).iter().filter(|line| line.topic == "leaving").count(),
        ran.len()
    );
    // Back in the manifest, the rest runs.
    fixture.manifest("", &[topic("work", "one.wat", ""), topic("leaving", "one.wat", "")]);
    eventually("the rest runs", || store.live_count("leaving") == 0);
}

#[test]
fn a_topic_is_rebound_to_another_module() {
    let fixture = fixture("");
    let daemon = fixture.start();
    push(&fixture, "work", "a", 0);
    let line = wait_until_done(&daemon, "a");
    assert!(line.has("digest", &digest(Handler::logs("one").wat().as_bytes())));
    fixture.manifest("", &[topic("work", "two.wat", "")]);
    let two = digest(Handler::logs("two").wat().as_bytes());
    daemon.wait_for_line("the new module", |line| line.has("digest", &two));
    push(&fixture, "work", "b", 0);
    assert!(wait_until_done(&daemon, "b").has("digest", &two));
}

#[test]
fn settings_change_without_a_module_reload() {
    let fixture = fixture("");
    let with = |handler: &str, keys: &str| {
        fixture.manifest("", &[topic("work", handler, keys)]);
    };
    with("nacks.wat", "max_attempts = 1");
    let daemon = fixture.start();
    push(&fixture, "work", "a", 0);
    let dead =
        |id: &'static str| move |line: &LogLine| settled_as(line, "dead") && line.has("job_id", id);
    assert_eq!(daemon.wait_for_line("a is dead", dead("a")).number("attempt"), Some(1));
    with("nacks.wat", "max_attempts = 3\nbackoff = [\"1ms\"]");
    wait_until_reloaded(&daemon);
    push(&fixture, "work", "b", 0);
    assert_eq!(daemon.wait_for_line("b is dead", dead("b")).number("attempt"), Some(3));
}

#[test]
fn concurrency_changes_under_load() {
    let fixture = fixture("");
    let with = |keys: &str| {
        fixture.manifest("", &[topic("work", "naps.wat", keys)]);
    };
    with("concurrency = 1");
    let daemon = fixture.start();
    let store = fixture.store();
    let leased = || store.stage("work", "unack").len();
    push_many(&fixture, "work", 60);
    let mut most = 0;
    eventually("the first are done", || {
        most = most.max(leased());
        daemon.count(|line| settled_as(line, "done")) >= 2
    });
    assert_eq!(most, 1);
    with("concurrency = 20");
    eventually("twenty run at once", || leased() == 20);
    eventually("all are done", || store.live_count("work") == 0);
    assert!(verdicts(&daemon).iter().all(|v| v.settled == "done" && v.attempt == 1));
}

#[test]
fn a_broken_manifest_only_causes_a_warning() {
    let fixture = fixture("");
    let daemon = fixture.start();
    let broken = ["[redis\n", "[topics.work]\nhandler = 7\n", "[topics.work]\nspeed = 1\n", ""];
    for (n, text) in broken.iter().enumerate() {
        fixture.write("duebox.toml", text);
        eventually("the warning", || {
            let refused = |line: &LogLine| line.message().starts_with("the manifest is refused");
            daemon.count(refused) > n
        });
        let id = format!("job-{n}");
        push(&fixture, "work", &id, 0);
        wait_until_done(&daemon, &id);
    }
    fixture.manifest("", &[topic("work", "two.wat", "")]);
    wait_until_reloaded(&daemon);
}

#[test]
fn a_new_topic_with_a_broken_module_waits_for_a_good_one() {
    let fixture = fixture("");
    let daemon = fixture.start();
    fixture.write("late.wat", "(module");
    fixture.manifest("", &[topic("work", "one.wat", ""), topic("late", "late.wat", "")]);
    daemon.wait_for_line("the warning", |line| {
        line.has("topic", "late") && line.message().ends_with("the topic waits for a good module")
    });
    push(&fixture, "late", "a", 0);
    push(&fixture, "work", "b", 0);
    wait_until_done(&daemon, "b");
    assert_eq!(fixture.store().live_count("late"), 1);
    fixture.write("late.wat", Handler::logs("at last").wat());
    wait_until_done(&daemon, "a");
}

#[test]
fn changes_that_need_a_restart_are_reported_and_the_rest_applies() {
    let fixture = fixture("");
    let daemon = fixture.start();
    fixture.manifest(
        "threads = 7\nmax_jobs = 9",
        &[topic("work", "one.wat", ""), topic("more", "two.wat", "")],
    );
    for key in ["runner.threads", "runner.max_jobs"] {
        daemon.wait_for_line(key, |line| line.has("key", key) && line.has("level", "WARN"));
    }
    let text = std::fs::read_to_string(fixture.path("duebox.toml")).unwrap();
    fixture.write("duebox.toml", text.replace("200ms", "300ms"));
    daemon.wait_for_line("[redis]", |line| line.has("key", "[redis]"));
    push(&fixture, "more", "a", 0);
    wait_until_done(&daemon, "a");
}

#[test]
fn a_hangup_signal_reloads() {
    let fixture = fixture("");
    let daemon = fixture.start();
    daemon.signal("HUP");
    fixture.write("one.wat", hostile("returns_seven"));
    daemon.signal("HUP");
    daemon
        .wait_for_line("the new module", |line| line.message().starts_with("a new module serves"));
    push(&fixture, "work", "a", 0);
    let line = daemon.wait_for_line("its verdict", |line| line.has("job_id", "a"));
    assert!(line.has("class", "bad_verdict"), "{}", line.text());
}

#[test]
fn an_unpinned_module_is_refused_and_the_old_one_serves() {
    let fixture = fixture("");
    let daemon = fixture.start();
    let refused = |line: &LogLine| line.message().contains("is not the pinned one");
    let pin = format!("sha256 = \"{}\"", "0".repeat(64));
    fixture.manifest("", &[topic("work", "one.wat", &pin)]);
    daemon.wait_for_line("the warning", refused);
    push(&fixture, "work", "a", 0);
    wait_until_done(&daemon, "a");
    // A further scan reports nothing new about the module.
    fixture.write("duebox.toml", "[redis\n");
    daemon.wait_for_line("the further look", |line| {
        line.message().starts_with("the manifest is refused")
    });
    assert_eq!(daemon.count(refused), 1);
    fixture.manifest("", &[topic("work", "two.wat", "")]);
    daemon
        .wait_for_line("the new module", |line| line.message().starts_with("a new module serves"));
    push(&fixture, "work", "b", 0);
    wait_until_done(&daemon, "b");
}
