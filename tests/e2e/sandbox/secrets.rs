//! Secrets: read from a variable or a file, given anew when the file changes, and shown by nothing that
//! Duebox prints.

use std::fs;
use std::os::unix::fs::symlink;

use duebox_harness::{Daemon, LogLine};
use serde_json::Value;

use crate::support::fixture::{Ground, built, topic};
use crate::support::log::{said, settled_as};
use crate::support::producer::{push, push_payload};

/// Acks a job whose payload is what the config value of this name is, and nacks any other.
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

/// Puts a secret where Kubernetes would: `mount/key → ..data/key`, `..data → ..N`, and `..data` is swapped.
fn mount(ground: &Ground, version: usize, secret: &str) {
    let mount = ground.path("mount");
    let folder = format!("..{version}");
    fs::create_dir_all(mount.join(&folder)).unwrap();
    fs::write(mount.join(&folder).join("key"), format!("{secret}\n")).unwrap();
    symlink(&folder, mount.join("..data_tmp")).unwrap();
    fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
    if version == 0 {
        symlink("..data/key", mount.join("key")).unwrap();
    }
}

fn start(ground: &Ground) -> Daemon {
    let daemon = Daemon::start_with(&ground.path("duebox.toml"), |command| {
        command.env("E2E_TOKEN", "swordfish-of-the-environment");
    });
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    daemon
}

/// Runs one job with this payload, and answers what became of it.
fn settled(ground: &Ground, daemon: &Daemon, topic: &str, id: &str, payload: &str) -> String {
    push_payload(ground, topic, id, payload);
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
fn a_secret_that_changes_reaches_the_next_job_and_shows_itself_nowhere() {
    let ground = Ground::new();
    ground.write("key.wat", compares("key"));
    ground.write("token.wat", compares("token"));
    mount(&ground, 0, "hunter-the-first");
    let topics = [topic("work", "key.wat", SECRETS), topic("other", "token.wat", SECRETS)];
    ground.manifest("", &topics);
    let mut daemon = start(&ground);
    let ends = |topic: &str, id: &str, payload: &str| settled(&ground, &daemon, topic, id, payload);
    assert_eq!(ends("work", "a", "hunter-the-first"), "done");
    assert_eq!(ends("other", "b", "swordfish-of-the-environment"), "done");

    // By the swap of a link: both topics have it, and neither module is another.
    mount(&ground, 1, "hunter-the-second");
    wait_for_new_secrets(&daemon, 2);
    assert_eq!(ends("work", "c", "hunter-the-second"), "done");
    assert_eq!(ends("work", "d", "hunter-the-first"), "dead");
    assert_eq!(ends("other", "e", "swordfish-of-the-environment"), "done");

    // Gone: the manifest is refused and everything goes on; back, in place: it is taken.
    fs::remove_file(ground.path("mount/key")).unwrap();
    let refused = |line: &LogLine| line.message().starts_with("the manifest is refused");
    let warning = daemon.wait_for_line("the warning", refused);
    assert!(warning.text().contains("mount/key"), "{}", warning.text());
    assert_eq!(ends("work", "f", "hunter-the-second"), "done");
    ground.write("mount/key", "hunter-the-third");
    wait_for_new_secrets(&daemon, 4);
    assert_eq!(ends("work", "g", "hunter-the-third"), "done");

    assert_eq!(daemon.count(|line| line.message().starts_with("a new module serves")), 0);
    let mut shown: Vec<String> = daemon.lines().iter().map(|line| line.text().to_owned()).collect();
    for words in [&["stats"][..], &["stats", "--json"], &["doctor"], &["dead", "list", "work"]] {
        shown.push(ground.duebox(words));
    }
    assert!(daemon.terminate().success());
    for secret in ["hunter-the-first", "hunter-the-second", "hunter-the-third", "swordfish-of"] {
        let shows = shown.iter().find(|text| text.contains(secret));
        assert!(shows.is_none(), "{shows:?}");
    }
}

#[test]
fn a_manifest_that_waits_for_a_secret_is_taken_when_it_comes() {
    let ground = Ground::new();
    ground.write("key.wat", compares("key"));
    ground.manifest("", &[topic("work", "key.wat", "max_attempts = 1")]);
    let daemon = start(&ground);
    assert_eq!(settled(&ground, &daemon, "work", "a", "hunter-at-last"), "dead");
    let wanted = "max_attempts = 1\nsandbox.secrets = { key = { file = \"late\" } }";
    ground.manifest("", &[topic("work", "key.wat", wanted)]);
    daemon
        .wait_for_line("the warning", |line| line.message().starts_with("the manifest is refused"));
    ground.write("late", "hunter-at-last");
    daemon.wait_for_line("the reload", |line| line.message() == "the manifest is reloaded");
    assert_eq!(settled(&ground, &daemon, "work", "b", "hunter-at-last"), "done");
}

#[test]
fn a_job_that_runs_keeps_the_secret_it_started_with() {
    let ground = Ground::new();
    fs::create_dir(ground.path("mount")).unwrap();
    ground.write("mount/key", "hunter-before");
    ground.write("naps.wat", naps_and_compares());
    let keys = "max_attempts = 1\nsandbox.secrets = { key = { file = \"mount/key\" } }";
    ground.manifest("", &[topic("work", "naps.wat", keys)]);
    let daemon = start(&ground);
    push_payload(&ground, "work", "a", "hunter-before");
    daemon.wait_for_line("it runs", |line| line.has("target", "handler"));
    ground.write("mount/key", "hunter-after-it");
    wait_for_new_secrets(&daemon, 1);
    assert_eq!(daemon.count(|line| line.has("job_id", "a") && settled_as(line, "done")), 0);
    daemon.wait_for_line("its end", |line| settled_as(line, "done") && line.has("job_id", "a"));
    assert_eq!(settled(&ground, &daemon, "work", "b", "hunter-after-it"), "done");
}

/// Says that it runs, naps for two seconds, and then does what `compares("key")` does.
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
fn config_and_secrets_are_read_alike_in_every_language() {
    let ground = Ground::new();
    ground.write("key", "hunter-of-all\n");
    let keys = "[topics.\"NAME\".sandbox]\nconfig = { region = \"eu\" }\n\
        secrets = { key = { file = \"key\" }, token = { env = \"E2E_TOKEN\" } }";
    let languages = ["echo-rust", "echo-go", "echo-as"];
    let topics = languages.map(|name| topic(name, &built(name), &keys.replace("NAME", name)));
    ground.manifest("", &topics);
    let daemon = start(&ground);
    for name in languages {
        let script = "--header=script=config region; config key; config token";
        ground.duebox(&["push", name, "{}", "--id", name, script]);
        daemon.wait_for_line(name, |line| settled_as(line, "done") && line.has("job_id", name));
        let lines: Vec<String> = said(&daemon)
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
fn check_shows_grants_by_name_and_secrets_by_their_place() {
    let ground = Ground::new();
    ground.write("key.wat", compares("key"));
    ground.write("key", "hunter-unseen\n");
    let keys = "[topics.work.sandbox]\nhttp = [\"https://api.example\"]\nhttp_private = [\"10.0.0.0/8\"]\n\
        kv = true\npush = []\nconfig = { region = \"eu\" }\nenv = { MODE = \"x\" }\n\
        dirs = { \"/data\" = \".\" }\nsecrets = { key = { file = \"key\" } }";
    ground.manifest("", &[topic("work", "key.wat", keys), "[topics.pulled]\n".to_owned()]);
    let told: Value = serde_json::from_str(&ground.duebox(&["check", "--json"])).unwrap();
    let grants = &told["topics"][1]["grants"];
    assert_eq!(told["topics"][0]["grants"], Value::Null);
    assert_eq!(grants["http"][0], "https://api.example");
    assert_eq!(grants["http_private"][0], "10.0.0.0/8");
    assert_eq!((&grants["http_body_bytes"], &grants["kv"]), (&1_048_576.into(), &true.into()));
    assert_eq!((&grants["config"][0], &grants["env"][0]), (&"region".into(), &"MODE".into()));
    let key = grants["secrets"]["key"].as_str().unwrap();
    assert!(key.starts_with("file ") && key.ends_with("/key"), "{key}");
    let text = ground.duebox(&["check"]);
    for words in ["nothing: every call is denied", "/data is ", "key from the file ", "region"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!(told.to_string() + &text).contains("hunter-unseen"));

    // Without its secret the manifest is good enough to push by, and not to run by.
    fs::remove_file(ground.path("key")).unwrap();
    ground.duebox(&["push", "work", "x"]);
    push(&ground, "work", "plain", 0);
    assert_eq!(ground.store().live_count("work"), 2);
}
