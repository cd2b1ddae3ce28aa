//! Record and replay: what the last attempt of a dead job read is kept, and gives the same end again.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use duebox_harness::{duebox_binary, eventually};
use redis::cmd;
use serde_json::Value;

use crate::support::fixture::{Fixture, built, topic};
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

/// Scripts for the handlers of the conformance tests; each ends with a failure.
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
        _ => vec![String::new()],
    }
}

/// The handlers of the repository, with their families. Not those of benchmarks (noop, json), of the campaign of faults
/// (witness) and of the standard library (std).
/// Nor Python: another evaluation of its program has another hash seed, so the fuel differs.
const HANDLERS: [(&str, &str); 19] = [
    ("echo-rust", "echo"),
    ("echo-go", "echo"),
    ("echo-as", "echo"),
    ("echo-c", "echo"),
    ("echo-js", "echo"),
    ("relay-rust", "relay"),
    ("relay-go", "relay"),
    ("relay-as", "relay"),
    ("relay-c", "relay"),
    ("relay-js", "relay"),
    ("reach-rust", "reach"),
    ("reach-go", "reach"),
    ("reach-as", "reach"),
    ("reach-c", "reach"),
    ("reach-js", "reach"),
    ("order-close", "shop"),
    ("shop-activation", "shop"),
    ("payment-poll", "shop"),
    ("webhook", "webhook"),
];

/// The file of a handler: its source if it is served as source, or else its module.
fn file_of(handler: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../handlers").join(handler);
    let source = match handler.rsplit('-').next() {
        Some("js") => "index.ts",
        Some("py") => "main.py",
        _ => return built(handler),
    };
    folder.join(source).canonicalize().unwrap().display().to_string()
}

/// A job that the shop does not know; with another number another job.
fn payload(handler: &str, number: usize) -> String {
    match handler {
        "shop-activation" => format!(
            r#"{{"shop":{{"id":"s-{number}","name":"Bramble","locale":"de","status":"open","goods":0,"opened_at":"2026-01-14T09:00:00Z","owner":{{"name":"Ada","email":"ada@bramble.example"}}}}}}"#
        ),
        "payment-poll" => format!(r#"{{"payment":{{"id":"none-{number}"}}}}"#),
        "json-js" | "json-py" => format!(r#"{{"id":{}}}"#, 1_000 + number),
        _ => format!(r#"{{"order":{}}}"#, 1_000 + number),
    }
}

/// Failures of each handler: 1,026 in all.
const EACH: usize = 54;

/// The topics of all handlers, with what they may use.
fn topics(origin: &str) -> [String; HANDLERS.len()] {
    let grants = format!(
        "sandbox.http = [\"{origin}\", \"http://127.0.0.1:1\"]\nsandbox.http_private = [\"127.0.0.1\"]\n\
         sandbox.config = {{ shop = \"SHOP\", url = \"{origin}/nothing\", region = \"eu\" }}\n"
    );
    HANDLERS.map(|(name, _)| {
        // This one sends a message to any shop that exists.
        let found = if name == "shop-activation" { "/nothing" } else { "" };
        let grants = grants.replace("SHOP", &format!("{origin}{found}"));
        topic(name, &file_of(name), &format!("{RECORDED}{grants}"))
    })
}

/// Pushes jobs that fail, each with a payload of its own.
fn push_failures(fixture: &Fixture, origin: &str) {
    for (name, family) in HANDLERS {
        let scripts = scripts(family, origin);
        for (number, script) in scripts.iter().enumerate() {
            let jobs = (EACH - number).div_ceil(scripts.len());
            let line = |job| payload(name, number * EACH + job) + "\n";
            let file = fixture.write("jobs.ndjson", (0..jobs).map(line).collect::<String>());
            let (file, header) = (format!("@{}", file.display()), format!("script={script}"));
            let id = format!("s{number}");
            fixture.duebox(&["push", name, &file, "--lines", "--id", &id, "--header", &header]);
        }
    }
}

#[test]
fn a_thousand_failures_of_all_handlers_replay_to_identical_ends() {
    let fixture = Fixture::new();
    let shop = OpenShop::open();
    let origin = shop.shop.origin();
    fixture.manifest("", &topics(&origin));
    // Compiles the engines of all languages into the cache, for which a start is not given enough time.
    fixture.duebox(&["check"]);
    let _daemon = fixture.start();
    push_failures(&fixture, &origin);
    let store = fixture.store();
    for (name, _) in HANDLERS {
        eventually(name, || {
            let recorded: usize = store.ask(cmd("HLEN").arg(key(name, "recordings")));
            recorded == EACH
        });
    }
    // Nothing that a replay could ask is there any more.
    drop(shop);
    let (mut replayed, mut kinds) = (BTreeSet::new(), BTreeSet::new());
    for (name, _) in HANDLERS {
        let output = duebox(&fixture, &["replay", name, "--last", "1000", "--json"]);
        let lines = json(&output);
        let (summary, reports) = lines.split_last().unwrap();
        for report in reports {
            assert_eq!(report["same"], true, "{name}: {report:#}");
            assert!(report["recorded"]["fuel"].as_u64() > Some(0), "{name}: {report:#}");
            assert_eq!(report["recorded"], report["now"]);
            kinds.insert((name, report["recorded"].to_string()));
            let id = report["id"].as_str().unwrap();
            assert!(replayed.insert((name, id.to_owned())), "{name}: {report:#}");
        }
        assert_eq!(summary["same"], EACH, "{name}: {summary}");
        assert!(output.status.success());
    }
    assert_eq!(replayed.len(), 1_026);
    println!("{} failures with {} different ends", replayed.len(), kinds.len());
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
    let spins = r#"(module (memory (export "memory") 1)
      (func (export "handle") (param i32) (result i32) (loop $again (br $again)) (i32.const 0)))"#;
    fixture.write("spins.wat", spins);
    fixture.manifest("", &[topic("spins", "spins.wat", &format!("{RECORDED}ttr = \"300ms\"\n"))]);
    let _daemon = fixture.start();
    push(&fixture, "spins", "a", 0);
    eventually("the recording", || {
        fixture.store().ask::<usize>(cmd("HLEN").arg(key("spins", "recordings"))) == 1
    });
    let output = duebox(&fixture, &["replay", "spins", "a", "--json"]);
    let report = &json(&output)[0];
    assert_eq!(report["same"], true, "{report:#}");
    assert_eq!(report["now"]["verdict"], "timeout");
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
