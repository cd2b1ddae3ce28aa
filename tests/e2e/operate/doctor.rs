//! `duebox doctor`: it finds nothing on a healthy queue under load, and finds or repairs what malformed producers
//! leave. The exit code reports the result.

use std::process::{Command, Stdio};
use std::time::Duration;

use duebox_harness::{duebox_binary, eventually};
use serde_json::Value;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::producer::under_load;
use crate::support::redis_state::key;

/// The exit code, and the lines of JSON.
fn doctor(fixture: &Fixture, words: &[&str]) -> (i32, Vec<Value>) {
    let output = Command::new(duebox_binary())
        .args([&["doctor", "--json"], words].concat())
        .current_dir(fixture.path(""))
        .env_remove("DUEBOX_MANIFEST")
        .env_remove("DUEBOX_REDIS_URL")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (output.status.code().unwrap_or(-1), lines)
}

fn kinds(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["kind"].as_str()).collect()
}

#[test]
fn it_finds_nothing_while_a_daemon_works() {
    const ROUNDS: usize = 12;
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").naps(Duration::from_millis(5)).wat());
    fixture.write("fails.wat", Handler::logs("no").nacks().wat());
    let failing = "max_attempts = 3\nbackoff = { base = \"20ms\", max = \"50ms\" }\n\
        per_key_concurrency = 1\ndone_retention = \"1h\"\nbreaker = { failures = 0 }";
    let topics =
        [topic("work", "work.wat", "max_running = 20"), topic("fails", "fails.wat", failing)];
    fixture.manifest("lease = \"1s\"", &topics);
    let mut first = fixture.start();
    let second = fixture.start();
    let jobs = fixture.path("jobs");
    let pushed = under_load(&fixture, "work", || {
        for round in 0..ROUNDS {
            let job = |n: usize| {
                format!("{{\"id\":\"{round}-{n}\",\"options\":{{\"key\":\"k{}\"}}}}\n", n % 3)
            };
            std::fs::write(&jobs, (0..30).map(job).collect::<String>()).unwrap();
            fixture.duebox(&["push", "fails", "--jobs", "jobs"]);
            if round == ROUNDS / 2 {
                // Leases of a dead runner are reclaimed and are not a finding.
                first.kill();
            }
            let (code, lines) = doctor(&fixture, &["--repair"]);
            assert_eq!((code, kinds(&lines).len()), (0, 0), "round {round}: {lines:?}");
        }
    });
    let store = fixture.store();
    eventually("all is worked off", || store.live_count("work") + store.live_count("fails") == 0);
    assert!(pushed.len() > 100, "there was a load");
    assert_eq!(store.stage("fails", "dead").len(), ROUNDS * 30, "none was lost, none is a ghost");
    assert_eq!(doctor(&fixture, &[]).0, 0);
    drop(second);
}

#[test]
fn malformed_keys_are_found_and_repaired() {
    let fixture = Fixture::new();
    fixture.manifest("", &["[topics.mail]\non = { bad_due = \"discard\" }\n".to_owned()]);
    assert_eq!(doctor(&fixture, &[]).0, 0);
    fixture.duebox(&["push", "mail", "p", "--id", "good", "--in", "1h"]);
    let plant = |command: &[&str]| drop(fixture.redis.cli(command));
    plant(&["HSET", &key("mail", "jobs"), "orphan", "p"]);
    plant(&["HSET", &key("mail", "jobs"), "seconds", "p"]);
    plant(&["ZADD", &key("mail", "pending"), "1763740800", "seconds"]);
    plant(&["SET", &key("mail", "errors"), "text"]);
    plant(&["HSET", &key("strange", "jobs"), "orphan", "p"]);

    let before = fixture.store().dump();
    let (code, lines) = doctor(&fixture, &[]);
    assert_eq!((code, kinds(&lines)), (1, vec!["wrong_type", "orphan", "unlisted_topic"]));
    let sum = lines.last().unwrap();
    assert_eq!((&sum["findings"], &sum["repaired"]), (&3.into(), &0.into()));
    assert!(sum["unexamined"][0].as_str().unwrap().starts_with("mail: keys of a wrong type"));
    assert_eq!(fixture.store().dump(), before, "looking changes nothing");

    let (code, lines) = doctor(&fixture, &["--repair"]);
    let found = ["wrong_type", "bad_due", "orphan", "orphan", "unlisted_topic"];
    assert_eq!((code, kinds(&lines)), (0, found.to_vec()));
    let done: Vec<_> = lines.iter().filter_map(|line| line["done"].as_str()).collect();
    assert_eq!(done[1..], ["forgotten", "buried", "buried", "listed"], "{lines:?}");
    assert_eq!(fixture.store().dead_class("mail", "orphan"), "orphan");
    assert_eq!(fixture.store().dead_class("strange", "orphan"), "orphan");
    assert_eq!(fixture.store().live("mail"), ["good".to_owned()].into());
    assert_eq!(doctor(&fixture, &[]), (0, vec![lines_of_nothing(2)]));
    assert_eq!(doctor(&fixture, &["mail"]), (0, vec![lines_of_nothing(1)]));
    assert_eq!(doctor(&fixture, &["nobody"]), (2, vec![]));
}

fn lines_of_nothing(topics: u64) -> Value {
    serde_json::json!({"topics": topics, "findings": 0, "repaired": 0, "unexamined": [], "refused": 0})
}
