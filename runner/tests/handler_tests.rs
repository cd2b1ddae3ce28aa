//! `duebox test`: cases next to the handler, their differences, JUnit, and `--update`.

#![expect(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

fn test(folder: &Path, arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox"));
    let output = command.current_dir(folder).arg("test").args(arguments).output().unwrap();
    Ended {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Adds 1 to `count` in its store, requests `http://shop.example/`, logs its payload, pushes to `sms` and
/// acks with the body of the response as its result. Any other status than 200 is a nack with the body as
/// the reason.
const SHOP: &str = r#"(module
  (import "duebox_v1" "payload_read" (func $payload (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "kv_add" (func $add (param i32 i32 i64 i32) (result i32)))
  (import "duebox_v1" "http_send" (func $send (param i32 i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "http_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "duebox_v1" "push" (func $push (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "count")
  (data (i32.const 16) "POST http://shop.example/\n")
  (data (i32.const 64) "topic: sms\ndelay-ms: 1000\n")
  (func (export "handle") (param $len i32) (result i32)
    (local $status i32) (local $body i32)
    (drop (call $payload (i32.const 1024) (i32.const 0) (local.get $len)))
    (drop (call $add (i32.const 0) (i32.const 5) (i64.const 1) (i32.const 512)))
    (call $log (i32.const 2) (i32.const 1024) (local.get $len))
    (local.set $status
      (call $send (i32.const 16) (i32.const 26) (i32.const 1024) (local.get $len) (i32.const 0)))
    (local.set $body (call $read (i32.const 1) (i32.const 4096) (i32.const 0) (i32.const 1024)))
    (if (i32.ne (local.get $status) (i32.const 200)) (then
      (call $reason (i32.const 4096) (local.get $body))
      (return (i32.const 1))))
    (drop (call $push (i32.const 64) (i32.const 26) (i32.const 1024) (local.get $len)))
    (drop (call $result (i32.const 4096) (local.get $body)))
    (i32.const 0)))"#;

const MANIFEST: &str = r#"
[topics.shop]
handler = "handlers/shop.wat"

[topics.shop.sandbox]
http = ["http://shop.example"]
push = ["sms"]
kv = true
secrets = { token = { env = "NO_SUCH_TOKEN" } }

[[topics.shop.smoke]]
payload = "{}"
expect = "nack"
kv = { count = "4" }
kv_after = { count = "5" }
reason = "closed"
http = [{ method = "POST", url = "http://shop.example/", status = 503, body = "closed" }]
"#;

const CASES: &str = r#"# The shop is open.
[[case]]
name = "sends and pushes"
payload = { order = 42 }
kv = { count = "6" }
expect = "ack"
result = { ok = true }
log = ['info: {"order":42}']
follow_ups = [{ topic = "sms", delay = "1s", payload = { order = 42 } }]
kv_after = { count = "7" }

[[case.http]]
method = "POST"
url = "http://shop.example/"
sent = { order = 42 }
body = { ok = true }

[[case]]
name = "cannot reach the shop"
expect = "nack"
http = [{ method = "POST", url = "http://shop.example", error = "unavailable" }]
"#;

fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("handlers/tests")).unwrap();
    for (name, text) in [
        ("duebox.toml", MANIFEST),
        ("handlers/shop.wat", SHOP),
        ("handlers/tests/shop.toml", CASES),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn cases_pass_with_recorded_http_a_given_store_and_without_secrets() {
    let folder = project();
    let ended = test(folder.path(), &[]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    for line in [
        "ok      shop  smoke case 1\n",
        "ok      shop  sends and pushes\n",
        "\n3 passed, 0 failed in ",
    ] {
        assert!(ended.out.contains(line), "{line}: {}", ended.out);
    }
    // A folder, and a topic.
    let parent = folder.path().parent().unwrap();
    let dir = folder.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(test(parent, &[dir]).code, Some(0));
    let report: Value =
        serde_json::from_str(&test(folder.path(), &["shop", "--json"]).out).unwrap();
    assert_eq!(report["cases"].as_array().unwrap().len(), 3, "{report}");
    assert_eq!(report["cases"][1]["passed"], true);
    let unknown = test(folder.path(), &["shob"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("did you mean shop?"), "{}", unknown.err);
}

#[test]
fn differences_are_shown_and_written_for_ci() {
    let folder = project();
    let cases = folder.path().join("handlers/tests/shop.toml");
    let changed = CASES
        .replace("payload = { order = 42 } }]", "payload = { order = 43 } }]")
        .replace("count = \"7\"", "count = \"8\"")
        .replace("log = ['info: {\"order\":42}']", "log = ['closed']")
        .replace("expect = \"nack\"", "expect = \"drop\"");
    std::fs::write(&cases, changed).unwrap();
    let ended = test(folder.path(), &["--junit", "report.xml"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    for part in [
        "FAILED  shop  sends and pushes\n        in handlers/tests/shop.toml\n",
        "        follow_ups\n          - sms delay=1s payload={\"order\":43}\n",
        "          + sms id=case-1.1 delay=1s payload={\"order\":42}\n",
        "        kv_after\n          - count = 8\n          + count = 7\n",
        "        log\n          - closed\n          + info: {\"order\":42}\n",
        "FAILED  shop  cannot reach the shop\n",
        "        expect\n          - drop\n          + nack\n",
        "\n1 passed, 2 failed in ",
    ] {
        assert!(ended.out.contains(part), "{part} is missing: {}", ended.out);
    }
    let xml = std::fs::read_to_string(folder.path().join("report.xml")).unwrap();
    assert!(xml.contains(r#"<testsuite name="shop" tests="3" failures="2""#), "{xml}");
    assert!(xml.contains(r#"<testcase name="cannot reach the shop""#), "{xml}");
    assert!(xml.contains("expected &quot;drop&quot;, found &quot;nack"), "{xml}");
}

#[test]
fn an_update_changes_what_failed_cases_expect_and_nothing_else() {
    let folder = project();
    let cases = folder.path().join("handlers/tests/shop.toml");
    let wrong = CASES.replace("result = { ok = true }", "result = \"none\"");
    let wrong = wrong.replace("expect = \"nack\"\n", "");
    let new = "\n[[case]]\nname = \"new\"\nhttp = [{ method = \"POST\", url = \"http://shop.example\", status = 410, body = \"gone for 5$$\" }]\n";
    std::fs::write(&cases, format!("{wrong}{new}")).unwrap();
    let ended = test(folder.path(), &["--update"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    assert!(ended.out.contains("\n1 passed, 3 updated, 0 failed in "), "{}", ended.out);
    let text = std::fs::read_to_string(&cases).unwrap();
    for part in [
        "# The shop is open.\n[[case]]\nname = \"sends and pushes\"\npayload = { order = 42 }\n",
        "result = '{\"ok\":true}'\nlog = ['info: {\"order\":42}']\n",
        "reason = \"gone for 5$$\"\n",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    let again = test(folder.path(), &[]);
    assert_eq!(again.code, Some(0), "{}{}", again.out, text);
}

#[test]
fn a_request_without_a_response_and_one_that_is_not_sent_fail_a_case() {
    let folder = project();
    let cases = folder.path().join("handlers/tests/shop.toml");
    let other = "http = [{ method = \"GET\", url = \"http://shop.example/other\" }]";
    std::fs::write(&cases, format!("[[case]]\nexpect = \"trap\"\n{other}\n")).unwrap();
    let ended = test(folder.path(), &["--update"]);
    assert_eq!(ended.code, Some(1), "{}{}", ended.out, ended.err);
    for part in [
        "- a recorded response\n          + POST http://shop.example/\n",
        "- GET http://shop.example/other\n          + the request was not sent\n",
        "its log\n",
    ] {
        assert!(ended.out.contains(part), "{part} is missing: {}", ended.out);
    }
}

#[test]
fn files_belong_to_a_topic() {
    let folder = project();
    let manifest = folder.path().join("duebox.toml");
    let other = "\n[topics.other]\nhandler = \"handlers/other.wat\"\n";
    std::fs::write(&manifest, format!("{MANIFEST}{other}")).unwrap();
    let acks = r#"(module (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;
    std::fs::write(folder.path().join("handlers/other.wat"), acks).unwrap();
    let ended = test(folder.path(), &[]);
    assert_eq!(ended.code, Some(2), "{}", ended.out);
    assert!(
        ended.err.contains("several topics") && ended.err.contains("topic = \"NAME\""),
        "{}",
        ended.err
    );

    let cases = folder.path().join("handlers/tests/shop.toml");
    std::fs::write(&cases, format!("topic = \"shop\"\n{CASES}")).unwrap();
    let ended = test(folder.path(), &[]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    // A file that the manifest names stands in place of the folder.
    std::fs::write(folder.path().join("named.toml"), "[[case]]\npayload = \"x\"\n").unwrap();
    let named = format!("{MANIFEST}{other}tests = [\"named.toml\"]\n");
    std::fs::write(&manifest, named).unwrap();
    let ended = test(folder.path(), &["other"]);
    assert!(ended.out.contains("ok      other  case 1\n"), "{}{}", ended.out, ended.err);
}

#[test]
fn invalid_cases_are_refused_with_their_place() {
    let folder = project();
    let cases = folder.path().join("handlers/tests/shop.toml");
    for (text, parts) in [
        (
            "[[case]]\nexpects = \"ack\"\n",
            &["unknown key `expects`", "did you mean `expect`?", "shop.toml:2:1"][..],
        ),
        ("[[case]]\nexpect = \"done\"\n", &["must be one of ack, nack", "shop.toml:2"]),
        ("[[case]]\nnow = \"noon\"\n", &["`now`", "2026-01-31T12:00:00Z"]),
        ("[[case]]\nhttp = [{ method = \"GET\" }]\n", &["has no `url`"]),
        ("", &["has no case"]),
        ("[[case]\n", &["invalid TOML"]),
        ("topic = \"none\"\n[[case]]\n", &["no topic none with a handler"]),
    ] {
        std::fs::write(&cases, text).unwrap();
        let ended = test(folder.path(), &[]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{text}");
        for part in parts {
            assert!(ended.err.contains(part), "{part} is missing: {}", ended.err);
        }
    }
}
