//! `redis.durability = "replica"`: a push is not confirmed while no replica has it, and is once one has.

use std::process::Command;

use duebox_harness::{RedisServer, duebox_binary, eventually, only_on_one_server};

use crate::support::client::{address, get, post};
use crate::support::fixture::Fixture;

const TOPICS: &str = "[topics.mail]\n";

/// A manifest of the fixture with this durability.
fn manifest(fixture: &Fixture, durability: &str) {
    let redis =
        format!("[redis]\nurl = \"{}\"\ndurability = \"{durability}\"\n", fixture.redis.url());
    fixture.write("duebox.toml", format!("{redis}[server]\nlisten = \"127.0.0.1:0\"\n{TOPICS}"));
}

/// Runs `duebox` with these words, which must fail; returns its exit code and what it printed.
fn fails(fixture: &Fixture, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(duebox_binary());
    command.args(words).env_remove("DUEBOX_MANIFEST").env_remove("DUEBOX_REDIS_URL");
    let output = command.current_dir(fixture.path("")).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_push_is_confirmed_once_a_replica_has_it() {
    only_on_one_server!(
        "it freezes the replica of one server; the queue tests durability in a cluster"
    );
    let redis = RedisServer::start();
    let replica = redis.replica(&[]);
    let fixture = Fixture::on(redis);
    manifest(&fixture, "replica");
    let mut daemon = fixture.start();
    let at = address(&daemon);
    let push = |id: &str| {
        let path = "/v1/topics/mail/jobs?if_exists=keep";
        post(at, path, &format!(r#"{{"id":"{id}","in":"1h","payload":{{}}}}"#))
    };
    assert_eq!(push("first").status, 201);
    replica.pause();
    let refused = push("second");
    assert_eq!((refused.status, refused.problem().as_str()), (503, "unconfirmed"), "{refused:?}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(get(at, "/v1/topics/mail/jobs/second").status, 200);
    let (code, failed) = fails(&fixture, &["push", "mail", "{}", "--id", "third", "--in", "1h"]);
    assert_eq!(code, Some(1), "{failed}");
    assert!(failed.contains("are stored, but not as redis.durability demands"), "{failed}");
    daemon.wait_for_line("the warning", |line| {
        line.message().starts_with("writes are stored, but not as redis.durability demands")
    });
    replica.resume();
    eventually("the push is confirmed", || push("second").status == 200);
    daemon.wait_for_line("the end", |line| {
        line.message() == "writes are stored as redis.durability demands again"
    });
    let metrics = String::from_utf8(get(at, "/metrics").body).unwrap();
    let short =
        metrics.lines().find(|line| line.contains(r#"redis_copies_total{outcome="short"}"#));
    assert!(short.is_some_and(|line| !line.ends_with(" 0")), "{short:?}");
    let shown = fixture.duebox(&["doctor", "--redis"]);
    assert!(!shown.contains("unconfirmed"), "{shown}");
    assert!(daemon.terminate().success());
}

#[test]
fn a_redis_that_cannot_wait_for_its_disk_is_refused() {
    // A server that can has no append-only file here, and is refused for that.
    let fixture = Fixture::new();
    manifest(&fixture, "disk");
    let (code, failed) = fails(&fixture, &["run"]);
    assert_eq!(code, Some(1), "{failed}");
    assert!(
        failed.contains("cannot be kept") && failed.contains("Redis 7.2 or newer with appendonly"),
        "{failed}"
    );
}
