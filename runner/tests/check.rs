//! `duebox check` on patterns, topics for pull consumers, schedules, and grants of follow-up jobs.

#![expect(clippy::unwrap_used, reason = "a test that cannot start its binary has failed")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const ACK: &str = r#"(module (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) i32.const 0))"#;

const PUSHES: &str = r#"(module
  (import "duebox_v1" "push" (func (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) i32.const 0))"#;

const MANIFEST: &str = r#"
[topics.inbox]
max_pending = 10

[topics."sms.*"]
handler = "ack.wat"

[topics.pushes]
handler = "pushes.wat"
sandbox = { push = ["sms.*"] }

[[schedules]]
name = "nightly"
topic = "sms.eu"
cron = "0 3 * * *"
tz = "Asia/Shanghai"

[[schedules]]
name = "beat"
topic = "inbox"
every = "5m"
"#;

fn check(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox"));
    for name in ["MANIFEST", "REDIS_URL", "LOG", "LOG_FORMAT", "LISTEN"] {
        command.env_remove(format!("DUEBOX_{name}"));
    }
    command.arg("check").args(args).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn folder(manifest: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("ack.wat", ACK), ("pushes.wat", PUSHES), ("duebox.toml", manifest)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_valid_manifest_is_printed_in_full() {
    let folder = folder(MANIFEST);
    let output = check(folder.path(), &["--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    let topics = output["topics"].as_array().unwrap();
    let names: Vec<&str> = topics.iter().map(|topic| topic["topic"].as_str().unwrap()).collect();
    assert_eq!(names, ["inbox", "pushes", "sms.*"]);
    assert_eq!((&topics[0]["handler"], &topics[0]["digest"]), (&Value::Null, &Value::Null));
    assert_eq!(topics[2]["digest"].as_str().unwrap().len(), 64);
    assert_eq!(
        output["schedules"],
        json!([
            {"name": "nightly", "topic": "sms.eu", "when": "0 3 * * * (Asia/Shanghai)"},
            {"name": "beat", "topic": "inbox", "when": "every 5m"},
        ])
    );
    let text = String::from_utf8(check(folder.path(), &[]).stdout).unwrap();
    for words in ["(pull consumers)", "sms.*", "schedule", "every 5m"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn canaries_and_smoke_cases_are_checked_like_handlers() {
    let keys = "canary = { handler = \"canary.wat\", percent = 12.5 }\nsmoke = [{}]";
    let folder = folder(&format!("[topics.t]\nhandler = \"ack.wat\"\n{keys}\n"));
    let canary = folder.path().join("canary.wat");
    std::fs::write(&canary, format!("{ACK} ;; the next one")).unwrap();
    let output = check(folder.path(), &["--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    let line = &output["topics"][0]["canary"];
    assert_eq!((&line["handler"], &line["percent"]), (&json!("./canary.wat"), &json!(12.5)));
    assert_ne!(line["digest"], output["topics"][0]["digest"]);
    let text = String::from_utf8(check(folder.path(), &[]).stdout).unwrap();
    assert!(text.contains("canary, 12.5 %"), "{text}");

    std::fs::write(&canary, ACK.replace("i32.const 0", "i32.const 2")).unwrap();
    let output = check(folder.path(), &[]);
    let problems = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{problems}");
    for words in ["canary.wat", "smoke case 1 of 1", "ended with drop", "hint: correct the handler"]
    {
        assert!(problems.contains(words), "{words}: {problems}");
    }
}

#[test]
fn the_module_of_a_pattern_is_checked_and_a_push_that_is_not_granted_is_named() {
    let folder = folder(&MANIFEST.replace("sandbox = { push = [\"sms.*\"] }", ""));
    std::fs::remove_file(folder.path().join("ack.wat")).unwrap();
    let output = check(folder.path(), &[]);
    let problems = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{problems}");
    for words in ["topic sms.*", "ack.wat", "topic pushes", "push"] {
        assert!(problems.contains(words), "{words}: {problems}");
    }
    assert_eq!(problems.matches("hint: ").count(), 2, "{problems}");
}

/// A manifest with everything that causes a warning, on lines of its own.
const RISKY: &str = r#"
[redis]
url = "managed"
managed = { dir = "data/redis" }

[runner]
memory = "128MiB"

[defaults]
sandbox = { http_private = ["0.0.0.0/0"] }

[topics.wide]
handler = "ack.wat"
isolation = "warm"

[topics.wide.sandbox]
http = ["https://api.example", "*", "http://api.shop.example", "http://ledger.internal:8080"]
push = ["mail", "*"]
memory = "256MiB"
http_private = ["169.254.0.0/16", "127.0.0.0/8", "10.0.0.0/8"]
secrets = { key = { file = "keys/key" } }
dirs = { "/all" = "/", "/etc" = "/etc", "/data" = "data", "/keys" = "keys", "/mine" = "mine" }

[topics.plain]
handler = "ack.wat"

[topics.plain.sandbox]
http = ["http://127.0.0.1:8080", "http://api.shop.example"]
memory = "1MiB"
payload = "2MiB"
http_body = "512KiB"

[topics.own]
handler = "ack.wat"

[topics.own.sandbox]
http = ["http://127.0.0.1:8080", "http://localhost:8081"]
http_private = ["127.0.0.1"]
"#;

#[test]
fn risky_settings_are_warnings_with_their_line() {
    let folder = folder(RISKY);
    for dir in ["data/redis", "keys", "mine"] {
        std::fs::create_dir_all(folder.path().join(dir)).unwrap();
    }
    std::fs::write(folder.path().join("keys/key"), "hunter2").unwrap();
    let output = check(folder.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings = output["warnings"].as_array().unwrap();
    let line = |text: &str| RISKY.lines().position(|line| line.contains(text)).unwrap() + 1;
    let wanted = [
        ("sandbox = { http_private", "topic `plain`: `http_private` with 0.0.0.0/0"),
        ("isolation", "warm instance"),
        (
            "http = [\"https://api.example",
            "any host, so the handler may send everything it reads anywhere, including its secrets",
        ),
        ("http = [\"https://api.example", "requests to http://api.shop.example without TLS"),
        ("push", "covers every topic"),
        ("push", "grants mail, which no topic of this manifest binds"),
        ("memory = \"256", "runner.memory is 128.0 MiB"),
        ("\"169.254", "169.254.0.0/16 covers the metadata address"),
        ("\"169.254", "127.0.0.0/8 opens the services of this machine"),
        ("dirs", "read the system directory /"),
        ("dirs", "read the system directory /etc"),
        ("dirs", "which contains the data of Redis"),
        ("dirs", "which contains a secret"),
        ("payload = \"2MiB", "but `memory` is 1.0 MiB"),
    ];
    for (key, words) in wanted {
        let is_it = |output: &&Value| output["message"].as_str().unwrap().contains(words);
        let found = warnings.iter().find(is_it).unwrap_or_else(|| panic!("{words}: {warnings:#?}"));
        assert_eq!(found["line"], line(key), "{words}");
        assert!(found["hint"].as_str().is_some_and(|hint| hint.len() > 20), "{found}");
    }
    assert_eq!(warnings.len(), wanted.len(), "{warnings:#?}");

    let output = check(folder.path(), &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(0), false), "{text}");
    assert_eq!(text.matches("warning: ").count(), wanted.len(), "{text}");
    assert!(text.contains("./duebox.toml:") && !text.contains("hunter2"), "{text}");
    let strict = check(folder.path(), &["--strict"]);
    assert_eq!((strict.status.code(), strict.stdout.is_empty()), (Some(2), true));
    let strict = check(folder.path(), &["--strict", "--json"]);
    let strict: Value = serde_json::from_slice(&strict.stdout).unwrap();
    assert_eq!(strict["ok"], false);
}

/// Settings that can never work, on lines of their own.
const FUTILE: &str = r#"
[runner]
drain_timeout = "10s"

[topics.calls]
handler = "ack.wat"
ttr = "5m"

[topics.calls.sandbox]
http = ["http://10.0.0.7:8080", "http://ledger.internal", "https://api.shop.example"]
push = ["mial", "mail", "order.*"]

[topics.granted]
handler = "ack.wat"

[topics.granted.sandbox]
http = ["http://10.0.0.7:8080", "http://ledger.internal"]
http_private = ["10.0.0.0/8"]
push = ["sms.welcome", "sms*"]

[topics.mail]
ttr = "2m"

[topics."sms.*"]
ttr = "1m"
"#;

#[test]
fn what_can_never_work_is_a_warning() {
    let folder = folder(FUTILE);
    let output = check(folder.path(), &["--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings = output["warnings"].as_array().unwrap();
    let line = |text: &str| FUTILE.lines().position(|line| line.contains(text)).unwrap() + 1;
    let wanted = [
        ("http = [", "http://10.0.0.7:8080, which is a private address", "http_private"),
        ("http = [", "http://ledger.internal, which is a private address", "http_private"),
        ("push = [\"mial", "grants mial, which no topic", "did you mean \"mail\"?"),
        ("push = [\"mial", "grants order.*, which no topic", "remove it from `push`"),
        ("ttr = \"5m", "`ttr` is 5m, but a stop waits 10s", "drain_timeout = \"5m\""),
        ("ttr = \"2m", "a pull leases jobs for 1m", "lease=2m"),
    ];
    for (key, words, remedy) in wanted {
        let is_it = |output: &&Value| output["message"].as_str().unwrap().contains(words);
        let found = warnings.iter().find(is_it).unwrap_or_else(|| panic!("{words}: {warnings:#?}"));
        assert_eq!(found["line"], line(key), "{words}");
        assert!(found["hint"].as_str().unwrap().contains(remedy), "{found}");
    }
    assert_eq!(warnings.len(), wanted.len(), "{warnings:#?}");
}

/// A problem of the file hides neither the problems of modules nor warnings.
#[test]
fn all_problems_are_told_at_once() {
    let folder = folder(
        "[topics.flawed]\nhandler = \"ack.wat\"\nttr = \"soon\"\nsandbox = { push = [\"*\"] }\n\
         [topics.refused]\nhandler = \"none.wat\"\n\
         [topics.risky]\nhandler = \"pushes.wat\"\nsandbox = { push = [\"*\"] }\n\
         [topics.lost]\nhandler = \"pushes.wat\"\nsandbox = { push = [\"flawed\"] }\n",
    );
    let output = check(folder.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let texts = |list: &str| -> Vec<String> {
        let all = report[list].as_array().unwrap().iter();
        all.map(|one| one["message"].as_str().unwrap().to_owned()).collect()
    };
    let problems = texts("problems");
    assert_eq!(problems.len(), 2, "{report}");
    assert!(problems[0].contains("`ttr`") && problems[1].contains("none.wat"), "{report}");
    // The topic `flawed` exists: a push to it is no mistake.
    let warnings = texts("warnings");
    assert_eq!(warnings.len(), 2, "{report}");
    for (warning, topic) in warnings.iter().zip(["flawed", "risky"]) {
        assert!(warning.contains(topic) && warning.contains("every topic"), "{report}");
    }
    let text = String::from_utf8(check(folder.path(), &[]).stderr).unwrap();
    for words in ["soon", "none.wat", "every topic"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // After a syntax error the values are guesses, and nothing else is said of them.
    std::fs::write(
        folder.path().join("duebox.toml"),
        "[topics.a]\nhandler = \"none.wat\"\nttr = = 1\n",
    )
    .unwrap();
    let output = check(folder.path(), &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!report.to_string().contains("none.wat"), "{report}");
}

#[test]
fn harmless_settings_have_no_warning() {
    let folder = folder(MANIFEST);
    let output = check(folder.path(), &["--strict"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
