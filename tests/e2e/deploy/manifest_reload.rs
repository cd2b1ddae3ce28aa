//! The manifest edited while jobs run: topics come, go and are bound anew, settings change, and a
//! broken one changes nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::handler::{Handler, digest, hostile};
use crate::support::log::{is_said, said, settled_as, verdicts};
use crate::support::producer::{push, push_many};

/// Ground with modules of several kinds, and a manifest of one topic, `work`.
fn ground(keys: &str) -> Ground {
    let ground = Ground::new();
    ground.write("one.wat", Handler::says("one").wat());
    ground.write("two.wat", Handler::says("two").wat());
    ground.write("naps.wat", Handler::says("nap").naps(Duration::from_millis(500)).wat());
    ground.write("nacks.wat", Handler::says("no").nacks().wat());
    ground.manifest("", &[topic("work", "one.wat", keys)]);
    ground
}

fn wait_until_reloaded(daemon: &Daemon) {
    daemon.wait_for_line("the reload", |line| line.message() == "the manifest is reloaded");
}

fn wait_until_done(daemon: &Daemon, id: &str) -> LogLine {
    daemon.wait_for_line(id, |line| settled_as(line, "done") && line.has("job_id", id))
}

#[test]
fn a_topic_that_is_added_is_served() {
    let ground = ground("");
    let daemon = ground.start();
    // It waits for its topic: nobody serves it yet.
    push(&ground, "more", "early", 0);
    push(&ground, "work", "a", 0);
    wait_until_done(&daemon, "a");
    assert_eq!(ground.store().live_count("more"), 1);
    ground.manifest("", &[topic("work", "one.wat", ""), topic("more", "two.wat", "")]);
    wait_until_done(&daemon, "early");
    push(&ground, "work", "b", 0);
    wait_until_done(&daemon, "b");
    let known = ground.redis.cli(&["SISMEMBER", "duebox:topics", "more"]);
    assert_eq!(known, "1");
}

#[test]
fn of_a_topic_that_is_removed_what_runs_finishes_and_the_rest_stays() {
    let ground = ground("");
    ground.manifest(
        "",
        &[topic("work", "one.wat", ""), topic("leaving", "naps.wat", "concurrency = 2")],
    );
    let daemon = ground.start();
    let pushed = push_many(&ground, "leaving", 7);
    eventually("two of them run", || daemon.count(is_said) >= 2);
    ground.manifest("", &[topic("work", "one.wat", "")]);
    daemon.wait_for_line("the farewell", |line| {
        line.has("topic", "leaving") && line.message().starts_with("unbound")
    });
    let store = ground.store();
    eventually("what runs finishes", || store.stage("leaving", "unack").is_empty());
    let ran: BTreeSet<String> = said(&daemon).into_iter().map(|line| line.id).collect();
    let left: BTreeSet<String> = pushed.difference(&ran).cloned().collect();
    assert!(!left.is_empty(), "all had run before the topic was removed");
    eventually("their verdicts are in", || verdicts(&daemon).len() >= ran.len());
    assert_eq!(daemon.count(|line| settled_as(line, "done")), ran.len());
    assert_eq!((store.live("leaving"), store.stage("leaving", "ready")), (left.clone(), left));
    assert!(store.attempts("leaving").is_empty());
    // Nobody serves it any more, while its neighbour goes on.
    push(&ground, "work", "after", 0);
    wait_until_done(&daemon, "after");
    assert_eq!(said(&daemon).iter().filter(|line| line.topic == "leaving").count(), ran.len());
    // Back in the manifest, the rest runs.
    ground.manifest("", &[topic("work", "one.wat", ""), topic("leaving", "one.wat", "")]);
    eventually("the rest runs", || store.live_count("leaving") == 0);
}

#[test]
fn a_topic_is_bound_to_another_module() {
    let ground = ground("");
    let daemon = ground.start();
    push(&ground, "work", "a", 0);
    let line = wait_until_done(&daemon, "a");
    assert!(line.has("digest", &digest(Handler::says("one").wat().as_bytes())));
    ground.manifest("", &[topic("work", "two.wat", "")]);
    let two = digest(Handler::says("two").wat().as_bytes());
    daemon.wait_for_line("the new module", |line| line.has("digest", &two));
    push(&ground, "work", "b", 0);
    assert!(wait_until_done(&daemon, "b").has("digest", &two));
}

#[test]
fn settings_change_without_a_new_module() {
    let ground = ground("");
    let with = |handler: &str, keys: &str| {
        ground.manifest("", &[topic("work", handler, keys)]);
    };
    with("nacks.wat", "max_attempts = 1");
    let daemon = ground.start();
    push(&ground, "work", "a", 0);
    let dead =
        |id: &'static str| move |line: &LogLine| settled_as(line, "dead") && line.has("job_id", id);
    assert_eq!(daemon.wait_for_line("a is dead", dead("a")).number("attempt"), Some(1));
    with("nacks.wat", "max_attempts = 3\nbackoff = [\"1ms\"]");
    wait_until_reloaded(&daemon);
    push(&ground, "work", "b", 0);
    assert_eq!(daemon.wait_for_line("b is dead", dead("b")).number("attempt"), Some(3));
}

#[test]
fn concurrency_changes_under_load() {
    let ground = ground("");
    let with = |keys: &str| {
        ground.manifest("", &[topic("work", "naps.wat", keys)]);
    };
    with("concurrency = 1");
    let daemon = ground.start();
    let store = ground.store();
    let leased = || store.stage("work", "unack").len();
    push_many(&ground, "work", 60);
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
fn a_broken_manifest_changes_nothing_but_a_warning() {
    let ground = ground("");
    let daemon = ground.start();
    let broken = ["[redis\n", "[topics.work]\nhandler = 7\n", "[topics.work]\nspeed = 1\n", ""];
    for (n, text) in broken.iter().enumerate() {
        ground.write("duebox.toml", text);
        eventually("the warning", || {
            let refused = |line: &LogLine| line.message().starts_with("the manifest is refused");
            daemon.count(refused) > n
        });
        let id = format!("job-{n}");
        push(&ground, "work", &id, 0);
        wait_until_done(&daemon, &id);
    }
    ground.manifest("", &[topic("work", "two.wat", "")]);
    wait_until_reloaded(&daemon);
}

#[test]
fn a_new_topic_with_a_broken_module_waits_for_a_good_one() {
    let ground = ground("");
    let daemon = ground.start();
    ground.write("late.wat", "(module");
    ground.manifest("", &[topic("work", "one.wat", ""), topic("late", "late.wat", "")]);
    daemon.wait_for_line("the warning", |line| {
        line.has("topic", "late") && line.message().ends_with("the topic waits for a good module")
    });
    push(&ground, "late", "a", 0);
    push(&ground, "work", "b", 0);
    wait_until_done(&daemon, "b");
    assert_eq!(ground.store().live_count("late"), 1);
    ground.write("late.wat", Handler::says("at last").wat());
    wait_until_done(&daemon, "a");
}

#[test]
fn what_needs_a_restart_is_told_and_the_rest_applies() {
    let ground = ground("");
    let daemon = ground.start();
    ground.manifest(
        "threads = 7\nmax_jobs = 9",
        &[topic("work", "one.wat", ""), topic("more", "two.wat", "")],
    );
    for key in ["runner.threads", "runner.max_jobs"] {
        daemon.wait_for_line(key, |line| line.has("key", key) && line.has("level", "WARN"));
    }
    let text = std::fs::read_to_string(ground.path("duebox.toml")).unwrap();
    ground.write("duebox.toml", text.replace("200ms", "300ms"));
    daemon.wait_for_line("[redis]", |line| line.has("key", "[redis]"));
    push(&ground, "more", "a", 0);
    wait_until_done(&daemon, "a");
}

#[test]
fn a_hangup_signal_looks_at_the_files() {
    let ground = ground("");
    let daemon = ground.start();
    daemon.signal("HUP");
    ground.write("one.wat", hostile("returns_seven"));
    daemon.signal("HUP");
    daemon
        .wait_for_line("the new module", |line| line.message().starts_with("a new module serves"));
    push(&ground, "work", "a", 0);
    let line = daemon.wait_for_line("its verdict", |line| line.has("job_id", "a"));
    assert!(line.has("class", "bad_verdict"), "{}", line.text());
}

#[test]
fn a_module_that_is_not_the_pinned_one_is_refused_once_and_the_old_one_serves() {
    let ground = ground("");
    let daemon = ground.start();
    let refused = |line: &LogLine| line.message().contains("is not the pinned one");
    let pin = format!("sha256 = \"{}\"", "0".repeat(64));
    ground.manifest("", &[topic("work", "one.wat", &pin)]);
    daemon.wait_for_line("the warning", refused);
    push(&ground, "work", "a", 0);
    wait_until_done(&daemon, "a");
    // A further look at the files finds nothing new about the module.
    ground.write("duebox.toml", "[redis\n");
    daemon.wait_for_line("the further look", |line| {
        line.message().starts_with("the manifest is refused")
    });
    assert_eq!(daemon.count(refused), 1);
    ground.manifest("", &[topic("work", "two.wat", "")]);
    daemon
        .wait_for_line("the new module", |line| line.message().starts_with("a new module serves"));
    push(&ground, "work", "b", 0);
    wait_until_done(&daemon, "b");
}
