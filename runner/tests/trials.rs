//! `duebox invoke` as a trial: many payloads, recorded HTTP, a fixed clock, given contents of the store, and
//! the same figures in every run.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use duebox_harness::output_with;
use serde_json::{Value, json};

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    fn json(&self) -> Vec<Value> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self}"));
        self.out.lines().map(read).collect()
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.out, self.err)
    }
}

fn invoke(folder: &Path, arguments: &[&str], input: &str) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox"));
    command.current_dir(folder).arg("invoke").args(arguments);
    let output = output_with(&mut command, input.as_bytes()).unwrap();
    Ended {
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

/// Returns the number of its payload, one digit, as the verdict, and counts its runs in the store.
const DIGIT: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_add" (func $add (param i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "runs")
  (func (export "handle") (param $len i32) (result i32)
    (drop (call $read (i32.const 0) (i32.const 0) (local.get $len)))
    (drop (call $add (i32.const 16) (i32.const 4) (i64.const 1) (i32.const 32)))
    (i32.sub (i32.load8_u (i32.const 0)) (i32.const 48))))"#;

#[test]
fn each_line_is_a_job_and_the_exit_code_is_that_of_the_verdict() {
    let folder = folder("digit.wat", DIGIT);
    std::fs::write(folder.path().join("kv.json"), r#"{"runs": 40, "other": "x"}"#).unwrap();
    let lines = ["digit.wat", "--lines", "--kv", "kv.json"];
    let ended = invoke(folder.path(), &[&lines[..], &["--json"]].concat(), "0\n1\n2\n0");
    let reports = ended.json();
    assert_eq!(ended.code, Some(1));
    let verdicts: Vec<&Value> = reports[..4].iter().map(|report| &report["verdict"]).collect();
    assert_eq!(verdicts, ["ack", "nack", "drop", "ack"], "{ended}");
    let ends = json!({"ack": 2, "drop": 1, "nack": 1});
    assert_eq!((&reports[4]["lines"], &reports[4]["ends"]), (&4.into(), &ends));
    assert_eq!(reports[4]["kv"], json!({"other": "x", "runs": "44"}));

    let text = invoke(folder.path(), &lines, "0\n0\n");
    assert_eq!(text.code, Some(0), "{text}");
    assert!(text.out.starts_with("   1  ack, "), "{text}");
    assert!(text.out.contains("\n2 jobs: 2 ack in ") && text.out.contains("runs = 42"), "{text}");

    for (payload, code) in [("0", 0), ("1", 3), ("2", 4), ("9", 1)] {
        let ended = invoke(folder.path(), &["digit.wat", "--allow-kv", "--payload", payload], "");
        assert_eq!(ended.code, Some(code), "{ended}");
        assert!(ended.out.lines().last().unwrap().starts_with("summary  "), "{ended}");
    }
    std::fs::write(folder.path().join("kv.json"), "[1]").unwrap();
    let refused = invoke(folder.path(), &lines, "0\n");
    assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""));
    assert!(refused.err.contains("write a JSON object"), "{refused}");
}

/// Logs the clock as hexadecimal digits do not: it returns the time of `meta 8` and 8 random bytes as its
/// result.
const READS: &str = r#"(module
  (import "duebox_v1" "meta_int" (func $meta (param i32) (result i64)))
  (import "duebox_v1" "random" (func $random (param i32 i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (i64.store (i32.const 0) (call $meta (i32.const 8)))
    (call $random (i32.const 8) (i32.const 8))
    (drop (call $result (i32.const 0) (i32.const 16)))
    (i32.const 0)))"#;

#[test]
fn deterministic_runs_have_the_same_figures() {
    let folder = folder("reads.wat", READS);
    let run = |flags: &[&str]| {
        let ended = invoke(folder.path(), &[&["reads.wat", "--json"], flags].concat(), "");
        assert_eq!(ended.code, Some(0), "{ended}");
        ended.json().remove(0)
    };
    let first = run(&["--deterministic"]);
    assert_eq!(first, run(&["--deterministic"]));
    assert!(first["fuel"].as_u64() > Some(0) && first["time_ms"].is_null(), "{first}");
    assert_ne!(run(&[])["result_base64"], run(&[])["result_base64"], "the random bytes differ");

    let at = run(&["--deterministic", "--now", "2026-11-23T12:00:00Z"]);
    assert_ne!(at["result_base64"], first["result_base64"]);
    assert_eq!(at["fuel"], first["fuel"]);
    let bad = invoke(folder.path(), &["reads.wat", "--now", "noon"], "");
    assert_eq!(bad.code, Some(2));
    assert!(bad.err.contains("2026-01-31T12:00:00Z"), "{bad}");
}

/// Its top level draws too, when it is evaluated.
const DRAWS: &str = r#"import { result } from "duebox";
const id = crypto.randomUUID(), luck = Math.random();
export default function handle() { result(`${id} ${luck} ${Math.random()}`); }
"#;

#[test]
fn deterministic_runs_of_a_source_evaluate_it_with_the_same_random_bytes() {
    let folder = folder("draws.js", DRAWS);
    let run = |flags: &[&str]| {
        let ended = invoke(folder.path(), &[&["draws.js", "--json"], flags].concat(), "");
        assert_eq!(ended.code, Some(0), "{ended}");
        ended.json().remove(0)
    };
    assert_eq!(run(&["--deterministic"]), run(&["--deterministic"]));
    assert_ne!(run(&[])["result"], run(&[])["result"]);
}

/// Sends `GET http://127.0.0.1:PORT/?key=KEY` with its secret `key`, of 9 bytes, and returns the body.
fn asks(port: u16) -> String {
    let head = format!("GET http://127.0.0.1:{port}/?key=");
    let length = head.len();
    let (line_at, total) = (length + 9, length + 10);
    format!(
        r#"(module
  (import "duebox_v1" "config_read" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "http_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "{head}")
  (data (i32.const 512) "key")
  (func (export "handle") (param i32) (result i32)
    (drop (call $config (i32.const 512) (i32.const 3) (i32.const {length}) (i32.const 9)))
    (i32.store8 (i32.const {line_at}) (i32.const 10))
    (if (i32.ne (i32.const 200)
          (call $send (i32.const 0) (i32.const {total}) (i32.const 0) (i32.const 0) (i32.const 0)))
      (then (return (i32.const 1))))
    (drop (call $result (i32.const 1024)
      (call $read (i32.const 1) (i32.const 1024) (i32.const 0) (i32.const 99))))
    (i32.const 0)))"#
    )
}

#[test]
fn recorded_responses_answer_later_runs_without_their_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = folder("asks.wat", &asks(port));
    std::fs::write(folder.path().join("key"), "hunter2$x").unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut seen = [0; 1024];
        let read = stream.read(&mut seen).unwrap();
        let body = "you sent hunter2$x for 5$";
        let head = format!(
            "HTTP/1.1 200 OK\r\nset-cookie: session=1\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        String::from_utf8_lossy(&seen[..read]).into_owned()
    });
    let origin = format!("http://127.0.0.1:{port}");
    let base = ["asks.wat", "--allow-http", &origin, "--allow-private", "127.0.0.1", "--json"];
    let base = [&base[..], &["--secret", "key=file:key"]].concat();
    let recorded = invoke(folder.path(), &[&base[..], &["--record", "answers"]].concat(), "");
    assert_eq!(recorded.code, Some(0), "{recorded}");
    assert!(server.join().unwrap().contains("hunter2"));

    let files: Vec<_> = std::fs::read_dir(folder.path().join("answers")).unwrap().collect();
    assert_eq!(files.len(), 1);
    let path = files[0].as_ref().unwrap().path();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("__secret_key") && text.contains("[not recorded]"), "{text}");
    assert!(!text.contains("hunter2") && !text.contains("session=1"), "{text}");

    // The server is gone: the file answers.
    let replayed = invoke(folder.path(), &[&base[..], &["--http", "answers"]].concat(), "");
    assert_eq!(replayed.code, Some(0), "{replayed}");
    assert_eq!(replayed.json()[0]["result"], "you sent hunter2$x for 5$");
    assert_eq!(replayed.json()[0]["result"], recorded.json()[0]["result"]);

    std::fs::remove_file(path).unwrap();
    let unknown = invoke(folder.path(), &[&base[..], &["--http", "answers"]].concat(), "");
    assert_eq!(unknown.json()[0]["class"], "trap", "{unknown}");
    let reason = unknown.json()[0]["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.starts_with("there is no recorded response to GET http://127.0.0.1"),
        "{reason}"
    );
    let gone = invoke(folder.path(), &[&base[..], &["--http", "gone"]].concat(), "");
    assert_eq!(gone.code, Some(2), "{gone}");
}
