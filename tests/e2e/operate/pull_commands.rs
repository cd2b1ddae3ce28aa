//! Pull consumers on the command line: jobs are pulled, extended and settled by id and token, under the rules of
//! the topic. Invalid commands are refused and change nothing.

use std::process::{Command, Stdio};

use duebox_harness::{duebox_binary, eventually};
use redis::cmd;
use serde_json::Value;

use crate::support::fixture::Fixture;
use crate::support::producer::push;
use crate::support::redis_state::key;

const TOPICS: &str = "[topics.mail]\nmax_attempts = 2\nbackoff = \"1h\"\ndone_retention = \"1h\"\n\
    [topics.plain]\nretention = \"1h\"\non = { nack = \"dead\", bad_options = \"discard\" }\n";

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.manifest("", &[TOPICS.to_owned()]);
    fixture
}

fn duebox(fixture: &Fixture, words: &[&str]) -> Command {
    let mut command = Command::new(duebox_binary());
    command.args(words).current_dir(fixture.path(""));
    command.env_remove("DUEBOX_MANIFEST").env_remove("DUEBOX_REDIS_URL");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The exit code, stdout and stderr.
fn say(fixture: &Fixture, words: &[&str]) -> (i32, String, String) {
    let output = duebox(fixture, words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// The lines of JSON that a command prints that must succeed.
fn lines(fixture: &Fixture, words: &[&str]) -> Vec<Value> {
    fixture.duebox(words).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Pulls one job, which must be this one, and returns its token.
fn pull(fixture: &Fixture, topic: &str, id: &str) -> String {
    let jobs = lines(fixture, &["pull", topic, "-n", "1", "--consumer", "me", "--json"]);
    assert_eq!((jobs.len(), jobs[0]["id"].as_str()), (1, Some(id)), "{jobs:?}");
    jobs[0]["token"].as_str().unwrap().to_owned()
}

fn get(fixture: &Fixture, topic: &str, id: &str) -> Value {
    lines(fixture, &["get", topic, id, "--json"]).remove(0)
}

#[test]
fn a_pulled_job_has_all_its_data() {
    let fixture = fixture();
    let push = ["push", "mail", "{\"to\":\"a\"}", "--id", "1", "--key", "k", "--header", "from=b"];
    fixture.duebox(&push);
    fixture.duebox(&["push", "mail", "--id", "2", "--max-attempts", "7", "--in", "1ms"]);
    // Bytes that are not UTF-8, from a plain producer.
    let _: u64 = fixture.store().ask(cmd("HSET").arg(key("mail", "jobs")).arg("2").arg(b"\xff"));
    let mut jobs = Vec::new();
    while jobs.len() < 2 {
        jobs.extend(lines(&fixture, &["pull", "mail", "--json", "--lease", "5m"]));
    }
    let job = &jobs[0];
    assert_eq!(job["payload"], "{\"to\":\"a\"}");
    assert_eq!((&job["key"], &job["headers"]["from"]), (&"k".into(), &"b".into()));
    assert_eq!((&job["attempt"], &job["max_attempts"]), (&1.into(), &2.into()));
    let expires = job["lease_expires_at_ms"].as_u64().unwrap();
    let five_minutes = 300_000;
    assert!(expires <= fixture.store().now_ms() + five_minutes);
    assert!(expires > job["due_at_ms"].as_u64().unwrap());
    assert_eq!((&jobs[1]["max_attempts"], jobs[1].get("key")), (&7.into(), None));
    assert_eq!((&jobs[1]["payload_base64"], jobs[1].get("payload")), (&"/w==".into(), None));
    // The table shows the same.
    fixture.duebox(&["push", "mail", "a\u{1b}[2J\nb", "--id", "3"]);
    let table = fixture.duebox(&["pull", "mail"]);
    assert!(table.contains("1 of 2") && table.contains("a\\u{1b}[2J…"), "{table}");
}

#[test]
fn a_waiting_pull_gets_the_next_push() {
    let fixture = fixture();
    let waiting = duebox(&fixture, &["pull", "mail", "--wait", "60s", "--json"]).spawn().unwrap();
    let count = |fixture: &Fixture| {
        let answer = fixture.redis.cli(&["PUBSUB", "NUMSUB", &key("mail", "wake")]);
        answer.lines().nth(1).unwrap_or("0").to_owned()
    };
    eventually("it listens", || count(&fixture) == "1");
    fixture.duebox(&["push", "mail", "x", "--id", "pushed"]);
    let output = waiting.wait_with_output().unwrap();
    let job: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &job["id"]), (Some(0), &"pushed".into()));

    // A plain push wakes no consumer; the poll finds it.
    let waiting = duebox(&fixture, &["pull", "mail", "--wait", "60s", "--json"]).spawn().unwrap();
    eventually("it listens", || count(&fixture) == "1");
    push(&fixture, "mail", "plain", 0);
    let output = waiting.wait_with_output().unwrap();
    let job: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(job["id"], "plain");
    assert_eq!(say(&fixture, &["pull", "mail", "--wait", "0s", "--json"]).1, "");
}

#[test]
fn every_verdict_follows_the_topic_and_the_job() {
    let fixture = fixture();
    let settle = |topic: &str, id: &str, words: &[&str]| {
        let token = pull(&fixture, topic, id);
        let words = [&["settle", topic, id, &token], words, &["--json"]].concat();
        lines(&fixture, &words).remove(0)["result"].as_str().unwrap().to_owned()
    };
    for id in ["acked", "nacked", "dropped", "released"] {
        fixture.duebox(&["push", "mail", "p", "--id", id]);
        let words: &[&str] = match id {
            "acked" => &["ack", "--result", "{\"ok\":true}"],
            "nacked" => &["nack", "--reason", "not now"],
            "dropped" => &["drop", "--reason", "never"],
            _ => &["release", "--in", "1h"],
        };
        let word = settle("mail", id, words);
        let job = get(&fixture, "mail", id);
        match id {
            "acked" => {
                assert_eq!((word.as_str(), &job["state"]), ("done", &"done".into()), "{job}");
                assert_eq!(job["done"]["result"], "{\"ok\":true}", "{job}");
                assert_eq!(job["done"]["info"]["wall_ms"], Value::Null, "it is unknown: {job}");
            }
            "nacked" => {
                assert_eq!((word.as_str(), &job["state"]), ("retry", &"retry".into()), "{job}");
                let wait = job["due_at_ms"].as_u64().unwrap() - fixture.store().now_ms();
                assert!((3_500_000..=3_600_000).contains(&wait), "the topic's backoff: {wait}");
                assert_eq!(job["last_error"]["reason"], "not now", "{job}");
            }
            "dropped" => {
                assert_eq!((word.as_str(), &job["state"]), ("dead", &"dead".into()), "{job}");
                assert_eq!(job["dead"]["info"]["class"], "drop", "{job}");
                assert_eq!(job["dead"]["info"]["reason"], "never", "{job}");
            }
            _ => {
                assert_eq!((word.as_str(), &job["failures"]), ("released", &0.into()), "{job}");
                assert_eq!(job["state"], "retry", "{job}");
            }
        }
    }
    // The topic allows two attempts, and one job only one.
    fixture.duebox(&["run-now", "mail", "nacked"]);
    assert_eq!(settle("mail", "nacked", &["nack"]), "dead");
    fixture.duebox(&["push", "mail", "p", "--id", "once", "--max-attempts", "1"]);
    assert_eq!(settle("mail", "once", &["nack", "--in", "1s"]), "dead");
    // The topic's policy for a nack.
    fixture.duebox(&["push", "plain", "p", "--id", "strict"]);
    assert_eq!(settle("plain", "strict", &["nack"]), "dead");
    // A nack with its own wait.
    fixture.duebox(&["push", "mail", "p", "--id", "soon"]);
    assert_eq!(settle("mail", "soon", &["nack", "--in", "1ms"]), "retry");
    let token = pull(&fixture, "mail", "soon");
    assert_eq!(say(&fixture, &["settle", "mail", "soon", &token, "release"]).0, 0);
    assert_eq!(get(&fixture, "mail", "soon")["state"], "ready");
}

#[test]
fn a_lost_lease_is_reported_and_changes_nothing() {
    let fixture = fixture();
    fixture.duebox(&["push", "mail", "p", "--id", "1"]);
    let first = pull(&fixture, "mail", "1");
    let second = fixture
        .duebox(&["extend", "mail", "1", &first, "5m", "--consumer", "you"])
        .trim()
        .to_owned();
    assert_ne!(first, second);
    let again = fixture.duebox(&["extend", "mail", "1", &first, "5m", "--consumer", "you"]);
    assert_eq!(again.trim(), second, "repeating it is harmless");

    let before = fixture.store().dump();
    for words in [
        &["settle", "mail", "1", &first, "ack"][..],
        &["settle", "mail", "1", &first, "nack"],
        &["settle", "mail", "1", "12345", "release"],
        &["extend", "mail", "1", "12345", "5m"],
    ] {
        let (code, out, err) = say(&fixture, words);
        assert_eq!((code, out.as_str()), (1, ""), "{words:?}");
        assert!(err.contains("is lost: you holds it until"), "{words:?}: {err}");
        assert!(err.contains("hint: extend leases"), "{words:?}: {err}");
        let (code, out, _) = say(&fixture, &[words, &["--json"]].concat());
        let answer: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &answer["result"]), (1, &"lost".into()), "{words:?}");
        assert_eq!(answer["lease"]["holder"], "you", "{words:?}");
    }
    assert_eq!(fixture.store().dump(), before);
    assert_eq!(say(&fixture, &["settle", "mail", "1", &second, "ack"]).0, 0);
    let (code, _, err) = say(&fixture, &["settle", "mail", "1", &second, "ack"]);
    assert!(code == 1 && err.contains("it is now done"), "{err}");
    let (code, _, err) = say(&fixture, &["settle", "mail", "nobody", &second, "ack"]);
    assert!(code == 1 && err.contains("it is done and was not kept"), "{err}");
}

#[test]
fn invalid_commands_are_refused() {
    let fixture = fixture();
    fixture.duebox(&["push", "mail", "p", "--id", "1"]);
    fixture.duebox(&["push", "plain", "p", "--id", "1"]);
    let mail = pull(&fixture, "mail", "1");
    let plain = pull(&fixture, "plain", "1");
    let large = fixture.write("large", vec![b'x'; (64 << 10) + 1]);
    let large = format!("@{}", large.display());
    let before = fixture.store().dump();
    for (words, why) in [
        (&["pull", "nope"][..], "no topic nope"),
        (&["pull", "mail", "-n", "0"], "1 to 1000 jobs"),
        (&["pull", "mail", "-n", "1001"], "1 to 1000 jobs"),
        (&["pull", "mail", "-n", "many"], "many"),
        (&["pull", "mail", "--wait", "61s"], "60s at most"),
        (&["pull", "mail", "--wait", "soon"], "soon"),
        (&["pull", "mail", "--lease", "0s"], "1ms to 24h"),
        (&["pull", "mail", "--lease", "25h"], "1ms to 24h"),
        (&["pull", "mail", "--bytes", "0"], "at least 1 byte"),
        (&["pull", "mail", "--bytes", "much"], "not a size"),
        (&["pull", "mail", "--consumer", "a b"], "not a consumer name"),
        (&["pull", "mail", "--consumer", ""], "not a consumer name"),
        (&["extend", "mail", "1", &mail, "0s"], "1ms to 24h"),
        (&["extend", "mail", "1", &mail, "25h"], "1ms to 24h"),
        (&["extend", "mail", "1", "x", "5m"], "not a lease token"),
        (&["extend", "mail", "1", &mail, "5m", "--consumer", "a b"], "not a consumer name"),
        (&["settle", "mail", "1", "-1", "ack"], "-1"),
        (&["settle", "mail", "1", "1e3", "ack"], "not a lease token"),
        (&["settle", "mail", "1", &mail, "nck"], "nck"),
        (&["settle", "mail", "1", &mail, "ack", "--in", "5s"], "--in does not apply to ack"),
        (&["settle", "mail", "1", &mail, "ack", "--reason", "x"], "--reason does not apply"),
        (&["settle", "mail", "1", &mail, "drop", "--in", "5s"], "--in does not apply to drop"),
        (&["settle", "mail", "1", &mail, "nack", "--result", "x"], "--result does not apply"),
        (&["settle", "mail", "1", &mail, "release", "--reason", "x"], "--reason does not apply"),
        (&["settle", "mail", "1", &mail, "ack", "--result", &large], "at most 65536"),
        (&["settle", "mail", "1", &mail, "ack", "--result", "@none"], "cannot be read"),
        (&["settle", "plain", "1", &plain, "ack", "--result", "x"], "keeps no done jobs"),
        (&["settle", "nope", "1", &plain, "ack"], "no topic nope"),
    ] {
        let (code, out, err) = say(&fixture, words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}: {err}");
        assert!(err.contains(why) && err.contains("hint: "), "{words:?}: {err}");
    }
    assert_eq!(fixture.store().dump(), before);
}

#[test]
fn a_malformed_job_is_not_pulled() {
    let fixture = fixture();
    let spoil = |topic: &str| {
        fixture.duebox(&["push", topic, "p", "--id", "bad"]);
        fixture.redis.cli(&["HSET", &key(topic, "opts"), "bad", "{\"speed\":1}"]);
        fixture.duebox(&["push", topic, "p", "--id", "good"]);
        pull_all(&fixture, topic)
    };
    assert_eq!(spoil("mail"), ["good"]);
    assert_eq!(fixture.store().dead_class("mail", "bad"), "bad_options");
    assert_eq!(spoil("plain"), ["good"]);
    assert_eq!(say(&fixture, &["get", "plain", "bad"]).0, 1, "the topic wants it forgotten");
}

fn pull_all(fixture: &Fixture, topic: &str) -> Vec<String> {
    let jobs = lines(fixture, &["pull", topic, "--wait", "1s", "--json"]);
    jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}
