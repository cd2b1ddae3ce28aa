//! What a topic promises about ids, room and remains, seen through the command line as a person would.

use std::process::Command;

use duebox_harness::{duebox_binary, eventually};
use serde_json::Value;

use crate::support::fixture::{Ground, topic};
use crate::support::log::{said, verdicts};
use crate::support::puppet::{PUPPET, count_settled, push_wishes, wish};
use crate::support::redis_state::key;

const TOPIC: &str = "order.close";

fn ground(keys: &str) -> Ground {
    let ground = Ground::new();
    ground.write("puppet.wat", PUPPET);
    ground.manifest("", &[topic(TOPIC, "puppet.wat", keys)]);
    ground
}

/// Runs `duebox` with these words and `--json`: its exit code and what it printed.
fn ask(ground: &Ground, words: &[&str]) -> (i32, Value) {
    let output = Command::new(duebox_binary())
        .args(words)
        .arg("--json")
        .current_dir(ground.path(""))
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

/// Pushes a job under an id: the exit code and the queue's word.
fn push(ground: &Ground, id: &str, more: &[&str]) -> (i32, String) {
    let words = [&["push", TOPIC, "l", "--id", id], more].concat();
    let (code, answer) = ask(ground, &words);
    (code, answer["result"].as_str().unwrap().to_owned())
}

fn word(code: i32, word: &str) -> (i32, String) {
    (code, word.to_owned())
}

#[test]
fn an_id_is_held_for_a_while_after_its_job_is_done() {
    let ground = ground("unique_for = \"10m\"");
    let store = ground.store();
    assert_eq!(push(&ground, "42", &[]), word(0, "pushed"));
    assert_eq!(push(&ground, "42", &[]), word(1, "exists"));
    let daemon = ground.start();
    eventually("it is done", || count_settled(&[&daemon], "done") == 1);
    assert_eq!(push(&ground, "42", &[]), word(1, "held"));
    assert_eq!(push(&ground, "42", &["--if-exists", "replace"]), word(1, "held"));
    assert_eq!(push(&ground, "42", &["--if-exists", "keep"]), word(0, "kept"));
    assert_eq!(push(&ground, "43", &[]), word(0, "pushed"));
    let (code, job) = ask(&ground, &["get", TOPIC, "42"]);
    assert_eq!((code, job["state"].as_str()), (0, Some("held")));
    // The ten minutes go by.
    let unique = key(TOPIC, "unique");
    ground.redis.cli(&["ZADD", &unique, "XX", &(store.now_ms() - 1).to_string(), "42"]);
    assert_eq!(push(&ground, "42", &[]), word(0, "pushed"));
    eventually("it runs again", || {
        said(&daemon).iter().filter(|line| line.id == "42").count() == 2
    });
}

#[test]
fn what_a_topic_does_about_a_live_id_is_its_own_to_say() {
    let later = ["--in", "1h"];
    for (mode, answer, kept) in [
        ("reject", word(1, "exists"), "l"),
        ("keep", word(0, "kept"), "l"),
        ("replace", word(0, "replaced"), "new"),
    ] {
        let ground = ground(&format!("if_exists = \"{mode}\""));
        assert_eq!(push(&ground, "42", &later), word(0, "pushed"));
        let again = ["push", TOPIC, "new", "--id", "42", "--in", "2h"];
        let (code, printed) = ask(&ground, &again);
        assert_eq!((code, printed["result"].as_str().unwrap().to_owned()), answer, "{mode}");
        let (_, job) = ask(&ground, &["get", TOPIC, "42"]);
        assert_eq!(job["payload"], kept, "{mode}");
        // A flag goes before the topic.
        assert_eq!(push(&ground, "42", &["--if-exists", "keep"]), word(0, "kept"), "{mode}");
    }
}

#[test]
fn a_full_topic_refuses_by_name_until_there_is_room() {
    let ground = ground("max_pending = 3");
    // The rule is for all who push; the first push writes it where they look, if no runner has.
    ground.duebox(&["pause", TOPIC]);
    assert_eq!(push(&ground, "1", &[]), word(0, "pushed"));
    assert_eq!(push(&ground, "2", &["--in", "1h"]), word(0, "pushed"));
    let lines = ["3", "4", "5"].map(|id| format!("{{\"id\":\"{id}\",\"payload\":\"l\"}}\n"));
    ground.write("jobs.ndjson", lines.concat());
    let output = Command::new(duebox_binary())
        .args(["push", TOPIC, "--jobs", "jobs.ndjson"])
        .current_dir(ground.path(""))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let full = printed.lines().filter(|line| line.contains("full")).count();
    assert!(full >= 2, "the lines that found no room are named: {printed}");
    let store = ground.store();
    assert_eq!(store.live(TOPIC), ["1", "2", "3"].map(str::to_owned).into());
    assert_eq!(push(&ground, "6", &[]), word(1, "full"));
    // One in place of another needs no room.
    assert_eq!(push(&ground, "2", &["--if-exists", "replace"]), word(0, "replaced"));
    ground.duebox(&["resume", TOPIC]);
    let daemon = ground.start();
    eventually("there is room", || count_settled(&[&daemon], "done") == 3);
    assert_eq!(push(&ground, "6", &[]), word(0, "pushed"));
}

#[test]
fn a_done_job_is_kept_with_its_result() {
    let ground = ground("done_retention = \"1h\"");
    let store = ground.store();
    let daemon = ground.start();
    push_wishes(&ground, TOPIC, &[wish("with", "r: 42", "{}"), wish("without", "l", "{}")]);
    eventually("both are done", || count_settled(&[&daemon], "done") == 2);
    assert_eq!(store.live_count(TOPIC), 0);
    let (code, job) = ask(&ground, &["get", TOPIC, "with"]);
    assert_eq!((code, job["state"].as_str()), (0, Some("done")));
    assert_eq!((&job["done"]["result"], &job["payload"]), (&"r: 42".into(), &"r: 42".into()));
    let (_, list) = ask(&ground, &["done", "list", TOPIC]);
    let mut ids: Vec<&str> =
        list["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["with", "without"]);
    // A done id is free for the next.
    assert_eq!(push(&ground, "with", &[]), word(0, "pushed"));
}

#[test]
fn a_job_is_put_off_as_often_as_it_may_and_no_attempt_is_spent() {
    let ground = ground("max_snoozes = 3\nmax_attempts = 1");
    let store = ground.store();
    let daemon = ground.start();
    push_wishes(
        &ground,
        TOPIC,
        &[wish("locked", "ls", "{}"), wish("own", "ls", r#"{"max_snoozes":0,"max_attempts":2}"#)],
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
