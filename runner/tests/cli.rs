//! The command line as people and scripts use it: the real binary, its exit codes, its stdout and
//! stderr, and a real Redis where one is needed.

#![expect(clippy::unwrap_used, reason = "a test that cannot start its binary has failed")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use duebox_harness::{RedisServer, eventually, output_with};
use serde_json::Value;
use tempfile::TempDir;

/// Logs its payload and the config `region`; its verdict is the first digit of the payload.
const ECHO: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "config_read" (func $config (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "meta_int" (func $meta (param i32) (result i64)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (import "duebox_v1" "retry_after" (func $retry_after (param i64)))
  (memory (export "memory") 1)
  (data (i32.const 0) "region")
  (func (export "handle") (param $len i32) (result i32)
    (call $log (i32.const 2) (i32.const 64) (call $read (i32.const 64) (i32.const 0) (local.get $len)))
    (call $log (i32.const 1) (i32.const 32)
      (call $config (i32.const 0) (i32.const 6) (i32.const 32) (i32.const 16)))
    (call $reason (i32.const 64) (local.get $len))
    (call $retry_after (i64.mul (call $meta (i32.const 3)) (i64.const 60000)))
    (i32.sub (i32.load8_u (i32.const 64)) (i32.const 48))))"#;

const TRAP: &str = r#"(module (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32) unreachable))"#;

/// The output and exit code of a command.
struct CommandOutput {
    code: i32,
    out: String,
    err: String,
}

impl CommandOutput {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox"));
    for name in ["MANIFEST", "REDIS_URL", "LOG", "LOG_FORMAT", "LISTEN"] {
        command.env_remove(format!("DUEBOX_{name}"));
    }
    command.args(args).current_dir(folder).env_remove("REDIS_URL");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &Path, args: &[&str]) -> CommandOutput {
    run_with(command(folder, args), b"")
}

/// Runs a command with this input on stdin.
fn run_with(mut command: Command, input: &[u8]) -> CommandOutput {
    let output = output_with(&mut command, input).unwrap();
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A folder with two modules and a manifest with this Redis URL. It serves no HTTP: tests run in
/// parallel and would use the same port.
fn folder(url: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("echo.wat"), ECHO).unwrap();
    std::fs::write(folder.path().join("trap.wat"), TRAP).unwrap();
    let manifest = format!(
        "[redis]\nurl = \"{url}\"\n[server]\nlisten = \"\"\n[topics.\"order.close\"]\nhandler = \"echo.wat\"\n\
         sandbox = {{ payload = \"1KiB\" }}\n[topics.slow]\nhandler = \"trap.wat\"\ndelay = \"1h\"\n"
    );
    std::fs::write(folder.path().join("duebox.toml"), manifest).unwrap();
    folder
}

/// No Redis listens there: a command that gets this far has accepted its input.
const NOWHERE: &str = "redis://127.0.0.1:1/0";

#[test]
fn bad_input_is_refused_with_a_hint_before_anything_is_done() {
    let folder = folder(NOWHERE);
    let long_id = "x".repeat(257);
    let long_payload = "x".repeat(1025);
    for (args, word) in [
        (&["push", "nope"][..], "no topic nope"),
        (&["push", "order.clos"], "did you mean order.close?"),
        (&["push", "a b"], "holds ' '"),
        (&["push", "order.close", "--id", "a b"], "holds ' '"),
        (&["push", "order.close", "--id", &long_id], "257 bytes long"),
        (&["push", "order.close", &long_payload], "longer than 1.0 KiB"),
        (&["push", "order.close", "@no-such-file"], "no-such-file cannot be read"),
        (&["push", "order.close", "--in", "-5m"], "\"-5m\" is not a duration"),
        (&["push", "order.close", "--in", "30"], "\"30\" is not a duration"),
        (&["push", "order.close", "--in", "4000d"], "longer than ten years"),
        (&["push", "order.close", "--at", "1795262401"], "not a unix time in milliseconds"),
        (&["push", "order.close", "--at", "soon"], "is not a time"),
        (&["push", "order.close", "--in", "1s", "--at", "soon"], "cannot be used with"),
        (&["push", "order.close", "--ttr", "0s"], "from 1ms to 24h"),
        (&["push", "order.close", "--max-attempts", "0"], "0 is not in 1..=999999"),
        (&["push", "order.close", "--if-exists", "maybe"], "invalid value 'maybe'"),
        (&["requeue", "order.close"], "required"),
        (&["invoke", "no-such.wasm"], "no-such.wasm cannot be read"),
        (&["invoke", "duebox.toml"], "module duebox.toml"),
        (&["invoke", "echo.wat", "--config", "region"], "write NAME=VALUE"),
        (&["invoke", "echo.wat", "--attempt", "0"], "0 is not in 1..=999999"),
        (&["invoke", "echo.wat", "--attempt", "3", "--max-attempts", "2"], "is below"),
        (&["invoke", "echo.wat", "--memory", "1KiB"], "from 64KiB to 4GiB"),
        (&["stats", "--manifest", "no.toml"], "no.toml"),
        (&["check", "--redis-url", "redis-cluster://x/1"], "database 0 only"),
        (&["check", "--log", "loud"], "\"loud\" is not a level"),
        (&["run", "--log-format", "xml"], "must be one of auto, human, json"),
        (&["frobnicate"], "unrecognized subcommand"),
    ] {
        let output = run(folder.path(), args);
        assert_eq!(output.code, 2, "{args:?}: {}", output.err);
        assert!(output.err.contains(word), "{args:?}: {}", output.err);
        assert!(output.err.contains("hint: "), "{args:?}: {}", output.err);
        assert_eq!(output.out, "", "{args:?}");
    }
}

#[test]
fn an_unreachable_redis_is_a_failure_that_names_it() {
    let unreachable = folder(NOWHERE);
    for args in [&["push", "slow"][..], &["stats"], &["cancel", "slow", "1"], &["run"]] {
        let output = run(unreachable.path(), args);
        assert_eq!(output.code, 1, "{args:?}: {}", output.err);
        assert!(output.err.contains("127.0.0.1:1"), "{args:?}: {}", output.err);
    }
    let managed = folder("managed");
    let output = run(managed.path(), &["stats"]);
    assert_eq!(output.code, 1, "{}", output.err);
    assert!(output.err.contains("start the daemon first"), "{}", output.err);
}

#[test]
fn a_pushed_job_is_counted_cancelled_and_not_pushed_twice() {
    let redis = RedisServer::start();
    let folder = folder(&redis.url());
    let run = |args: &[&str]| run(folder.path(), args);

    let pushed = run(&["push", "order.close", "{\"order\":42}", "--id", "42", "--json"]).json();
    assert_eq!((&pushed["id"], &pushed["result"]), (&"42".into(), &"pushed".into()));
    assert_eq!(redis.cli(&["HGET", "duebox:{order.close}:jobs", "42"]).trim(), "{\"order\":42}");

    let again = run(&["push", "order.close", "--id", "42"]);
    assert_eq!(again.code, 1);
    assert!(again.out.contains("exists 42"), "{}", again.out);
    assert!(again.err.contains("hint: "), "{}", again.err);
    let kept = run(&["push", "order.close", "--id", "42", "--if-exists", "keep"]);
    assert_eq!((kept.code, kept.out.as_str()), (0, "kept 42 in order.close\n"));
    let replaced =
        run(&["push", "order.close", "--id", "42", "--if-exists", "replace", "--in", "2h"]);
    assert_eq!((replaced.code, &replaced.out[..11]), (0, "replaced 42"));

    let delayed = run(&["push", "slow", "--ttr", "5s", "--max-attempts", "3", "--json"]).json();
    assert_eq!(delayed["delay_ms"], 3_600_000, "the topic's own delay");
    let id = delayed["id"].as_str().unwrap();
    let options = redis.cli(&["HGET", "duebox:{slow}:opts", id]);
    assert_eq!(options.trim(), r#"{"ttr_ms":5000,"max_attempts":3}"#);
    let at = run(&["push", "slow", "--id", "at", "--at", "2030-01-01T00:00:00Z"]);
    assert_eq!(at.code, 0, "{}", at.err);
    assert_eq!(redis.cli(&["ZSCORE", "duebox:{slow}:pending", "at"]).trim(), "1893456000000");

    redis.cli(&["SADD", "duebox:topics", "elsewhere"]);
    let stats = run(&["stats", "--json"]).json();
    let topic = |name: &str| {
        let topics = stats["topics"].as_array().unwrap();
        topics.iter().find(|topic| topic["topic"] == name).unwrap().clone()
    };
    assert_eq!((&topic("slow")["pending"], &topic("slow")["bound"]), (&2.into(), &true.into()));
    assert_eq!(topic("order.close")["pending"], 1);
    assert_eq!(topic("elsewhere")["bound"], false);
    let left = topic("order.close")["next_due_in_ms"].as_u64().unwrap();
    assert!((1..=7_200_000).contains(&left), "{left}");
    let table = run(&["stats", "elsewhere", "slow"]).out;
    assert!(table.lines().nth(1).unwrap().ends_with("unbound"), "{table}");
    assert_eq!(run(&["stats", "nowhere"]).code, 2);

    assert_eq!(run(&["cancel", "order.close", "42"]).out, "cancelled 42 in order.close\n");
    let gone = run(&["cancel", "order.close", "42", "--json"]);
    assert_eq!((gone.code, &gone.json()["result"]), (1, &"none".into()));
    assert_eq!(redis.cli(&["EXISTS", "duebox:{order.close}:jobs"]).trim(), "0");
}

#[test]
fn an_old_ready_job_shows_its_lateness() {
    let redis = RedisServer::start();
    let folder = folder(&redis.url());
    assert_eq!(run(folder.path(), &["push", "order.close", "1"]).code, 0);
    let late = || {
        let stats = run(folder.path(), &["stats", "order.close", "--json"]).json();
        assert_eq!(stats["topics"][0]["ready"], 1);
        stats["topics"][0]["late_ms"].as_u64().unwrap()
    };
    let first = late();
    eventually("the job to grow late", || late() > first);
}

#[test]
fn lines_are_pushed_in_batches_and_can_be_repeated_safely() {
    let redis = RedisServer::start();
    let folder = folder(&redis.url());
    let push = |input: &str, args: &[&str]| {
        let args = [&["push", "order.close", "-", "--lines"], args].concat();
        run_with(command(folder.path(), &args), input.as_bytes())
    };
    let input: String = (0..2_500).map(|n| format!("line {n}\n")).collect();
    let pushed = push(&input, &["--id", "run", "--json"]).json();
    assert_eq!((&pushed["lines"], &pushed["pushed"]), (&2_500.into(), &2_500.into()));
    let key = "duebox:{order.close}:jobs";
    assert_eq!(redis.cli(&["HLEN", key]).trim(), "2500");
    assert_eq!(redis.cli(&["HGET", key, "run-2500"]).trim(), "line 2499");

    let again = push(&input, &["--id", "run"]);
    assert_eq!(again.code, 1);
    assert!(again.out.contains("pushed 0 of 2500 lines"), "{}", again.out);
    assert!(again.out.contains("exists 2500"), "{}", again.out);
    assert!(again.err.contains("hint: "), "{}", again.err);

    let made = push("a\n\nb", &["--json"]).json();
    assert_eq!(made["pushed"], 3, "an empty line is an empty payload, the last feed is optional");
    assert_eq!(redis.cli(&["HLEN", key]).trim(), "2503");

    let words = ["push", "order.close", "--lines", "--json"];
    let plain = run_with(command(folder.path(), &words), b"c\nd\n").json();
    assert_eq!(plain["pushed"], 2, "without a payload the lines come from stdin");
}

#[test]
fn a_bad_line_is_named_with_the_number_of_stored_lines() {
    let redis = RedisServer::start();
    let folder = folder(&redis.url());
    let push = |good: usize| {
        let long = "x".repeat(1025);
        let input = format!("{}{long}\nlast\n", "ok\n".repeat(good));
        let args = ["push", "slow", "@in.txt", "--lines"];
        std::fs::write(folder.path().join("in.txt"), input).unwrap();
        let manifest = folder.path().join("duebox.toml");
        let text = std::fs::read_to_string(&manifest).unwrap();
        let small =
            text.replace("delay = \"1h\"", "delay = \"2h\"\nsandbox = { payload = \"1KiB\" }");
        std::fs::write(&manifest, small).unwrap();
        run(folder.path(), &args)
    };
    let none_stored = push(3);
    assert_eq!(none_stored.code, 2, "{}", none_stored.err);
    assert!(none_stored.err.contains("line 4 is longer than 1.0 KiB"), "{}", none_stored.err);
    assert_eq!(redis.cli(&["EXISTS", "duebox:{slow}:jobs"]).trim(), "0");
    let some_stored = push(1_500);
    assert_eq!(some_stored.code, 1, "{}", some_stored.err);
    assert!(some_stored.err.contains("line 1501 is longer"), "{}", some_stored.err);
    assert!(some_stored.err.contains("first 1000 lines are pushed"), "{}", some_stored.err);
    assert!(some_stored.err.contains("tail -n +1001"), "{}", some_stored.err);
    assert_eq!(redis.cli(&["HLEN", "duebox:{slow}:jobs"]).trim(), "1000");
}

#[test]
fn watched_stats_are_refreshed_until_interrupted() {
    let redis = RedisServer::start();
    let folder = folder(&redis.url());
    let mut child = command(folder.path(), &["stats", "--watch", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let snapshot: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(snapshot["topics"].as_array().unwrap().len(), 2);
    }
    duebox_harness::send_signal("INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn invoke_reports_a_run_without_redis() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("echo.wat"), ECHO).unwrap();
    std::fs::write(folder.path().join("trap.wat"), TRAP).unwrap();
    std::fs::write(folder.path().join("two.txt"), "2 drop it").unwrap();
    let echo = ["invoke", "echo.wat", "--config", "region=eu"];
    let run = |args: &[&str]| run(folder.path(), args);

    let ack = run(&[&echo[..], &["--payload", "0 fine"]].concat());
    assert_eq!(ack.code, 0, "{}", ack.err);
    for words in ["verdict  ack", "log      info  0 fine", "log      warn  eu", "64.0 KiB", " ms"] {
        assert!(ack.out.contains(words), "{words}: {}", ack.out);
    }
    let nack = run(&[&echo[..], &["--payload", "1 later", "--attempt", "3", "--json"]].concat());
    let report = nack.json();
    assert_eq!((nack.code, &report["verdict"]), (3, &"nack".into()));
    assert_eq!((&report["class"], &report["reason"]), (&"nack".into(), &"1 later".into()));
    assert_eq!(report["retry_after_ms"], 180_000, "the handler saw attempt 3");
    assert_eq!(report["logs"][0]["text"], "1 later");
    assert!(report["time_ms"].as_f64().unwrap() > 0.0);
    assert!(report["cpu_ms"].as_f64().unwrap() > 0.0);
    // Calls: two logs, a reason, retry_after, meta_int and two reads. Bytes: the payload and the
    // config value.
    let traffic =
        ["host_calls", "bytes_in", "bytes_out"].map(|name| report[name].as_u64().unwrap());
    assert_eq!(traffic, [7, 7 + 2, 7 + 2 + 7]);
    assert_eq!(report["fuel"], Value::Null);
    let fuel =
        |fuel: &str| run(&[&echo[..], &["--payload", "0", "--json", "--fuel", fuel]].concat());
    let needed = fuel("100000").json()["fuel"].as_u64().unwrap();
    assert_eq!(fuel(&needed.to_string()).json()["verdict"], "ack");
    assert_eq!(fuel(&(needed - 1).to_string()).json()["class"], "out_of_fuel");

    let file = run(&[&echo[..], &["--payload", "@two.txt", "--json"]].concat()).json();
    assert_eq!(file["verdict"], "drop");
    let piped = command(folder.path(), &[&echo[..], &["--payload", "-", "--json"]].concat());
    assert_eq!(run_with(piped, b"7 odd").json()["class"], "bad_verdict");
    let trap = run(&["invoke", "trap.wat"]);
    assert_eq!(trap.code, 1);
    assert!(trap.out.starts_with("verdict  failed\nclass    trap\n"), "{}", trap.out);
}

#[test]
fn check_reports_every_module_at_once() {
    let folder = folder(NOWHERE);
    let fine = run(folder.path(), &["check"]);
    assert_eq!(fine.code, 0, "{}", fine.err);
    assert_eq!(fine.out.lines().count(), 3, "{}", fine.out);
    let json = run(folder.path(), &["check", "--json"]).json();
    assert_eq!((&json["ok"], &json["topics"][0]["topic"]), (&true.into(), &"order.close".into()));
    assert_eq!(json["topics"][0]["digest"].as_str().unwrap().len(), 64);

    std::fs::write(folder.path().join("echo.wat"), "(module)").unwrap();
    std::fs::remove_file(folder.path().join("trap.wat")).unwrap();
    let bad = run(folder.path(), &["check"]);
    assert_eq!(bad.code, 2);
    assert_eq!(bad.out, "");
    for words in ["topic order.close", "echo.wat", "no function `handle`", "topic slow", "trap.wat"]
    {
        assert!(bad.err.contains(words), "{words}: {}", bad.err);
    }
    assert_eq!(bad.err.matches("hint: ").count(), 2, "{}", bad.err);
    let json = run(folder.path(), &["check", "--json"]);
    assert_eq!((json.code, json.json()["problems"].as_array().unwrap().len()), (2, 2));
    let run = run(folder.path(), &["run"]);
    assert_eq!(run.code, 2, "{}", run.err);

    let manifest = folder.path().join("bad.toml");
    std::fs::write(&manifest, "[topics.a]\nhandler = \"a\"\ntttr = 1\nttr = 2\n").unwrap();
    let mut by_variable = command(folder.path(), &["check", "--json"]);
    by_variable.env("DUEBOX_MANIFEST", &manifest);
    let json = run_with(by_variable, b"").json();
    assert_eq!(
        (&json["problems"][0]["line"], &json["problems"][1]["line"]),
        (&3.into(), &4.into())
    );
}

#[test]
fn help_goes_to_stdout_and_has_examples() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["run", "check", "push", "stats", "invoke", "cancel", "requeue"] {
        let output = run(folder.path(), &["help", name]);
        assert_eq!((output.code, output.err.as_str()), (0, ""));
        assert!(output.out.contains("Examples:\n  duebox "), "{name}");
    }
}
