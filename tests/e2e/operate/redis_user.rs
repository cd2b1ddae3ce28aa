//! Users of Redis with the smallest permissions (ACL): what each role needs is enough, and what is missing is named.

use duebox_harness::{Daemon, eventually, only_on_one_server};
use duebox_queue::Role;

use crate::support::client::{address, get};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::producer::push;
use crate::support::redis_state::key;

const RULES: &str = "max_attempts = 2\nbackoff = \"10ms\"\ndone_retention = \"1h\"\n\
    per_key_concurrency = 1\nunique_for = \"1m\"\nrate = \"1000/s\"\nmax_pending = 1000\nshards = 2\n\
    breaker = { failures = 0 }";

/// A daemon with topics that use most features.
fn manifest(fixture: &Fixture) {
    fixture.write("work.wat", Handler::logs("ran").wat());
    fixture.write("fails.wat", Handler::logs("no").nacks().wat());
    let schedule = "[[schedules]]\nname = \"often\"\ntopic = \"work\"\nevery = \"1s\"\n";
    fixture.manifest(
        "events = 1000\nlease = \"1s\"",
        &[
            topic("work", "work.wat", RULES),
            topic("fails", "fails.wat", RULES),
            "[topics.pulled]\nmax_attempts = 2\n".to_owned(),
            schedule.to_owned(),
        ],
    );
}

#[test]
fn each_role_has_what_it_needs() {
    let fixture = Fixture::new().with_user();
    manifest(&fixture);
    let daemon = fixture.start();
    for id in ["a", "b", "c"] {
        fixture.duebox(&["push", "work", "--id", id, "--key", "k"]);
        fixture.duebox(&["push", "fails", "--id", id]);
    }
    let done =
        |shard: &str| fixture.redis.cli(&["ZCARD", &key(shard, "done")]).parse::<u64>().unwrap();
    eventually!(done("work") + done("work#1") >= 4, "jobs and a tick ran");
    eventually!(
        fixture.duebox(&["dead", "list", "fails"]).lines().count() >= 3,
        "failing jobs are dead"
    );
    fixture.duebox(&["requeue", "fails", "a"]);
    fixture.duebox(&["pause", "work"]);
    fixture.duebox(&["push", "work", "--id", "later", "--in", "1h"]);
    fixture.duebox(&["reschedule", "work", "later", "--in", "2h"]);
    fixture.duebox(&["cancel", "work", "later"]);
    fixture.duebox(&["resume", "work"]);
    fixture.duebox(&["push", "pulled", "--id", "p"]);
    let pulled = fixture.duebox(&["pull", "pulled", "-n", "1", "--consumer", "me", "--json"]);
    let job: serde_json::Value = serde_json::from_str(pulled.trim()).unwrap();
    let token = job["token"].as_str().unwrap();
    fixture.duebox(&["settle", "pulled", "p", token, "ack"]);
    fixture.duebox(&["doctor", "--repair"]);
    fixture.duebox(&["doctor", "--redis"]);
    for words in [&["stats"][..], &["schedules"], &["done", "list", "work"], &["get", "work", "a"]]
    {
        fixture.duebox(words);
    }
    drop(daemon);
    assert_eq!(fixture.refusals(), "");

    fixture.allow("shop", Role::Producer);
    let shop = ["--redis-url", &fixture.url_of("shop")];
    for words in [
        &["push", "work", "--id", "s1", "--in", "1h", "--key", "k"][..],
        &["push", "work", "--id", "s1", "--if-exists", "replace", "--in", "2h"],
        &["reschedule", "work", "s1", "--in", "3h"],
        &["get", "work", "s1"],
        &["cancel", "work", "s1"],
    ] {
        fixture.duebox(&[&shop, words].concat());
    }
    fixture.allow("viewer", Role::Viewer);
    let viewer = ["--redis-url", &fixture.url_of("viewer")];
    for words in [
        &["stats"][..],
        &["stats", "work"],
        &["get", "work", "a"],
        &["dead", "list", "fails"],
        &["done", "list", "work"],
        &["schedules"],
    ] {
        fixture.duebox(&[&viewer, words].concat());
    }
}

/// The daemon then checks less, shows no slow calls, and polls quiet topics.
#[test]
fn what_may_be_left_out_is_not_needed() {
    let fixture = Fixture::new();
    fixture.allow("worker", Role::Daemon);
    let optional = ["-config|get", "-slowlog|get", "-client|tracking"];
    fixture.redis.cli(&[&["ACL", "SETUSER", "worker"][..], &optional].concat());
    let url = fixture.url_of("worker");
    let fixture = fixture.reached_at(url);
    manifest(&fixture);
    let daemon = fixture.start();
    let state: serde_json::Value =
        serde_json::from_slice(&get(address(&daemon), "/v1/redis").body).unwrap();
    assert!(state["slow"].is_null() && state["slow_refused"].is_string(), "{state}");
    fixture.duebox(&["push", "work", "--id", "a"]);
    // This one is not announced.
    push(&fixture, "work", "plain", 0);
    let done =
        |shard: &str| fixture.redis.cli(&["ZCARD", &key(shard, "done")]).parse::<u64>().unwrap();
    eventually!(done("work") + done("work#1") >= 2, "both jobs ran");
}

/// A cluster has database 0 alone.
#[test]
fn another_database_needs_the_permission_to_select_it() {
    only_on_one_server!("a cluster has one database");
    let fixture = Fixture::new();
    fixture.allow("worker", Role::Daemon);
    let url = fixture.url_of("worker");
    let fixture = fixture.reached_at(format!("{}/1", url.trim_end_matches("/0")));
    manifest(&fixture);
    let mut daemon = Daemon::start(&fixture.path("duebox.toml"));
    assert_eq!(daemon.wait_exit().code(), Some(1));
    let told: Vec<String> = daemon.lines().iter().map(|line| line.text().to_owned()).collect();
    assert!(told.concat().contains("select"), "{told:?}");
    fixture.redis.cli(&["ACL", "SETUSER", "worker", "+select"]);
    let _daemon = fixture.start();
    fixture.duebox(&["push", "pulled", "--id", "a"]);
    assert_eq!(fixture.redis.cli(&["-n", "1", "HEXISTS", &key("pulled", "jobs"), "a"]), "1");
}

#[test]
fn a_missing_permission_is_named_at_the_start() {
    let fixture = Fixture::new();
    fixture.allow("worker", Role::Daemon);
    let url = fixture.url_of("worker");
    let fixture = fixture.reached_at(url);
    manifest(&fixture);
    for (rule, back, words) in [
        ("-evalsha", "+evalsha", "it lacks +evalsha;"),
        ("-zadd", "+zadd", "it lacks +zadd;"),
        ("-psubscribe", "+psubscribe", "it lacks +psubscribe &duebox:{*}:wake;"),
        ("-eval_ro", "+eval_ro", "'eval_ro'"),
        ("-script|load", "+script|load", "'script|load'"),
        ("resetkeys", "~duebox:*", "it lacks ~duebox:*;"),
    ] {
        fixture.redis.cli(&["ACL", "SETUSER", "worker", rule]);
        let mut daemon = Daemon::start(&fixture.path("duebox.toml"));
        assert_eq!(daemon.wait_exit().code(), Some(1), "{rule}");
        let is_told = |text: &str| format!("{text};").contains(words) && text.contains("worker");
        let told = daemon.count(|line| is_told(line.text()));
        let lines: Vec<String> = daemon.lines().iter().map(|line| line.text().to_owned()).collect();
        assert_eq!(told, 1, "{rule}: {lines:?}");
        fixture.redis.cli(&["ACL", "SETUSER", "worker", back]);
    }
    drop(fixture.start());
}
