//! What an operator sees of a failing job: the log, the timeline, `stats` and its check, and the error for a
//! mistyped topic.

use std::process::{Command, Output};

use duebox_harness::{Daemon, LogLine, duebox_binary, eventually};
use serde_json::Value;

use crate::support::client::{address, ask, get, post};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::puppet::PUPPET;

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A daemon with a topic whose jobs have two attempts.
fn start(runner: &str, keys: &str) -> (Fixture, Daemon) {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let keys = format!("max_attempts = 2\nbackoff = \"200ms\"\n{keys}");
    fixture.manifest(runner, &[topic("work", "puppet.wat", &keys)]);
    let daemon = fixture.start();
    (fixture, daemon)
}

fn json(fixture: &Fixture, words: &[&str]) -> Value {
    serde_json::from_str(&fixture.duebox(&[words, &["--json"]].concat())).unwrap()
}

/// Runs a command that may fail.
fn run(fixture: &Fixture, words: &[&str]) -> Output {
    Command::new(duebox_binary())
        .args(words)
        .current_dir(fixture.path(""))
        .env_remove("DUEBOX_MANIFEST")
        .env_remove("DUEBOX_REDIS_URL")
        .output()
        .unwrap()
}

/// The moments of a timeline. On a busy machine a job that does not start in time goes back, and is leased again.
fn moments(job: &Value) -> Vec<&Value> {
    let moments = job["timeline"].as_array().unwrap_or_else(|| panic!("{job}"));
    moments.iter().filter(|moment| moment["event"] != "released").collect()
}

/// The events of a timeline with their attempts.
fn events(job: &Value) -> Vec<(&str, Option<u64>)> {
    let event = |moment: &'_ Value| moment["attempt"].as_u64();
    let moments = moments(job).into_iter();
    moments.map(|moment| (moment["event"].as_str().unwrap(), event(moment))).collect()
}

#[test]
fn each_attempt_of_a_dead_job_is_in_its_timeline_where_events_are_on() {
    let (fixture, daemon) = start("events = 1000", "");
    let at = address(&daemon);
    let header = format!("traceparent={TRACEPARENT}");
    fixture.duebox(&["push", "work", "N", "--id", "ill", "--header", &header]);
    eventually("it is dead", || json(&fixture, &["stats", "work"])["topics"][0]["dead"] == 1);
    let expected = [("retried", Some(1)), ("started", Some(2)), ("dead", Some(2))];
    let job = || json(&fixture, &["get", "work", "ill"]);
    eventually("its events are stored", || events(&job()) == expected);
    let job = job();
    let end = moments(&job)[2];
    assert_eq!((&end["class"], &end["reason"]), (&"nack".into(), &"by its payload".into()));
    let runner = json(&fixture, &["stats"])["runners"][0]["runner"].clone();
    assert_eq!(end["runner"], runner, "{end}");
    assert_eq!(job["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    // The daemon also remembers why the first attempt failed.
    let served = get(at, "/v1/topics/work/jobs/ill").json();
    assert_eq!(events(&served), events(&job));
    assert_eq!(moments(&served)[2]["reason"], end["reason"]);
    assert_eq!(
        (&moments(&served)[0]["reason"], &moments(&job)[0]["reason"]),
        (&"by its payload".into(), &Value::Null)
    );
    let text = fixture.duebox(&["get", "work", "ill"]);
    assert!(text.contains("  dead, attempt 2") && text.contains("nack: by its payload"), "{text}");
}

#[test]
fn a_done_job_names_its_runner_and_its_push_without_events() {
    let (fixture, _daemon) = start("", "done_retention = \"1h\"");
    let id = json(&fixture, &["push", "work", "l"])["id"].as_str().unwrap().to_owned();
    eventually("it is done", || json(&fixture, &["stats", "work"])["topics"][0]["done"] == 1);
    let job = json(&fixture, &["get", "work", &id]);
    let told: Vec<&str> = events(&job).into_iter().map(|(event, _)| event).collect();
    assert_eq!(told, ["pushed", "started", "acked"], "{job}");
    let times: Vec<u64> =
        moments(&job).iter().map(|moment| moment["at_ms"].as_u64().unwrap()).collect();
    assert!(times.is_sorted() && times[0].abs_diff(times[2]) < 60_000, "{times:?}");
}

#[test]
fn stats_count_attempts_and_their_check_says_what_is_wrong() {
    let (fixture, _daemon) = start("", "");
    fixture.duebox(&["push", "work", "l", "--id", "good"]);
    fixture.duebox(&["push", "work", "n", "--id", "second"]);
    fixture.duebox(&["push", "work", "N", "--id", "ill"]);
    let total = || json(&fixture, &["stats", "work"])["topics"][0]["handler"]["total"].clone();
    eventually("five attempts", || total()["attempts"] == 5);
    let total = total();
    assert_eq!(
        (&total["acked"], &total["failed"], &total["jobs"]),
        (&2.into(), &3.into(), &5.into())
    );
    let text = fixture.duebox(&["stats"]);
    assert!(text.contains("attempts  acked  failed"), "{text}");

    let check = |words: &[&str]| {
        let output = run(&fixture, &[&["stats", "--check"], words].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(check(&["--max-dead", "1"]), (Some(0), "ok: 1 topics, 1 daemons\n".to_owned()));
    let (code, text) = check(&["--max-dead", "0", "--min-daemons", "2"]);
    assert_eq!(code, Some(1));
    assert_eq!(text, "1 daemons run, fewer than 2\nwork: 1 dead jobs, more than 0\n");
    let (code, text) = check(&["--max-dead", "0", "--json"]);
    let wrong: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, &wrong["ok"], &wrong["problems"][0]["topic"]),
        (Some(1), &false.into(), &"work".into())
    );
    // The share of failed attempts is that of the last ten minutes; daemons publish it every ten seconds.
    let share = "work: 3 of 5 attempts failed in the last ten minutes, 60 %, more than 59 %\n";
    eventually("the share is too large", || check(&["--max-failed", "59"]).1 == share);
    assert_eq!(check(&["--max-failed", "60"]).0, Some(0));
    // A limit without the check is a mistake.
    assert_eq!(run(&fixture, &["stats", "--max-dead", "0"]).status.code(), Some(2));
}

#[test]
fn a_topic_without_a_module_and_a_refused_module_are_always_wrong() {
    let fixture = Fixture::new();
    fixture.write("good.wat", Handler::logs("closed").wat());
    fixture.manifest("", &[topic("good", "good.wat", "")]);
    let _daemon = fixture.start();
    // A manifest with a topic that no daemon has.
    let both = [topic("good", "good.wat", ""), topic("bad", "good.wat", "")];
    fixture.manifest_named("both.toml", "", &both);
    let words = ["stats", "--check", "--manifest", "both.toml"];
    let check = || String::from_utf8(run(&fixture, &words).stdout).unwrap();
    eventually("the topic without a module is named", || {
        check().contains("bad: no daemon serves it") && !check().contains("good: ")
    });
    fixture.write("good.wat", "(module)");
    eventually("the refused module is named", || check().contains("good: handler"));
    assert!(!check().contains("good: no daemon"), "the module before it serves: {}", check());
}

#[test]
fn a_schedule_of_a_paused_topic_is_wrong() {
    let fixture = Fixture::new();
    let schedule = "[[schedules]]\nname = \"nightly\"\ntopic = \"mail\"\nevery = \"1d\"\n";
    fixture.manifest("", &["[topics.mail]\n".to_owned(), schedule.to_owned()]);
    let _daemon = fixture.start();
    let check = || run(&fixture, &["stats", "--check", "--max-late", "1h"]);
    eventually("nothing is wrong", || check().status.success());
    fixture.duebox(&["pause", "mail"]);
    let text = String::from_utf8(check().stdout).unwrap();
    assert_eq!(text, "mail: it is paused, and the schedule nightly pushes to it\n");

    let warned = run(&fixture, &["check", "--redis"]);
    assert!(warned.status.success(), "a pause is no error: {warned:?}");
    let warning = "warning: mail is paused, so the jobs of the schedule nightly do not run\n\
        hint: run: duebox resume mail\n";
    assert_eq!(String::from_utf8(warned.stderr).unwrap(), warning);
    let strict = run(&fixture, &["check", "--redis", "--strict", "--json"]);
    assert_eq!(strict.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&strict.stdout).unwrap();
    assert_eq!(report["warnings"][0]["hint"], "run: duebox resume mail");
    // Without Redis nothing can be known of it.
    assert!(run(&fixture, &["check", "--strict"]).status.success());
    fixture.duebox(&["resume", "mail"]);
    assert!(run(&fixture, &["check", "--redis", "--strict"]).status.success());
}

#[test]
fn the_level_of_a_line_tells_how_bad_it_is() {
    let (fixture, daemon) = start("", "");
    fixture.duebox(&["push", "work", "N", "--id", "ill"]);
    fixture.duebox(&["push", "work", "l", "--id", "good"]);
    let wait = |id: &str, settled: &str| {
        daemon.wait_for_line(settled, |line| line.has("job_id", id) && line.has("settled", settled))
    };
    let retried = wait("ill", "retry");
    assert_eq!((retried.str("level"), retried.str("class")), ("WARN", "nack"), "{retried:?}");
    assert!(retried.decimal("next_attempt_in_ms").is_some_and(|ms| ms > 0.0), "{retried:?}");
    assert!(retried.message().starts_with("job retry: attempt 1 of 2 failed, the next one is in "));
    let dead = wait("ill", "dead");
    assert_eq!((dead.str("level"), dead.message()), ("ERROR", "job dead: attempt 2 of 2 failed"));
    assert!(dead.field("next_attempt_in_ms").is_null(), "{dead:?}");
    let good = wait("good", "done");
    assert_eq!((good.str("level"), good.message()), ("INFO", "job done"));
    for name in ["class", "reason", "next_attempt_in_ms"] {
        assert!(good.field(name).is_null(), "{name}: {good:?}");
    }
}

#[test]
fn one_id_is_on_all_lines_of_a_request_and_of_a_reload() {
    let fixture = Fixture::new();
    fixture.write("one.wat", Handler::logs("one").wat());
    fixture.write("two.wat", Handler::logs("one").wat());
    let both = [topic("one", "one.wat", ""), topic("two", "two.wat", "")];
    fixture.manifest("log = \"debug\"", &both);
    let daemon = fixture.start();
    let at = address(&daemon);
    let pushed = post(at, "/v1/topics/one/jobs", r#"[{"id":"a"},{"id":"b"}]"#);
    assert_eq!(pushed.status, 200);
    let header = pushed.headers.iter().find(|(name, _)| name == "x-request-id");
    let id = header.unwrap().1.clone();
    let of_request = |line: &LogLine| line.has("request_id", &id);
    eventually("its lines are written", || daemon.count(of_request) >= 3);
    let lines: Vec<LogLine> = daemon.lines().into_iter().filter(of_request).collect();
    assert_eq!(lines.iter().filter(|line| line.message() == "pushed by HTTP").count(), 2);
    assert!(lines.iter().any(|line| line.message() == "answered"), "{lines:?}");

    // One reload has several lines: here what a changed key needs, and that the manifest is reloaded.
    fixture.write("one.wat", Handler::logs("two").wat());
    fixture.manifest("log = \"debug\"\nmax_jobs = 7", &both);
    let manifest =
        daemon.wait_for_line("the manifest", |line| line.message() == "the manifest is reloaded");
    let id = manifest.str("reload_id");
    assert_eq!(id.len(), 8, "{manifest:?}");
    let restart = daemon.wait_for_line("the key", |line| line.has("key", "runner.max_jobs"));
    assert_eq!(restart.str("reload_id"), id, "{restart:?}");
    let module = daemon.wait_for_line("a module", |line| {
        line.message().starts_with("a new module") && line.has("topic", "one")
    });
    assert_eq!(module.str("reload_id").len(), 8, "{module:?}");
    // Another reload has another id.
    fixture.manifest("log = \"debug\"\nmax_jobs = 8", &both);
    let is_next = |line: &LogLine| {
        line.message() == "the manifest is reloaded" && line.str("reload_id") != id
    };
    daemon.wait_for_line("the next reload", is_next);
}

#[test]
fn a_mistyped_topic_is_an_error_with_the_nearest_name_and_becomes_no_topic() {
    let fixture = Fixture::new();
    fixture.manifest("", &["[topics.\"order.close\"]\n[topics.\"order.*\"]\n".to_owned()]);
    let daemon = fixture.start();
    let at = address(&daemon);
    let keys = || {
        let primaries = fixture.redis.primaries().iter();
        primaries.map(|server| server.cli(&["KEYS", "*clsoe*"])).collect::<String>()
    };
    for words in [
        &["doctor", "order.clsoe", "--repair"][..],
        &["pause", "order.clsoe"],
        &["resume", "order.clsoe"],
        &["requeue", "order.clsoe", "--all"],
        &["dead", "purge", "order.clsoe", "--all"],
        &["dead", "show", "order.clsoe", "1"],
        &["list", "order.clsoe", "--state", "dead"],
        &["get", "order.clsoe", "1"],
        &["cancel", "order.clsoe", "1"],
        &["run-now", "order.clsoe", "1"],
        &["stats", "order.clsoe"],
    ] {
        let output = run(&fixture, words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.contains("did you mean order.close?"), "{words:?}: {error}");
    }
    for line in [
        "GET /v1/topics/order.clsoe",
        "GET /v1/topics/order.clsoe/jobs",
        "GET /v1/topics/order.clsoe/jobs/1",
        "DELETE /v1/topics/order.clsoe/jobs/1",
        "GET /v1/topics/order.clsoe/dead",
        "GET /v1/topics/order.clsoe/dead/1",
        "DELETE /v1/topics/order.clsoe/dead?all=true",
        "POST /v1/topics/order.clsoe/pause",
        "POST /v1/topics/order.clsoe/requeue?all=true",
        "POST /v1/topics/order.clsoe/dead/1/requeue",
    ] {
        let refused = ask(at, line, &[], b"");
        assert_eq!((refused.status, refused.problem().as_str()), (404, "unknown-topic"), "{line}");
        let remedy = refused.json()["remedy"].as_str().unwrap().to_owned();
        assert!(remedy.contains("did you mean order.close?"), "{line}: {remedy}");
    }
    assert_eq!(keys(), "");
    assert!(!fixture.redis.cli(&["SMEMBERS", "duebox:topics"]).contains("clsoe"));
    // A push makes a topic of the pattern, which is then known.
    fixture.duebox(&["push", "order.new", "x"]);
    fixture.duebox(&["pause", "order.new"]);
}
