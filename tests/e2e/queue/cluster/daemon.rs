//! A daemon and the commands on a cluster of three primaries.

use std::collections::BTreeSet;

use duebox_harness::{Daemon, RedisCluster, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{handler_lines, is_verdict, settled_as, verdicts};
use crate::support::puppet::FAN;
use crate::support::redis_state::key;

const REPLICATED: &str = "work";

/// A parent with children in other slots, a topic that fails, a pattern, a topic for consumers, and a schedule.
fn fixture_on(cluster: &RedisCluster) -> Fixture {
    let fixture = Fixture::new().reached_at(cluster.url());
    fixture.write("fan.wat", FAN);
    fixture.write("ran.wat", Handler::logs("ran").wat());
    let grant = "[topics.\"order\".sandbox]\npush = [\"kid.*\"]";
    let schedule = "[[schedules]]\nname = \"beat\"\ntopic = \"report\"\ncron = \"* * * * * *\"\n";
    let topics = [
        topic("order", "fan.wat", &format!("max_attempts = 3\nbackoff = \"100ms\"\n{grant}")),
        topic("kid.one", "ran.wat", ""),
        topic("kid.two", "ran.wat", ""),
        topic("sms.*", "ran.wat", ""),
        topic("report", "ran.wat", "shards = 3"),
        "[topics.\"fax\"]\n".to_owned(),
        schedule.to_owned(),
    ];
    fixture.manifest("", &topics);
    fixture
}

fn ran(daemon: &Daemon, topic: &str) -> usize {
    handler_lines(daemon).iter().filter(|line| line.topic == topic).count()
}

#[test]
fn a_daemon_serves_a_cluster() {
    let cluster = RedisCluster::start(3);
    let fixture = fixture_on(&cluster);
    let mut daemon = fixture.start();
    // A payload with n fails once: a retry, and then the follow-ups.
    fixture.duebox(&["push", "order", "now", "--id", "p"]);
    eventually("the follow-ups ran", || {
        ran(&daemon, "kid.one") == 2 && ran(&daemon, "kid.two") == 1
    });
    assert_eq!(daemon.count(|line| settled_as(line, "retry")), 1);
    fixture.duebox(&["push", "sms.eu", "--id", "a"]);
    eventually("the topic of a pattern is found", || ran(&daemon, "sms.eu") == 1);
    eventually("ticks ran", || ran(&daemon, "report") >= 2);
    fixture.duebox(&["push", "fax", "--id", "f"]);
    let mut token = String::new();
    eventually("the job is pulled", || {
        let taken = fixture.duebox(&["pull", "fax", "--json"]);
        let taken = taken.lines().next().and_then(|line| serde_json::from_str(line).ok());
        let taken: serde_json::Value = taken.unwrap_or_default();
        token = taken["token"].as_str().unwrap_or_default().to_owned();
        !token.is_empty()
    });
    fixture.duebox(&["settle", "fax", "f", &token, "ack"]);
    fixture.duebox(&["push", "order", "now", "--id", "later", "--in", "1h"]);
    assert!(fixture.duebox(&["get", "order", "later"]).contains("pending"));
    fixture.duebox(&["cancel", "order", "later"]);
    let stats = fixture.duebox(&["stats"]);
    for name in ["order", "kid.one", "kid.two", "sms.eu", "report", "fax"] {
        assert!(stats.lines().any(|line| line.starts_with(name)), "{name}: {stats}");
    }
    fixture.duebox(&["doctor"]);
    assert!(fixture.duebox(&["schedules"]).contains("beat"));
    let shown = fixture.duebox(&["doctor", "--redis"]);
    assert!(shown.contains("cluster      3 primaries: "), "{shown}");
    assert!(daemon.terminate().success());
}

/// The jobs of one topic move to the replica of a dead primary and run there.
#[test]
fn a_daemon_survives_the_death_of_a_primary() {
    const JOBS: usize = 600;
    let mut cluster = RedisCluster::with_replicas(3);
    let fixture = Fixture::new().reached_at(cluster.url());
    fixture
        .write("work.wat", Handler::logs("ran").naps(std::time::Duration::from_millis(10)).wat());
    fixture.manifest("lease = \"5s\"", &[topic(REPLICATED, "work.wat", "concurrency = 2")]);
    let mut daemon = fixture.start();
    let jobs: String =
        (0..JOBS).map(|n| format!("{{\"id\":\"{n}\",\"payload\":\"x\"}}\n")).collect();
    fixture.write("jobs.ndjson", jobs);
    fixture.duebox(&["push", REPLICATED, "--jobs", "jobs.ndjson"]);
    let at = cluster.primary_of(&key(REPLICATED, "jobs"));
    let last = format!("SET {} x\nWAIT 1 30000\n", key(REPLICATED, "last"));
    assert_eq!(cluster.primaries()[at].pipe(&last), ["OK", "1"], "the replica has the jobs");
    eventually("a part is settled", || daemon.count(is_verdict) >= JOBS / 5);
    cluster.primaries()[at].stop();
    eventually("every job ran", || {
        let ran: BTreeSet<String> =
            handler_lines(&daemon).into_iter().map(|line| line.id).collect();
        ran.len() == JOBS
    });
    assert!(daemon.terminate().success());
    assert!(verdicts(&daemon).iter().all(|verdict| verdict.attempt == 1), "an attempt was spent");
}
