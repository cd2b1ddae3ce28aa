//! A daemon and the commands on a cluster of three primaries.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Instant;

use duebox_harness::{Daemon, Lateness, LogLine, RedisCluster, duebox_binary, eventually};
use serde_json::Value;

use crate::support::client::{address, get};
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
        let taken: Value = taken.unwrap_or_default();
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
    assert_eq!(shown.matches(" (5461 slots)").count(), 2, "{shown}");
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
    let dead = format!("127.0.0.1:{}", cluster.primaries()[at].port());
    let lateness = Lateness::measure();
    cluster.primaries()[at].stop();
    cluster.wait_for_successor_of(at);
    let (writable_at, before) = (Instant::now(), daemon.count(is_verdict));
    eventually("work goes on", || daemon.count(is_verdict) > before);
    lateness.check_resumed("death of a primary", writable_at.elapsed());
    let is_about_it = |line: &LogLine, message: &str| {
        line.has("primary", &dead) && line.message().starts_with(message)
    };
    let line = daemon.wait_for_line("the primary that is away", |line| {
        is_about_it(line, "a primary of the cluster is away")
    });
    assert!(!line.str("error").is_empty(), "{}", line.text());
    eventually("every job ran", || {
        let ran: BTreeSet<String> =
            handler_lines(&daemon).into_iter().map(|line| line.id).collect();
        ran.len() == JOBS
    });
    daemon.wait_for_line("its replacement", |line| {
        is_about_it(line, "a primary of the cluster was away and has been replaced")
    });
    let metrics = String::from_utf8(get(address(&daemon), "/metrics").body).unwrap();
    let successor = format!("127.0.0.1:{}", cluster.replicas()[at].port());
    for (name, primary, value) in [
        ("redis_primary_up", &dead, 0),
        ("redis_primary_up", &successor, 1),
        ("redis_primary_outages_total", &dead, 1),
        ("redis_primary_outages_total", &successor, 0),
    ] {
        let line = format!("duebox_{name}{{primary=\"{primary}\"}} {value}");
        assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
    }
    assert!(daemon.terminate().success());
    assert!(verdicts(&daemon).iter().all(|verdict| verdict.attempt == 1), "an attempt was spent");
}

/// Each primary is looked at, and what is wrong with one is said with its address.
#[test]
fn a_primary_that_cannot_hold_jobs_is_named() {
    let mut cluster = RedisCluster::start(3);
    let fixture = fixture_on(&cluster);
    let places: Vec<String> =
        cluster.primaries().iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    let second = &cluster.primaries()[1];
    second.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let mut daemon = Daemon::start(&fixture.path("duebox.toml"));
    assert_eq!(daemon.wait_exit().code(), Some(1));
    let is_refusal =
        |line: &LogLine| line.text().contains(&places[1]) && line.text().contains("allkeys-lru");
    assert!(daemon.count(is_refusal) > 0, "{:?}", daemon.lines());
    let (code, report) = doctor(&fixture);
    let unfit = report["unfit"].as_array().unwrap();
    assert_eq!((code, unfit.len()), (Some(1), 1), "{report}");
    assert!(unfit[0].as_str().unwrap().starts_with(&format!("{}: ", places[1])), "{report}");
    second.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);

    let third = &cluster.primaries()[2];
    let memory = third.cli(&["INFO", "memory"]);
    let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let most = used.trim().parse::<u64>().unwrap() * 11 / 10;
    third.cli(&["CONFIG", "SET", "maxmemory", &most.to_string()]);
    let (code, report) = doctor(&fixture);
    let warnings = report["warnings"].as_array().unwrap();
    let of = |text: &str| -> Vec<&str> {
        let texts = warnings.iter().filter_map(|warning| warning.as_str());
        texts.filter(|warning| warning.contains(text)).collect()
    };
    assert_eq!(code, Some(0), "{report}");
    let short = of("% of maxmemory");
    assert!(short.len() == 1 && short[0].starts_with(&format!("{}: ", places[2])), "{report}");
    let forgetful = of("does not persist data");
    assert_eq!(forgetful.len(), 3, "{report}");
    assert!(places.iter().all(|place| forgetful.iter().any(|text| text.starts_with(place))));
}

/// The exit code and the report of `duebox doctor --redis`.
fn doctor(fixture: &Fixture) -> (Option<i32>, Value) {
    let mut command = Command::new(duebox_binary());
    command.args(["doctor", "--redis", "--json"]).current_dir(fixture.path(""));
    let output =
        command.env_remove("DUEBOX_MANIFEST").env_remove("DUEBOX_REDIS_URL").output().unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|error| panic!("{error}: {output:?}")))
}
