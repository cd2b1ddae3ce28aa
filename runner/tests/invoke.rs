//! `duebox invoke` with results beyond a verdict: snoozes, results, follow-ups, and the trace of a
//! trap.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Stores its payload as the result, and pushes it to `sms.eu` in half an hour and to `log` at
/// once.
const TELLS: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "topic: sms.eu\nid: welcome/7\ndelay-ms: 1800000\nh.lang: de\n")
  (data (i32.const 128) "topic: log\n")
  (func (export "handle") (param $len i32) (result i32)
    (drop (call $read (i32.const 1024) (i32.const 0) (local.get $len)))
    (drop (call $result (i32.const 1024) (local.get $len)))
    (i32.mul (i32.const -100) (i32.add
      (call $push (i32.const 0) (i32.const 57) (i32.const 1024) (local.get $len))
      (call $push (i32.const 128) (i32.const 11) (i32.const 0) (i32.const 0))))))"#;

/// Snoozes for the time in its only header, one digit of seconds.
const SNOOZES: &str = r#"(module
  (import "duebox_v1" "meta_read" (func $meta (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "snooze" (func $snooze (param i64)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (drop (call $meta (i32.const 7) (i32.const 0) (i32.const 64)))
    (call $snooze (i64.mul (i64.const 1000)
      (i64.sub (i64.load8_u (i32.const 6)) (i64.const 48))))
    (i32.const 1)))"#;

/// Traps two calls deep.
const TRAPS: &str = r#"(module
  (func $inner (unreachable))
  (func $outer (export "handle") (param i32) (result i32) (call $inner) (i32.const 0)))"#;

struct InvokeOutput {
    code: Option<i32>,
    out: String,
    err: String,
}

impl InvokeOutput {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

fn invoke(folder: &Path, arguments: &[&str]) -> InvokeOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox"));
    let output = command.current_dir(folder).arg("invoke").args(arguments).output().unwrap();
    InvokeOutput {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn folder(name: &str, module: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), module).unwrap();
    folder
}

#[test]
fn a_result_and_follow_ups_are_shown_and_not_pushed() {
    let folder = folder("tells.wat", TELLS);
    let allowed = ["tells.wat", "--payload", "{\"user\":7}", "--allow-push", "sms.*"];
    let both = [&allowed[..], &["--allow-push", "log"]].concat();
    let shown = invoke(folder.path(), &both);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    for lines in [
        "result   {\"user\":7}\n",
        "push     sms.eu welcome/7 in 30m\n         options {\"headers\":{\"lang\":\"de\"}}\n         \
         payload {\"user\":7}\n",
        "push     log invoke.2 at once\n",
    ] {
        assert!(shown.out.contains(lines), "{lines}: {}", shown.out);
    }
    let report = invoke(folder.path(), &[&both[..], &["--json"]].concat()).json();
    assert_eq!(report["result"], "{\"user\":7}");
    let expected = json!([
        {"topic": "sms.eu", "id": "welcome/7", "delay_ms": 1_800_000, "payload": "{\"user\":7}",
         "options": {"headers": {"lang": "de"}}},
        {"topic": "log", "id": "invoke.2", "delay_ms": 0, "payload": ""},
    ]);
    assert_eq!(report["follow_ups"], expected);

    // One of two pushes is denied with −2, from which the handler makes the verdict 200.
    let denied = invoke(folder.path(), &[&allowed[..], &["--json"]].concat()).json();
    assert_eq!((&denied["class"], &denied["follow_ups"]), (&"bad_verdict".into(), &Value::Null));
    let refused = invoke(folder.path(), &["tells.wat"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("duebox_v1.push is not granted"), "{}", refused.err);
}

#[test]
fn a_snooze_is_not_a_failure_and_headers_reach_the_handler() {
    let folder = folder("snoozes.wat", SNOOZES);
    let shown = invoke(folder.path(), &["snoozes.wat", "--header", "wait=7"]);
    assert_eq!(shown.code, Some(5), "{}", shown.err);
    assert!(shown.out.starts_with("verdict  snooze\nsnooze   in 7s\n"), "{}", shown.out);
    let report = invoke(folder.path(), &["snoozes.wat", "--header", "wait=7", "--json"]).json();
    assert_eq!((&report["verdict"], &report["snooze_ms"]), (&"snooze".into(), &7_000.into()));
    assert_eq!((&report["class"], &report["retry_after_ms"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_trap_is_shown_with_the_calls_that_led_to_it() {
    let folder = folder("traps.wat", TRAPS);
    let shown = invoke(folder.path(), &["traps.wat"]);
    assert!(shown.out.contains("\ntrace    wasm `unreachable` instruction executed\n"));
    assert!(shown.out.contains("\n           0: inner at 0x"), "{}", shown.out);
    assert!(shown.out.contains("\n           1: outer at 0x"), "{}", shown.out);
    let report = invoke(folder.path(), &["traps.wat", "--json"]).json();
    assert!(report["trace"].as_str().is_some_and(|trace| trace.contains("1: outer")));
}

/// Acks if its config value `key` has seven bytes, and logs it if there is a payload.
const READS: &str = r#"(module
  (import "duebox_v1" "config_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "key")
  (func (export "handle") (param $len i32) (result i32)
    (local $found i32)
    (local.set $found (call $read (i32.const 0) (i32.const 3) (i32.const 64) (i32.const 64)))
    (if (local.get $len) (then (call $log (i32.const 2) (i32.const 64) (local.get $found))))
    (i32.ne (local.get $found) (i32.const 7))))"#;

#[test]
fn a_secret_is_read_from_its_source_and_not_printed() {
    let folder = folder("reads.wat", READS);
    std::fs::write(folder.path().join("key"), "hunter2\n").unwrap();
    for arguments in [&["--json"][..], &[]] {
        let all = [&["reads.wat", "--secret", "key=file:key"], arguments].concat();
        let shown = invoke(folder.path(), &all);
        assert_eq!(shown.code, Some(0), "{}", shown.err);
        assert!(!(shown.out + &shown.err).contains("hunter2"), "{arguments:?}");
    }
    let output = ["reads.wat", "--secret", "key=file:key", "--payload", "say it", "--json"];
    let output = invoke(folder.path(), &output).json();
    assert_eq!(output["logs"], json!([{"level": "info", "text": "hunter2"}]));
    assert_eq!(invoke(folder.path(), &["reads.wat", "--config", "key=1234567"]).code, Some(0));
}

/// Adds to a number in the store, and sends a request to `http://127.0.0.1:PORT/`; its verdict is
/// the sum of the number and the status, less 201.
fn adds_and_requests(port: u16) -> String {
    let head = format!("GET http://127.0.0.1:{port}/\n");
    let length = head.len();
    let head = head.replace('\n', "\\n");
    format!(
        r#"(module
  (import "duebox_v1" "kv_add" (func $add (param i32 i32 i64 i32) (result i32)))
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{head}")
  (data (i32.const 128) "key")
  (func (export "handle") (param i32) (result i32)
    (drop (call $add (i32.const 128) (i32.const 3) (i64.const 1) (i32.const 256)))
    (i32.sub
      (i32.add (i32.load (i32.const 256))
        (call $send (i32.const 0) (i32.const {length}) (i32.const 0) (i32.const 0) (i32.const 0)))
      (i32.const 201))))"#
    )
}

#[test]
fn http_and_the_store_work_where_they_are_granted() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = folder("asks.wat", &adds_and_requests(port));
    let refused = invoke(folder.path(), &["asks.wat"]);
    assert_eq!(refused.code, Some(2));
    let hint = "hint: grant it with --allow-kv --allow-http ORIGIN, or";
    assert!(refused.err.contains(hint), "{}", refused.err);

    let origin = format!("http://127.0.0.1:{port}");
    let allowed = ["asks.wat", "--allow-kv", "--allow-http", &origin];
    // The request is denied with -2 and not sent.
    let denied = invoke(folder.path(), &[&allowed[..], &["--json"]].concat()).json();
    assert_eq!(denied["class"], "bad_verdict", "{denied}");
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = [0; 1024];
        let read = stream.read(&mut seen).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        String::from_utf8_lossy(&seen[..read]).into_owned()
    });
    let asked = invoke(folder.path(), &[&allowed[..], &["--allow-private", "127.0.0.1"]].concat());
    assert_eq!(asked.code, Some(0), "{}{}", asked.out, asked.err);
    assert!(answers.join().unwrap().to_lowercase().contains("idempotency-key: invoke/invoke"));
}

#[test]
fn invalid_grants_are_refused() {
    let folder = folder("reads.wat", READS);
    let refuse = |arguments: &[&str], word: &str| {
        let output = invoke(folder.path(), &[&["reads.wat"], arguments].concat());
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(
            output.err.contains(word) && output.err.contains("hint: "),
            "{word}: {}",
            output.err
        );
        assert!(!output.err.contains("hunter2"), "{}", output.err);
    };
    for place in ["key=hunter2", "hunter2", "=env:HOME", "key=env:", "key=vault:hunter2"] {
        refuse(&["--secret", place], "does not name the source of the secret");
    }
    refuse(&["--secret", "key=env:NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE is not set");
    refuse(&["--secret", "key=file:gone"], "gone: No such file");
    refuse(&["--secret", "key=env:PATH", "--config", "key=x"], "key is given twice");
    refuse(&["--allow-http", "ftp://a.example"], "is not a scheme");
    refuse(&["--allow-http", "http://a.example", "--allow-private", "10.1.1.1/8"], "10.0.0.0/8");
    refuse(&["--allow-private", "10.0.0.0/8"], "--allow-http");
    refuse(&["--dir", "data=."], "does not start with '/'");
    refuse(&["--dir", "/data=gone"], "cannot be read as a directory");
}

#[test]
fn invalid_headers_and_patterns_are_refused() {
    let folder = folder("traps.wat", TRAPS);
    for (arguments, word) in [
        (["--header", "Lang=de"], "not a header name"),
        (["--header", "lang=a\nb: c"], "control character"),
        (["--header", "lang"], "write NAME=VALUE"),
        (["--allow-push", "sms.*.eu"], "holds '*'"),
        (["--allow-push", "a b"], "holds ' '"),
        (["--allow-push", ""], "empty"),
    ] {
        let output = invoke(folder.path(), &[&["traps.wat"], &arguments[..]].concat());
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.err.contains(word), "{arguments:?}: {}", output.err);
        assert!(output.err.contains("hint: "), "{arguments:?}: {}", output.err);
    }
}

/// Acks if it sees a secret `key` of seven bytes, five attempts and the topic `paid.eu`, and its
/// topic grants 40 pages of memory and a follow-up to `sms.eu`. Otherwise the verdict says what is
/// missing, from 10.
const BOUND: &str = r#"(module
  (import "duebox_v1" "config_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "meta_read" (func $meta (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "meta_int" (func $int (param i32) (result i64)))
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "key") (data (i32.const 16) "topic: sms.eu\n")
  (func (export "handle") (param i32) (result i32)
    (if (i32.ne (call $read (i32.const 0) (i32.const 3) (i32.const 64) (i32.const 64)) (i32.const 7))
      (then (return (i32.const 10))))
    (if (i64.ne (call $int (i32.const 4)) (i64.const 5)) (then (return (i32.const 11))))
    (if (i32.ne (call $meta (i32.const 2) (i32.const 64) (i32.const 64)) (i32.const 7))
      (then (return (i32.const 12))))
    (if (i32.eq (memory.grow (i32.const 39)) (i32.const -1)) (then (return (i32.const 13))))
    (if (call $push (i32.const 16) (i32.const 14) (i32.const 0) (i32.const 0))
      (then (return (i32.const 14))))
    (i32.const 0)))"#;

const MANIFEST: &str = r#"
[topics.inbox]

[topics."paid.*"]
handler = "bound.wat"
max_attempts = 5
ttr = "300ms"

[topics."paid.*".sandbox]
memory = "4MiB"
push = ["sms.*"]
secrets = { key = { file = "key" } }
"#;

fn bound() -> tempfile::TempDir {
    let folder = folder("bound.wat", BOUND);
    let spins = r#"(module (func (export "handle") (param i32) (result i32)
        (loop $again (br $again)) (i32.const 0)))"#;
    for (name, text) in [("duebox.toml", MANIFEST), ("key", "hunter2"), ("spins.wat", spins)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_handler_runs_exactly_as_its_topic_is_bound() {
    let folder = bound();
    let as_bound = invoke(folder.path(), &["--topic", "paid.eu", "--json"]);
    assert_eq!(as_bound.code, Some(0), "{}{}", as_bound.out, as_bound.err);
    assert_eq!(as_bound.json()["follow_ups"][0]["topic"], "sms.eu");
    assert!(!as_bound.out.contains("hunter2"), "{}", as_bound.out);
    // A module in the place of the topic's handler, with another folder for the manifest.
    std::fs::rename(folder.path().join("bound.wat"), folder.path().join("new.wat")).unwrap();
    let manifest = folder.path().join("duebox.toml");
    let manifest = manifest.to_str().unwrap();
    let new = ["new.wat", "--topic", "paid.eu", "--manifest", manifest, "--json"];
    assert_eq!(invoke(folder.path(), &new).json()["verdict"], "ack");
    let spins = ["spins.wat", "--topic", "paid.eu", "--manifest", manifest, "--json"];
    assert_eq!(invoke(folder.path(), &spins).json()["class"], "timeout");
    // Without a manifest the topic is a name, and nothing is granted.
    let alone = invoke(folder.path(), &["new.wat", "--topic", "paid.eu"]);
    assert!(alone.err.contains("duebox_v1.push is not granted"), "{}", alone.err);
    assert!(alone.err.contains("--manifest FILE --topic TOPIC"), "{}", alone.err);
}

#[test]
fn flags_override_the_topic() {
    let folder = bound();
    let reason = |flags: &[&str]| {
        let output = invoke(folder.path(), &[&["--topic", "paid.eu", "--json"], flags].concat());
        output.json()["reason"].as_str().unwrap_or("acked").to_owned()
    };
    assert_eq!(reason(&["--allow-push", "log"]), "acked", "an added grant removes none");
    for (flags, lacks) in [
        (["--config", "key=short"], "10"),
        (["--max-attempts", "6"], "11"),
        (["--memory", "2MiB"], "13"),
    ] {
        let output = reason(&flags);
        assert!(output.contains(lacks), "{flags:?}: {output}");
    }
    let spins = ["spins.wat", "--manifest", "duebox.toml", "--topic", "paid.eu", "--fuel", "9000"];
    let spun = invoke(folder.path(), &[&spins[..], &["--json"]].concat()).json();
    assert_eq!((&spun["class"], &spun["fuel"]), (&"out_of_fuel".into(), &9_000.into()));
}

#[test]
fn a_topic_without_a_handler_is_refused() {
    let folder = bound();
    for (arguments, word) in [
        (&["--topic", "order"][..], "has no topic order"),
        (&["--topic", "inbox"], "has no handler: pull consumers run it"),
        (&["--topic", "paid.eu", "--manifest", "gone.toml"], "cannot read the manifest"),
        (&[], "required arguments"),
    ] {
        let output = invoke(folder.path(), arguments);
        assert_eq!((output.code, output.out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(output.err.contains(word) && output.err.contains("hint: "), "{}", output.err);
    }
}
