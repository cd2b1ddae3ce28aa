//! Secrets are read from a variable or a file, updated when the file changes, and never shown by Duebox.

use std::fs;
use std::os::unix::fs::symlink;

use duebox_harness::{Daemon, LogLine};
use serde_json::Value;

use crate::support::fixture::{Fixture, built, topic};
use crate::support::log::{handler_lines, settled_as};
use crate::support::producer::{push, push_payload};

/// Acks a job whose payload equals the config value of this name, and nacks any other.
fn compares(name: &str) -> String {
    let length = name.len();
    format!(
        r#"(module
             (import "duebox_v1" "config_read" (func $config (param i32 i32 i32 i32) (result i32)))
             (import "duebox_v1" "payload_read" (func $payload (param i32 i32 i32) (result i32)))
             (memory (export "memory") 1)
             (data (i32.const 0) "{name}")
             (func (export "handle") (param $len i32) (result i32)
               (local $at i32)
               (drop (call $payload (i32.const 1024) (i32.const 0) (i32.const 1024)))
               (if (i32.ne (local.get $len)
                     (call $config (i32.const 0) (i32.const {length}) (i32.const 2048) (i32.const 1024)))
                 (then (return (i32.const 1))))
               (loop $next
                 (if (i32.ne (i32.load8_u offset=1024 (local.get $at))
                       (i32.load8_u offset=2048 (local.get $at)))
                   (then (return (i32.const 1))))
                 (local.set $at (i32.add (local.get $at) (i32.const 1)))
                 (br_if $next (i32.lt_u (local.get $at) (local.get $len))))
               (i32.const 0)))"#
    )
}

/// Writes a secret as Kubernetes does: `mount/key → ..data/key`, `..data → ..N`, and `..data` is swapped.
fn mount(fixture: &Fixture, version: usize, secret: &str) {
    let mount = fixture.path("mount");
    let folder = format!("..{version}");
    fs::create_dir_all(mount.join(&folder)).unwrap();
    fs::write(mount.join(&folder).join("key"), format!("{secret}\n")).unwrap();
    symlink(&folder, mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    if version == 0 {
        symlink("..data/key", mount.join("key")).unwrap();
    }
}

fn start(fixture: &Fixture) -> Daemon {
    let daemon = Daemon::start_with(&fixture.path("duebox.toml"), |command| {
        command.env("E2E_TOKEN", "swordfish-of-the-environment");
    });
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    daemon
}

/// Runs one job with this payload and returns its verdict.
fn settled(fixture: &Fixture, daemon: &Daemon, topic: &str, id: &str, payload: &str) -> String {
    push_payload(fixture, topic, id, payload);
    let is_end = |line: &LogLine| {
        ["done", "dead"].iter().any(|end| settled_as(line, end)) && line.has("job_id", id)
    };
    daemon.wait_for_line(id, is_end).str("settled").to_owned()
}

fn wait_for_new_secrets(daemon: &Daemon, times: usize) {
    duebox_harness::eventually("the new secret", || {
        daemon.count(|line| line.message().starts_with("its secrets have changed")) >= times
    });
}

const SECRETS: &str = "max_attempts = 1\n\
    sandbox.secrets = { key = { file = \"mount/key\" }, token = { env = \"E2E_TOKEN\" } }";

#[test]
fn a_changed_secret_reaches_the_next_job_and_is_never_shown() {
    let fixture = Fixture::new();
    fixture.write("key.wat", compares("key"));
    fixture.write("token.wat", compares("token"));
    mount(&fixture, 0, "hunter-the-first");
    let topics = [topic("work", "key.wat", SECRETS), topic("other", "token.wat", SECRETS)];
    fixture.manifest("", &topics);
    let mut daemon = start(&fixture);
    let ends =
        |topic: &str, id: &str, payload: &str| settled(&fixture, &daemon, topic, id, payload);
    assert_eq!(ends("work", "a", "hunter-the-first"), "done");
    assert_eq!(ends("other", "b", "swordfish-of-the-environment"), "done");

    // After a symlink swap both topics have the new value with unchanged modules.
    mount(&fixture, 1, "hunter-the-second");
    wait_for_new_secrets(&daemon, 2);
    assert_eq!(ends("work", "c", "hunter-the-second"), "done");
    assert_eq!(ends("work", "d", "hunter-the-first"), "dead");
    assert_eq!(ends("other", "e", "swordfish-of-the-environment"), "done");

    // Removed: the manifest is refused and jobs go on. Restored: it is loaded.
    fs::remove_file(fixture.path("mount/key")).unwrap();
    let refused = |line: &LogLine| line.message().starts_with("the manifest is refused");
    let warning = daemon.wait_for_line("the warning", refused);
    assert!(warning.text().contains("mount/key"), "{}", warning.text());
    assert_eq!(ends("work", "f", "hunter-the-second"), "done");
    fixture.write("mount/key", "hunter-the-third");
    wait_for_new_secrets(&daemon, 4);
    assert_eq!(ends("work", "g", "hunter-the-third"), "done");

    assert_eq!(daemon.count(|line| line.message().starts_with("a new module serves")), 0);
    let mut shown: Vec<String> = daemon.lines().iter().map(|line| line.text().to_owned()).collect();
    for words in [&["stats"][..], &["stats", "--json"], &["doctor"], &["dead", "list", "work"]] {
        shown.push(fixture.duebox(words));
    }
    assert!(daemon.terminate().success());
    for secret in ["hunter-the-first", "hunter-the-second", "hunter-the-third", "swordfish-of"] {
        let shows = shown.iter().find(|text| text.contains(secret));
        assert!(shows.is_none(), "{shows:?}");
    }
}

#[test]
fn a_manifest_with_a_missing_secret_loads_when_it_appears() {
    let fixture = Fixture::new();
    fixture.write("key.wat", compares("key"));
    fixture.manifest("", &[topic("work", "key.wat", "max_attempts = 1")]);
    let daemon = start(&fixture);
    assert_eq!(settled(&fixture, &daemon, "work", "a", "hunter-at-last"), "dead");
    let wanted = "max_attempts = 1\nsandbox.secrets = { key = { file = \"late\" } }";
    fixture.manifest("", &[topic("work", "key.wat", wanted)]);
    daemon
        .wait_for_line("the warning", |line| line.message().starts_with("the manifest is refused"));
    fixture.write("late", "hunter-at-last");
    daemon.wait_for_line("the reload", |line| line.message() == "the manifest is reloaded");
    assert_eq!(settled(&fixture, &daemon, "work", "b", "hunter-at-last"), "done");
}

#[test]
fn a_running_job_keeps_its_secret() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("mount")).unwrap();
    fixture.write("mount/key", "hunter-before");
    fixture.write("naps.wat", naps_and_compares());
    let keys = "max_attempts = 1\nsandbox.secrets = { key = { file = \"mount/key\" } }";
    fixture.manifest("", &[topic("work", "naps.wat", keys)]);
    let daemon = start(&fixture);
    push_payload(&fixture, "work", "a", "hunter-before");
    daemon.wait_for_line("it runs", |line| line.has("target", "handler"));
    fixture.write("mount/key", "hunter-after-it");
    wait_for_new_secrets(&daemon, 1);
    assert_eq!(daemon.count(|line| line.has("job_id", "a") && settled_as(line, "done")), 0);
    daemon.wait_for_line("its end", |line| settled_as(line, "done") && line.has("job_id", "a"));
    assert_eq!(settled(&fixture, &daemon, "work", "b", "hunter-after-it"), "done");
}

/// Logs that it runs, sleeps for two seconds, then acts like `compares("key")`.
fn naps_and_compares() -> String {
    let imports = r#"(module
      (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
      (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))"#;
    let nap = r#"(local $at i32)
      (call $log (i32.const 2) (i32.const 0) (i32.const 3))
      (i32.store (i32.const 16) (i32.const 1))
      (i64.store (i32.const 24) (i64.const 2000000000))
      (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))
      (i64.store (i32.const 0) (i64.const 0x79656b))"#;
    compares("key").replacen("(module", imports, 1).replacen("(local $at i32)", nap, 1)
}

#[test]
fn config_and_secrets_read_the_same_in_every_language() {
    let fixture = Fixture::new();
    fixture.write("key", "hunter-of-all\n");
    let keys = "[topics.\"NAME\".sandbox]\nconfig = { region = \"eu\" }\n\
        secrets = { key = { file = \"key\" }, token = { env = \"E2E_TOKEN\" } }";
    let languages = ["echo-rust", "echo-go", "echo-as"];
    let topics = languages.map(|name| topic(name, &built(name), &keys.replace("NAME", name)));
    fixture.manifest("", &topics);
    let daemon = start(&fixture);
    for name in languages {
        let script = "--header=script=config region; config key; config token";
        fixture.duebox(&["push", name, "{}", "--id", name, script]);
        daemon.wait_for_line(name, |line| settled_as(line, "done") && line.has("job_id", name));
        let lines: Vec<String> = handler_lines(&daemon)
            .into_iter()
            .filter(|line| line.id == name)
            .map(|line| line.text)
            .collect();
        let wanted = [
            "config region=eu",
            "config key=hunter-of-all",
            "config token=swordfish-of-the-environment",
        ];
        assert_eq!(lines, wanted, "{name}");
    }
}

#[test]
fn check_shows_grants_and_the_sources_of_secrets() {
    let fixture = Fixture::new();
    fixture.write("key.wat", compares("key"));
    fixture.write("key", "hunter-unseen\n");
    let keys = "[topics.work.sandbox]\nhttp = [\"https://api.example\"]\nhttp_private = [\"10.0.0.0/8\"]\n\
        kv = true\npush = []\nconfig = { region = \"eu\" }\nenv = { MODE = \"x\" }\n\
        dirs = { \"/data\" = \".\" }\nsecrets = { key = { file = \"key\" } }";
    fixture.manifest("", &[topic("work", "key.wat", keys), "[topics.pulled]\n".to_owned()]);
    let reported: Value = serde_json::from_str(&fixture.duebox(&["check", "--json"])).unwrap();
    let grants = &reported["topics"][1]["grants"];
    assert_eq!(reported["topics"][0]["grants"], Value::Null);
    assert_eq!(grants["http"][0], "https://api.example");
    assert_eq!(grants["http_private"][0], "10.0.0.0/8");
    assert_eq!((&grants["http_body_bytes"], &grants["kv"]), (&1_048_576.into(), &true.into()));
    assert_eq!((&grants["config"][0], &grants["env"][0]), (&"region".into(), &"MODE".into()));
    let key = grants["secrets"]["key"].as_str().unwrap();
    assert!(key.starts_with("file ") && key.ends_with("/key"), "{key}");
    let text = fixture.duebox(&["check"]);
    for words in ["nothing: every call is denied", "/data is ", "key from the file ", "region"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!(reported.to_string() + &text).contains("hunter-unseen"));

    // Without the secret, `push` accepts the manifest and `run` refuses it.
    fs::remove_file(fixture.path("key")).unwrap();
    fixture.duebox(&["push", "work", "x"]);
    push(&fixture, "work", "plain", 0);
    assert_eq!(fixture.store().live_count("work"), 2);
}
