//! Pull consumers on the command line: jobs are pulled, extended and settled by their id and token,
//! under the rules of the topic; what makes no sense is refused by name and changes nothing.

use std::process::{Command, Stdio};

use duebox_harness::{duebox_binary, eventually};
use redis::cmd;
use serde_json::Value;

use crate::support::fixture::Ground;
use crate::support::producer::push;
use crate::support::redis_state::key;

const TOPICS: &str = "[topics.mail]\nmax_attempts = 2\nbackoff = \"1h\"\ndone_retention = \"1h\"\n\
    [topics.plain]\nretention = \"1h\"\non = { nack = \"dead\", bad_options = \"discard\" }\n";

fn ground() -> Ground {
    let ground = Ground::new();
    ground.manifest("", &[TOPICS.to_owned()]);
    ground
}

fn duebox(ground: &Ground, words: &[&str]) -> Command {
    let mut command = Command::new(duebox_binary());
    command.args(words).current_dir(ground.path(""));
    command.env_remove("DUEBOX_MANIFEST").env_remove("DUEBOX_REDIS_URL");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The exit code, stdout and stderr.
fn say(ground: &Ground, words: &[&str]) -> (i32, String, String) {
    let output = duebox(ground, words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// The lines of JSON that a command prints that must succeed.
fn lines(ground: &Ground, words: &[&str]) -> Vec<Value> {
    ground.duebox(words).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Pulls one job, which must be this one, and answers its token.
fn pull(ground: &Ground, topic: &str, id: &str) -> String {
    let jobs = lines(ground, &["pull", topic, "-n", "1", "--consumer", "me", "--json"]);
    assert_eq!((jobs.len(), jobs[0]["id"].as_str()), (1, Some(id)), "{jobs:?}");
    jobs[0]["token"].as_str().unwrap().to_owned()
}

fn get(ground: &Ground, topic: &str, id: &str) -> Value {
    lines(ground, &["get", topic, id, "--json"]).remove(0)
}

#[test]
fn a_job_comes_with_all_that_it_was_pushed_with() {
    let ground = ground();
    let push = ["push", "mail", "{\"to\":\"a\"}", "--id", "1", "--key", "k", "--header", "from=b"];
    ground.duebox(&push);
    ground.duebox(&["push", "mail", "--id", "2", "--max-attempts", "7", "--in", "1ms"]);
    // Bytes that are no text, as a plain producer may push them.
    let _: u64 = ground.store().ask(cmd("HSET").arg(key("mail", "jobs")).arg("2").arg(b"\xff"));
    let mut jobs = Vec::new();
    while jobs.len() < 2 {
        jobs.extend(lines(&ground, &["pull", "mail", "--json", "--lease", "5m"]));
    }
    let job = &jobs[0];
    assert_eq!(job["payload"], "{\"to\":\"a\"}");
    assert_eq!((&job["key"], &job["headers"]["from"]), (&"k".into(), &"b".into()));
    assert_eq!((&job["attempt"], &job["max_attempts"]), (&1.into(), &2.into()));
    let expires = job["lease_expires_at_ms"].as_u64().unwrap();
    let five_minutes = 300_000;
    assert!(expires <= ground.store().now_ms() + five_minutes);
    assert!(expires > job["due_at_ms"].as_u64().unwrap());
    assert_eq!((&jobs[1]["max_attempts"], jobs[1].get("key")), (&7.into(), None));
    assert_eq!((&jobs[1]["payload_base64"], jobs[1].get("payload")), (&"/w==".into(), None));
    // A table for people has the same.
    ground.duebox(&["push", "mail", "a\u{1b}[2J\nb", "--id", "3"]);
    let table = ground.duebox(&["pull", "mail"]);
    assert!(table.contains("1 of 2") && table.contains("a\\u{1b}[2J…"), "{table}");
}

#[test]
fn whoever_waits_gets_the_job_that_is_pushed() {
    let ground = ground();
    let waiting = duebox(&ground, &["pull", "mail", "--wait", "60s", "--json"]).spawn().unwrap();
    let count = |ground: &Ground| {
        let answer = ground.redis.cli(&["PUBSUB", "NUMSUB", &key("mail", "wake")]);
        answer.lines().nth(1).unwrap_or("0").to_owned()
    };
    eventually("it listens", || count(&ground) == "1");
    ground.duebox(&["push", "mail", "x", "--id", "pushed"]);
    let output = waiting.wait_with_output().unwrap();
    let job: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &job["id"]), (Some(0), &"pushed".into()));

    // A plain push wakes nobody: it is found by the poll.
    let waiting = duebox(&ground, &["pull", "mail", "--wait", "60s", "--json"]).spawn().unwrap();
    eventually("it listens", || count(&ground) == "1");
    push(&ground, "mail", "plain", 0);
    let output = waiting.wait_with_output().unwrap();
    let job: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(job["id"], "plain");
    assert_eq!(say(&ground, &["pull", "mail", "--wait", "0s", "--json"]).1, "");
}

#[test]
fn every_verdict_follows_the_topic_and_the_job() {
    let ground = ground();
    let settle = |topic: &str, id: &str, words: &[&str]| {
        let token = pull(&ground, topic, id);
        let words = [&["settle", topic, id, &token], words, &["--json"]].concat();
        lines(&ground, &words).remove(0)["result"].as_str().unwrap().to_owned()
    };
    for id in ["acked", "nacked", "dropped", "released"] {
        ground.duebox(&["push", "mail", "p", "--id", id]);
        let words: &[&str] = match id {
            "acked" => &["ack", "--result", "{\"ok\":true}"],
            "nacked" => &["nack", "--reason", "not now"],
            "dropped" => &["drop", "--reason", "never"],
            _ => &["release", "--in", "1h"],
        };
        let word = settle("mail", id, words);
        let job = get(&ground, "mail", id);
        match id {
            "acked" => {
                assert_eq!((word.as_str(), &job["state"]), ("done", &"done".into()), "{job}");
                assert_eq!(job["done"]["result"], "{\"ok\":true}", "{job}");
                assert_eq!(job["done"]["info"]["wall_ms"], Value::Null, "nobody knows it: {job}");
            }
            "nacked" => {
                assert_eq!((word.as_str(), &job["state"]), ("retry", &"retry".into()), "{job}");
                let wait = job["due_at_ms"].as_u64().unwrap() - ground.store().now_ms();
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
    // The second attempt is the last of the topic's; another job has only one.
    ground.duebox(&["run-now", "mail", "nacked"]);
    assert_eq!(settle("mail", "nacked", &["nack"]), "dead");
    ground.duebox(&["push", "mail", "p", "--id", "once", "--max-attempts", "1"]);
    assert_eq!(settle("mail", "once", &["nack", "--in", "1s"]), "dead");
    // The topic's policy for a nack.
    ground.duebox(&["push", "plain", "p", "--id", "strict"]);
    assert_eq!(settle("plain", "strict", &["nack"]), "dead");
    // A nack with a wait of its own.
    ground.duebox(&["push", "mail", "p", "--id", "soon"]);
    assert_eq!(settle("mail", "soon", &["nack", "--in", "1ms"]), "retry");
    let token = pull(&ground, "mail", "soon");
    assert_eq!(say(&ground, &["settle", "mail", "soon", &token, "release"]).0, 0);
    assert_eq!(get(&ground, "mail", "soon")["state"], "ready");
}

#[test]
fn a_lease_that_is_lost_is_named_and_nothing_changes() {
    let ground = ground();
    ground.duebox(&["push", "mail", "p", "--id", "1"]);
    let first = pull(&ground, "mail", "1");
    let second = ground
        .duebox(&["extend", "mail", "1", &first, "5m", "--consumer", "you"])
        .trim()
        .to_owned();
    assert_ne!(first, second);
    let again = ground.duebox(&["extend", "mail", "1", &first, "5m", "--consumer", "you"]);
    assert_eq!(again.trim(), second, "repeating it is harmless");

    let before = ground.store().dump();
    for words in [
        &["settle", "mail", "1", &first, "ack"][..],
        &["settle", "mail", "1", &first, "nack"],
        &["settle", "mail", "1", "12345", "release"],
        &["extend", "mail", "1", "12345", "5m"],
    ] {
        let (code, out, err) = say(&ground, words);
        assert_eq!((code, out.as_str()), (1, ""), "{words:?}");
        assert!(err.contains("is lost: you holds it until"), "{words:?}: {err}");
        assert!(err.contains("hint: extend leases"), "{words:?}: {err}");
        let (code, out, _) = say(&ground, &[words, &["--json"]].concat());
        let answer: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &answer["result"]), (1, &"lost".into()), "{words:?}");
        assert_eq!(answer["lease"]["holder"], "you", "{words:?}");
    }
    assert_eq!(ground.store().dump(), before);
    assert_eq!(say(&ground, &["settle", "mail", "1", &second, "ack"]).0, 0);
    let (code, _, err) = say(&ground, &["settle", "mail", "1", &second, "ack"]);
    assert!(code == 1 && err.contains("it is done now"), "{err}");
    let (code, _, err) = say(&ground, &["settle", "mail", "nobody", &second, "ack"]);
    assert!(code == 1 && err.contains("done and forgotten"), "{err}");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let ground = ground();
    ground.duebox(&["push", "mail", "p", "--id", "1"]);
    ground.duebox(&["push", "plain", "p", "--id", "1"]);
    let mail = pull(&ground, "mail", "1");
    let plain = pull(&ground, "plain", "1");
    let large = ground.write("large", vec![b'x'; (64 << 10) + 1]);
    let large = format!("@{}", large.display());
    let before = ground.store().dump();
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
        (&["pull", "mail", "--consumer", "a b"], "no name of a consumer"),
        (&["pull", "mail", "--consumer", ""], "no name of a consumer"),
        (&["extend", "mail", "1", &mail, "0s"], "1ms to 24h"),
        (&["extend", "mail", "1", &mail, "25h"], "1ms to 24h"),
        (&["extend", "mail", "1", "x", "5m"], "no token"),
        (&["extend", "mail", "1", &mail, "5m", "--consumer", "a b"], "no name of a consumer"),
        (&["settle", "mail", "1", "-1", "ack"], "-1"),
        (&["settle", "mail", "1", "1e3", "ack"], "no token"),
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
        let (code, out, err) = say(&ground, words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}: {err}");
        assert!(err.contains(why) && err.contains("hint: "), "{words:?}: {err}");
    }
    assert_eq!(ground.store().dump(), before);
}

#[test]
fn a_job_that_cannot_run_as_pushed_is_not_given() {
    let ground = ground();
    let spoil = |topic: &str| {
        ground.duebox(&["push", topic, "p", "--id", "bad"]);
        ground.redis.cli(&["HSET", &key(topic, "opts"), "bad", "{\"speed\":1}"]);
        ground.duebox(&["push", topic, "p", "--id", "good"]);
        pull_all(&ground, topic)
    };
    assert_eq!(spoil("mail"), ["good"]);
    assert_eq!(ground.store().dead_class("mail", "bad"), "bad_options");
    assert_eq!(spoil("plain"), ["good"]);
    assert_eq!(say(&ground, &["get", "plain", "bad"]).0, 1, "the topic wants it forgotten");
}

fn pull_all(ground: &Ground, topic: &str) -> Vec<String> {
    let jobs = lines(ground, &["pull", topic, "--wait", "1s", "--json"]);
    jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}
