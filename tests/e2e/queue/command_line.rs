//! Reserved ids, `max_pending` and kept results, as the command line shows them.

use std::process::Command;

use duebox_harness::{duebox_binary, eventually};
use serde_json::Value;

use crate::support::fixture::{Fixture, topic};
use crate::support::log::{handler_lines, verdicts};
use crate::support::puppet::{PUPPET, count_settled, puppet_job, push_jobs};
use crate::support::redis_state::key;

const TOPIC: &str = "order.close";

fn fixture(keys: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    fixture.manifest("", &[topic(TOPIC, "puppet.wat", keys)]);
    fixture
}

/// Runs `duebox` with these words and `--json`; returns the exit code and the output.
fn ask(fixture: &Fixture, words: &[&str]) -> (i32, Value) {
    let output = Command::new(duebox_binary())
        .args(words)
        .arg("--json")
        .current_dir(fixture.path(""))
        .env_remove("DUEBOX_MANIFEST")
        .env_remove("DUEBOX_REDIS_URL")
        .output()
        .unwrap();
    let code = output.status.code().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let answer = serde_json::from_str(&printed).unwrap_or_else(|error| {
        panic!("{words:?}: {error}: {printed} {}", String::from_utf8_lossy(&output.stderr))
    });
    (code, answer)
}

/// Pushes a job with an id; returns the exit code and the result.
fn push(fixture: &Fixture, id: &str, more: &[&str]) -> (i32, String) {
    let words = [&["push", TOPIC, "l", "--id", id], more].concat();
    let (code, answer) = ask(fixture, &words);
    (code, answer["result"].as_str().unwrap().to_owned())
}

fn word(code: i32, word: &str) -> (i32, String) {
    (code, word.to_owned())
}

#[test]
fn an_id_stays_reserved_after_its_job_is_done() {
    let fixture = fixture("unique_for = \"10m\"");
    let store = fixture.store();
    assert_eq!(push(&fixture, "42", &[]), word(0, "pushed"));
    assert_eq!(push(&fixture, "42", &[]), word(1, "exists"));
    let daemon = fixture.start();
    eventually("it is done", || count_settled(&[&daemon], "done") == 1);
    assert_eq!(push(&fixture, "42", &[]), word(1, "held"));
    assert_eq!(push(&fixture, "42", &["--if-exists", "replace"]), word(1, "held"));
    assert_eq!(push(&fixture, "42", &["--if-exists", "keep"]), word(0, "kept"));
    assert_eq!(push(&fixture, "43", &[]), word(0, "pushed"));
    let (code, job) = ask(&fixture, &["get", TOPIC, "42"]);
    assert_eq!((code, job["state"].as_str()), (0, Some("held")));
    // The ten minutes go by.
    let unique = key(TOPIC, "unique");
    fixture.redis.cli(&["ZADD", &unique, "XX", &(store.now_ms() - 1).to_string(), "42"]);
    assert_eq!(push(&fixture, "42", &[]), word(0, "pushed"));
    eventually("it runs again", || {
        handler_lines(&daemon).iter().filter(|line| line.id == "42").count() == 2
    });
}

#[test]
fn if_exists_of_the_topic_decides_about_a_live_id() {
    let later = ["--in", "1h"];
    for (mode, answer, kept) in [
        ("reject", word(1, "exists"), "l"),
        ("keep", word(0, "kept"), "l"),
        ("replace", word(0, "replaced"), "new"),
    ] {
        let fixture = fixture(&format!("if_exists = \"{mode}\""));
        assert_eq!(push(&fixture, "42", &later), word(0, "pushed"));
        let again = ["push", TOPIC, "new", "--id", "42", "--in", "2h"];
        let (code, printed) = ask(&fixture, &again);
        assert_eq!((code, printed["result"].as_str().unwrap().to_owned()), answer, "{mode}");
        let (_, job) = ask(&fixture, &["get", TOPIC, "42"]);
        assert_eq!(job["payload"], kept, "{mode}");
        // A flag goes before the topic.
        assert_eq!(push(&fixture, "42", &["--if-exists", "keep"]), word(0, "kept"), "{mode}");
    }
}

#[test]
fn a_full_topic_refuses_pushes() {
    let fixture = fixture("max_pending = 3");
    // The rule applies to every producer; the first push writes it to Redis if no runner has.
    fixture.duebox(&["pause", TOPIC]);
    assert_eq!(push(&fixture, "1", &[]), word(0, "pushed"));
    assert_eq!(push(&fixture, "2", &["--in", "1h"]), word(0, "pushed"));
    let lines = ["3", "4", "5"].map(|id| format!("{{\"id\":\"{id}\",\"payload\":\"l\"}}\n"));
    fixture.write("jobs.ndjson", lines.concat());
    let output = Command::new(duebox_binary())
        .args(["push", TOPIC, "--jobs", "jobs.ndjson"])
        .current_dir(fixture.path(""))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let full = printed.lines().filter(|line| line.contains("full")).count();
    assert!(full >= 2, "the lines that found no room are named: {printed}");
    let store = fixture.store();
    assert_eq!(store.live(TOPIC), ["1", "2", "3"].map(str::to_owned).into());
    assert_eq!(push(&fixture, "6", &[]), word(1, "full"));
    // A replacement does not need free capacity.
    assert_eq!(push(&fixture, "2", &["--if-exists", "replace"]), word(0, "replaced"));
    fixture.duebox(&["resume", TOPIC]);
    let daemon = fixture.start();
    eventually("there is room", || count_settled(&[&daemon], "done") == 3);
    assert_eq!(push(&fixture, "6", &[]), word(0, "pushed"));
}

#[test]
fn a_done_job_is_kept_with_its_result() {
    let fixture = fixture("done_retention = \"1h\"");
    let store = fixture.store();
    let daemon = fixture.start();
    push_jobs(
        &fixture,
        TOPIC,
        &[puppet_job("with", "r: 42", "{}"), puppet_job("without", "l", "{}")],
    );
    eventually("both are done", || count_settled(&[&daemon], "done") == 2);
    assert_eq!(store.live_count(TOPIC), 0);
    let (code, job) = ask(&fixture, &["get", TOPIC, "with"]);
    assert_eq!((code, job["state"].as_str()), (0, Some("done")));
    assert_eq!((&job["done"]["result"], &job["payload"]), (&"r: 42".into(), &"r: 42".into()));
    let (_, list) = ask(&fixture, &["done", "list", TOPIC]);
    let mut ids: Vec<&str> =
        list["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["with", "without"]);
    // A done id is free for the next.
    assert_eq!(push(&fixture, "with", &[]), word(0, "pushed"));
}

#[test]
fn snoozes_are_limited_and_spend_no_attempt() {
    let fixture = fixture("max_snoozes = 3\nmax_attempts = 1");
    let store = fixture.store();
    let daemon = fixture.start();
    push_jobs(
        &fixture,
        TOPIC,
        &[
            puppet_job("locked", "ls", "{}"),
            puppet_job("own", "ls", r#"{"max_snoozes":0,"max_attempts":2}"#),
        ],
    );
    eventually("both are dead", || store.stage(TOPIC, "dead").len() == 2);
    let settled = |id: &str| -> Vec<(String, i64)> {
        let of_id = verdicts(&daemon).into_iter().filter(|verdict| verdict.id == id);
        of_id.map(|verdict| (verdict.settled, verdict.attempt)).collect()
    };
    eventually("both are told", || settled("locked").len() == 4 && settled("own").len() == 2);
    let expected = [("snoozed", 1), ("snoozed", 1), ("snoozed", 1), ("dead", 1)];
    assert_eq!(settled("locked"), expected.map(|(word, n)| (word.to_owned(), n)));
    let expected = [("retry", 1), ("dead", 2)];
    assert_eq!(settled("own"), expected.map(|(word, n)| (word.to_owned(), n)));
    let info = store.dead_info(TOPIC, "locked");
    assert_eq!(info["class"], "nack");
    assert!(info["reason"].as_str().unwrap().contains("max_snoozes"), "{info}");
}
