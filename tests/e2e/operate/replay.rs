//! Record and replay: what the last attempt of a dead job read is kept, and gives the same end again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use duebox_harness::{duebox_binary, eventually};
use redis::cmd;
use serde_json::Value;

use crate::support::fixture::{Fixture, built, topic};
use crate::support::log::handler_lines;
use crate::support::producer::push;
use crate::support::redis_state::key;
use crate::support::shop::OpenShop;

/// Recorded, with one attempt, and with fuel that is counted.
const RECORDED: &str = "record = \"failures\"\nmax_attempts = 1\nbreaker = { failures = 0 }\n\
    sandbox.fuel = 100_000_000_000\nsandbox.kv = true\nsandbox.push = [\"*\"]\n";

fn duebox(fixture: &Fixture, words: &[&str]) -> Output {
    let mut command = Command::new(duebox_binary());
    command.args(words).current_dir(fixture.path(""));
    command.env_remove("DUEBOX_MANIFEST").env_remove("DUEBOX_REDIS_URL").output().unwrap()
}

/// The lines of a command with `--json`.
fn json(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}{failed}")))
        .collect()
}

/// Scripts for the handlers that run one; each ends with a failure. Other handlers fail by their payload.
fn scripts(family: &str, origin: &str) -> Vec<String> {
    let own = |scripts: &[&str]| scripts.iter().map(|script| (*script).to_owned()).collect();
    match family {
        "echo" => own(&[
            "times; random; meta; config region; nack not now",
            "random; payload; drop never",
            "times; panic out of order",
            "random; times; error it is broken",
            "syntax; headers; retry 500 later",
        ]),
        "relay" => own(&["push topic=log|payload=$; nack after a push", "panic in between"]),
        "reach" => {
            let send = format!("send GET {origin}/nothing/here");
            vec![
                "get a; set a 1; get a; add n 5; nack stored".to_owned(),
                format!("{send}; body; nack answered"),
                format!("add n 1; {send}; unchanged a 2; delete a; drop the end"),
                "send GET http://127.0.0.1:1/; nack unreachable".to_owned(),
            ]
        }
        "std" => vec![
            format!("timeout 5s; get {origin}/orders/7; end with an unknown step"),
            format!("post {origin}/nothing text; get http://127.0.0.1:1/; end"),
            "read /etc/hostname; list /; write /tmp/a b; end".to_owned(),
        ],
        _ => vec![String::new()],
    }
}

/// A handler that is tried: its topic, its file, and the kind of its jobs.
struct Tried {
    topic: String,
    file: String,
    family: &'static str,
}

/// The handlers of `handlers/`, with the kind of their jobs.
const HANDLERS: [(&str, &str); 28] = [
    ("echo-rust", "echo"),
    ("echo-go", "echo"),
    ("echo-as", "echo"),
    ("echo-c", "echo"),
    ("echo-js", "echo"),
    ("echo-py", "echo"),
    ("relay-rust", "relay"),
    ("relay-go", "relay"),
    ("relay-as", "relay"),
    ("relay-c", "relay"),
    ("relay-js", "relay"),
    ("relay-py", "relay"),
    ("reach-rust", "reach"),
    ("reach-go", "reach"),
    ("reach-as", "reach"),
    ("reach-c", "reach"),
    ("reach-js", "reach"),
    ("reach-py", "reach"),
    ("order-close", "order"),
    ("shop-activation", "shop"),
    ("payment-poll", "payment"),
    ("webhook", "order"),
    ("witness", "witness"),
    ("std-go", "std"),
    ("json-js", "id"),
    ("json-py", "id"),
    ("post-js", "order"),
    ("post-py", "order"),
];

/// These ack without looking at the job, so no job of theirs can die.
const NEVER_FAIL: [&str; 5] = ["noop-rust", "noop-go", "noop-as", "noop-js", "noop-py"];

/// The handlers of `examples/` that are bound as they are there, with the kind of their jobs.
const EXAMPLES: [(&str, &str); 7] = [
    ("python/handlers/order_close.py", "order"),
    ("python/handlers/payment_poll.py", "payment"),
    ("typescript/handlers/order-close.ts", "order"),
    ("typescript/handlers/payment-poll.ts", "payment"),
    ("flows/place.wat", "place"),
    ("flows/note.wat", "note"),
    ("cluster/note.wat", "note"),
];

/// Failures of each handler: 1,050 in all.
const EACH: usize = 30;

/// A folder of the repository.
fn repository(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).canonicalize().unwrap()
}

/// The file of a handler: its source if it is served as source, or else its module.
fn file_of(handler: &str) -> String {
    let source = match handler.rsplit('-').next() {
        Some("js") => "index.ts",
        Some("py") => "main.py",
        _ => return built(handler),
    };
    repository("handlers").join(handler).join(source).display().to_string()
}

fn all() -> Vec<Tried> {
    let handlers = HANDLERS.map(|(name, family)| Tried {
        topic: name.to_owned(),
        file: file_of(name),
        family,
    });
    let examples = EXAMPLES.map(|(path, family)| Tried {
        topic: path.replace(['/', '_'], "-"),
        file: repository("examples").join(path).display().to_string(),
        family,
    });
    handlers.into_iter().chain(examples).collect()
}

/// A job that fails; with another number another job.
fn payload(family: &str, number: usize) -> String {
    match family {
        "shop" => format!(
            r#"{{"shop":{{"id":"s-{number}","name":"Bramble","locale":"de","status":"open","goods":0,"opened_at":"2026-01-14T09:00:00Z","owner":{{"name":"Ada","email":"ada@bramble.example"}}}}}}"#
        ),
        "payment" => format!(r#"{{"payment":{{"id":"none-{number}"}}}}"#),
        "id" => format!(r#"{{"id":{}}}"#, 1_000 + number),
        // It does not fit into the one page of this handler's memory.
        "note" => format!("{number}{}", "x".repeat(70_000)),
        _ => format!(r#"{{"order":{}}}"#, 1_000 + number),
    }
}

/// The topics of all handlers, with what they may use.
fn topics(all: &[Tried], origin: &str) -> Vec<String> {
    let topic_of = |tried: &Tried| {
        let (shop, url) = match tried.family {
            // This one sends a message to any shop that exists.
            "shop" => (format!("{origin}/nothing"), format!("{origin}/nothing")),
            // This one does what the answer says, which has to be a text.
            "witness" => (origin.to_owned(), format!("{origin}/orders/7/close")),
            _ => (origin.to_owned(), format!("{origin}/nothing")),
        };
        // This one traps if its follow-ups are refused.
        let recorded = match tried.family {
            "place" => RECORDED.replace("[\"*\"]", "[\"other\"]"),
            _ => RECORDED.to_owned(),
        };
        let grants = format!(
            "sandbox.http = [\"{origin}\", \"http://127.0.0.1:1\"]\nsandbox.http_private = [\"127.0.0.1\"]\n\
             sandbox.config = {{ shop = \"{shop}\", url = \"{url}\", region = \"eu\" }}\n"
        );
        topic(&tried.topic, &tried.file, &format!("{recorded}{grants}"))
    };
    all.iter().map(topic_of).collect()
}

/// Pushes jobs that fail, each with a payload of its own.
fn push_failures(fixture: &Fixture, all: &[Tried], origin: &str) {
    for Tried { topic, family, .. } in all {
        let scripts = scripts(family, origin);
        for (number, script) in scripts.iter().enumerate() {
            let jobs = (EACH - number).div_ceil(scripts.len());
            let line = |job| payload(family, number * EACH + job) + "\n";
            let file = fixture.write("jobs.ndjson", (0..jobs).map(line).collect::<String>());
            let (file, header) = (format!("@{}", file.display()), format!("script={script}"));
            let id = format!("s{number}");
            fixture.duebox(&["push", topic, &file, "--lines", "--id", &id, "--header", &header]);
        }
    }
}

fn is_recorded(fixture: &Fixture, topic: &str, count: usize) {
    let store = fixture.store();
    eventually(topic, || {
        let recorded: usize = store.ask(cmd("HLEN").arg(key(topic, "recordings")));
        recorded == count
    });
}

/// What a replay logged, as a daemon writes it.
fn log_of(report: &Value) -> Vec<String> {
    let lines = report["log"].as_array().unwrap().iter();
    lines.map(|line| line.as_str().unwrap().split_once(": ").unwrap().1.to_owned()).collect()
}

/// Every handler of the repository is tried, or is listed with the reason why it is not.
#[test]
fn no_handler_of_the_repository_is_left_out() {
    let known: BTreeSet<&str> = HANDLERS.iter().map(|(name, _)| *name).chain(NEVER_FAIL).collect();
    let sources = ["Cargo.toml", "go.mod", "asconfig.json", "handler.c", "index.ts", "main.py"];
    for entry in fs::read_dir(repository("handlers")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let is_handler = sources.iter().any(|source| entry.path().join(source).is_file());
        assert!(!is_handler || known.contains(&*name), "{name} is not replayed");
    }
    for entry in fs::read_dir(repository("examples")).unwrap() {
        let folder = entry.unwrap().file_name().into_string().unwrap();
        let manifest = repository("examples").join(&folder).join("duebox.toml");
        let text = fs::read_to_string(manifest).unwrap_or_default();
        for line in text.lines() {
            let Some(rest) = line.trim().strip_prefix("handler = \"") else { continue };
            let file = rest.split('"').next().unwrap();
            let path = format!("{folder}/{file}");
            let is_tried = EXAMPLES.iter().any(|(known, _)| *known == path);
            assert!(is_tried || file.ends_with(".wasm"), "{path} is not replayed");
        }
    }
}

#[test]
fn a_thousand_failures_of_all_handlers_replay_to_identical_ends() {
    let fixture = Fixture::new();
    let shop = OpenShop::open();
    let (origin, all) = (shop.shop.origin(), all());
    fixture.manifest("", &topics(&all, &origin));
    // Compiles the engines of all languages into the cache, for which a start is not given enough time.
    fixture.duebox(&["check"]);
    let mut daemon = fixture.start();
    push_failures(&fixture, &all, &origin);
    for tried in &all {
        is_recorded(&fixture, &tried.topic, EACH);
    }
    let mut logged: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for line in handler_lines(&daemon) {
        logged.entry((line.topic, line.id)).or_default().push(line.text);
    }
    // Nothing that a replay could ask is there any more.
    drop(shop);
    assert!(daemon.terminate().success());
    let (mut replayed, mut kinds, mut lines) = (BTreeSet::new(), BTreeSet::new(), 0);
    for Tried { topic, .. } in &all {
        let began = Instant::now();
        let output = duebox(&fixture, &["replay", topic, "--last", "1000", "--json"]);
        let printed = json(&output);
        let (summary, reports) = printed.split_last().unwrap();
        for report in reports {
            assert_eq!(report["same"], true, "{topic}: {report:#}");
            assert!(report["recorded"]["fuel"].as_u64() > Some(0), "{topic}: {report:#}");
            assert_eq!(report["recorded"], report["now"]);
            kinds.insert((topic.clone(), report["recorded"].to_string()));
            let job = (topic.clone(), report["id"].as_str().unwrap().to_owned());
            let log = log_of(report);
            assert_eq!(log, logged.remove(&job).unwrap_or_default(), "{topic}: {report:#}");
            lines += log.len();
            assert!(replayed.insert(job), "{topic}: {report:#}");
        }
        assert_eq!(summary["same"], EACH, "{topic}: {summary}");
        assert!(output.status.success());
        println!("{topic}: {EACH} in {:.2} s", began.elapsed().as_secs_f64());
    }
    assert_eq!(replayed.len(), 1_050);
    println!(
        "{} failures of {} handlers with {} different ends and {lines} lines",
        replayed.len(),
        all.len(),
        kinds.len()
    );
}

/// Programs that keep in their snapshot what they drew while it was taken, and read it in each job.
const DREW_PY: &str = r#"import random
import uuid
from duebox import log, nack, random as draw

NAMES = {f"name {number}" for number in range(40)}
ID, TOKEN, LUCK = uuid.uuid4(), draw(8), random.random()


def handle(job):
    log.info(f"{ID} {TOKEN.hex()} {LUCK} {random.random()}")
    return nack(f"{ID} {len(NAMES)}")
"#;
const DREW_JS: &str = r#"import { log, nack } from "duebox";
const id = crypto.randomUUID(), luck = Math.random();
export default function handle() {
  log.info(`${id} ${luck} ${Math.random()}`);
  return nack(id);
}
"#;
const DREW_WAT: &str = r#"(module
  (import "duebox_v1" "random" (func $random (param i32 i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)
  (global $letter (mut i32) (i32.const 0))
  ;; A reason of 1 to 256 letters, and as many rounds of a loop.
  (func (export "_initialize")
    (call $random (i32.const 0) (i32.const 4))
    (global.set $letter (i32.load8_u (i32.const 0)))
    (memory.fill (i32.const 0) (i32.add (i32.const 97) (i32.rem_u (i32.load8_u (i32.const 1)) (i32.const 26)))
      (i32.const 256)))
  (func (export "handle") (param i32) (result i32)
    (local $round i32)
    (loop $again
      (local.set $round (i32.add (local.get $round) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $round) (global.get $letter))))
    (call $reason (i32.const 0) (i32.add (global.get $letter) (i32.const 1)))
    (i32.const 1)))"#;

/// Records three failures of each topic in each of two daemons, and replays them in processes that have taken
/// neither snapshot. `reasons` is the number of different reasons, `logs` that of different logs.
fn replay_what_was_drawn(
    fixture: &Fixture,
    topics: &[String],
    names: &[(&str, usize, usize)],
    caches: [&str; 2],
) {
    fixture.manifest(caches[0], topics);
    fixture.duebox(&["check"]);
    for life in 1..=2 {
        let mut daemon = fixture.start();
        for (name, ..) in names {
            for job in 0..3 {
                let (id, header) = (format!("{life}-{job}"), "script=random; nack no");
                fixture.duebox(&["push", name, "{}", "--id", &id, "--header", header]);
            }
            is_recorded(fixture, name, life * 3);
        }
        assert!(daemon.terminate().success());
        let _ = fs::remove_dir_all(fixture.path("cache"));
    }
    for cache in caches {
        fixture.manifest(cache, topics);
        for (name, reasons, logs) in names {
            let output = duebox(fixture, &["replay", name, "--last", "10", "--json"]);
            let lines = json(&output);
            let (summary, reports) = lines.split_last().unwrap();
            assert_eq!(summary["same"], 6, "{name}: {lines:#?}");
            let different = |text: fn(&Value) -> String| {
                reports.iter().map(text).collect::<BTreeSet<String>>().len()
            };
            assert_eq!(
                different(|it| it["recorded"]["reason"].to_string()),
                *reasons,
                "{name}: {lines:#?}"
            );
            assert_eq!(different(|it| it["log"].to_string()), *logs, "{name}: {lines:#?}");
        }
    }
}

const DRAWING: &str = "sandbox.fuel = 100_000_000_000\nrecord = \"failures\"\nmax_attempts = 1\n\
    breaker = { failures = 0 }\n";

/// Each life draws for itself, all jobs of a life start from what it drew, and each job also draws for itself.
#[test]
fn what_a_program_drew_is_replayed_in_another_process() {
    let fixture = Fixture::new();
    fixture.write("drew.py", DREW_PY);
    fixture.write("drew.js", DREW_JS);
    let topics = [topic("py", "drew.py", DRAWING), topic("js", "drew.js", DRAWING)];
    replay_what_was_drawn(&fixture, &topics, &[("py", 2, 6), ("js", 2, 6)], ["", ""]);
    // A version that kept no seed has recorded this.
    let (store, recordings) = (fixture.store(), key("js", "recordings"));
    let text: String = store.ask(cmd("HGET").arg(&recordings).arg("2-0"));
    let mut old: Value = serde_json::from_str(&text).unwrap();
    assert!(old.as_object_mut().unwrap().remove("snapshot_seed").is_some(), "{text}");
    let _: usize = store.ask(cmd("HSET").arg(&recordings).arg("2-0").arg(old.to_string()));
    let report = json(&duebox(&fixture, &["replay", "js", "2-0", "--json"])).remove(0);
    assert_eq!((&report["lacks_seed"], &report["same"]), (&true.into(), &false.into()));
    let shown = String::from_utf8(duebox(&fixture, &["replay", "js", "2-0"]).stdout).unwrap();
    assert!(shown.contains("an older duebox recorded it"), "{shown}");
}

#[test]
fn what_a_snapshot_drew_is_replayed_with_another_cache() {
    let fixture = Fixture::new();
    fixture.write("drew.wat", DREW_WAT);
    let snapshot = format!("{DRAWING}snapshot = true\n");
    let topics = [topic("wat", "drew.wat", &snapshot), topic("go", &built("echo-go"), &snapshot)];
    let caches = ["cache = \"cache\"", "cache = \"another\""];
    replay_what_was_drawn(&fixture, &topics, &[("wat", 2, 1), ("go", 1, 1)], caches);
}

/// Reads a value of its store, the clock and a secret; nacks unless the value is `open`.
const CHECKS: &str = r#"(module
  (import "duebox_v1" "kv_get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "meta_int" (func $meta (param i32) (result i64)))
  (import "duebox_v1" "config_read" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_set" (func $set (param i32 i32 i32 i32 i64 i32) (result i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "NAMED")
  (data (i32.const 16) "token")
  (func (export "handle") (param i32) (result i32)
    (local $token i32)
    (drop (call $meta (i32.const 8)))
    (local.set $token (call $config (i32.const 16) (i32.const 5) (i32.const 64) (i32.const 64)))
    ;; The secret leaves the handler in a value and in the reason.
    (drop (call $set (i32.const 16) (i32.const 5) (i32.const 64) (local.get $token) (i64.const 0) (i32.const 0)))
    (call $reason (i32.const 64) (local.get $token))
    (drop (call $get (i32.const 0) (i32.const 5) (i32.const 256) (i32.const 8)))
    (i32.const VERDICT)))"#;

fn checks(name: &str, verdict: &str) -> String {
    CHECKS.replace("NAMED", name).replace("VERDICT", verdict)
}

#[test]
fn another_module_departs_or_passes_and_the_job_is_requeued() {
    let fixture = Fixture::new();
    let keys = format!("{RECORDED}sandbox.secrets = {{ token = {{ file = \"token\" }} }}\n");
    fixture.write("token", "hidden-word-7");
    fixture.write("checks.wat", checks("state", "1"));
    fixture.manifest("", &[topic("work", "checks.wat", &keys)]);
    let daemon = fixture.start();
    push(&fixture, "work", "a", 0);
    let store = fixture.store();
    let recording =
        || -> Option<String> { store.ask(cmd("HGET").arg(key("work", "recordings")).arg("a")) };
    eventually("the recording", || recording().is_some());
    let text = recording().unwrap();
    assert!(!text.contains("hidden-word") && text.contains("__secret_token__"), "{text}");

    let same = duebox(&fixture, &["replay", "work", "a"]);
    let shown = String::from_utf8_lossy(&same.stdout);
    assert!(same.status.success(), "{shown}");
    assert!(shown.contains("the recorded end, with the same figures\n"), "{shown}");

    fixture.write("other.wat", checks("owner", "1"));
    let output = duebox(&fixture, &["replay", "work", "a", "--wasm", "other.wat", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report = &json(&output)[0];
    assert_eq!(report["departures"][0]["request"], 2, "{report:#}");
    assert_eq!(report["departures"][0]["recorded"], "kv_get state");
    assert_eq!(report["departures"][0]["now"], "kv_get owner");

    fixture.write("good.wat", checks("state", "0"));
    let words = ["replay", "work", "--last", "10", "--wasm", "good.wat", "--requeue", "--json"];
    let output = duebox(&fixture, &words);
    let lines = json(&output);
    assert!(output.status.success(), "{lines:#?}");
    assert_eq!((&lines[1]["acked"], &lines[1]["requeued"]), (&1.into(), &1.into()));
    // It runs again, on the module that still fails, and has a recording of this death.
    let is_verdict =
        |line: &duebox_harness::LogLine| line.has("job_id", "a") && line.has("settled", "dead");
    eventually("it is dead again", || daemon.count(is_verdict) == 2);
    eventually("its recording", || duebox(&fixture, &["replay", "work", "a"]).status.success());
}

#[test]
fn attempts_that_ran_out_of_time_replay_in_no_time() {
    let fixture = Fixture::new();
    fixture.write("spins.py", "def handle(job):\n    while True:\n        pass\n");
    fixture.write("spins.js", "export default function handle() { for (;;) {} }\n");
    let spins = r#"(module (memory (export "memory") 1)
      (func (export "handle") (param i32) (result i32) (loop $again (br $again)) (i32.const 0)))"#;
    fixture.write("spins.wat", spins);
    let keys = format!("{RECORDED}ttr = \"300ms\"\n");
    let names = ["wat", "js", "py"];
    let topics = names.map(|name| topic(name, &format!("spins.{name}"), &keys));
    fixture.manifest("", &topics);
    fixture.duebox(&["check"]);
    let _daemon = fixture.start();
    for name in names {
        push(&fixture, name, "a", 0);
        is_recorded(&fixture, name, 1);
        let output = duebox(&fixture, &["replay", name, "a", "--json"]);
        let report = &json(&output)[0];
        assert_eq!(report["same"], true, "{report:#}");
        assert_eq!(report["now"]["verdict"], "timeout");
    }
}

#[test]
fn without_record_nothing_is_kept() {
    let fixture = Fixture::new();
    fixture.write("checks.wat", checks("state", "2"));
    let keys = "max_attempts = 1\nsandbox.kv = true\nsandbox.config.token = \"x\"\n";
    fixture.manifest("", &[topic("work", "checks.wat", keys)]);
    let _daemon = fixture.start();
    push(&fixture, "work", "a", 0);
    let store = fixture.store();
    eventually("it is dead", || store.stage("work", "dead").contains("a"));
    let output = duebox(&fixture, &["replay", "work", "a"]);
    assert_eq!(output.status.code(), Some(1));
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(
        failed.contains("has no recording") && failed.contains("record = \"failures\""),
        "{failed}"
    );
    assert!(!store.keys("work").iter().any(|name| name.starts_with("recordings")));
}
