//! Topics with a key of a wrong type: every loop and every view goes on with the other topics, and names these.

use std::collections::BTreeSet;
use std::time::Duration;

use duebox_harness::{Daemon, eventually};
use redis::cmd;
use serde_json::Value;

use crate::support::client::{address, get};
use crate::support::exposition::metrics;
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::settled_as;
use crate::support::producer::{Push, push, push_each, push_many};
use crate::support::redis_state::{Store, key};

/// All keys of a topic.
const KEYS: [&str; 32] = [
    "jobs",
    "opts",
    "pending",
    "ready",
    "unack",
    "retry",
    "blocked",
    "blocked:at",
    "turns",
    "turns:of",
    "attempts",
    "errors",
    "dead",
    "dead:jobs",
    "dead:opts",
    "dead:info",
    "recordings",
    "recordings:at",
    "done",
    "done:jobs",
    "done:info",
    "done:result",
    "unique",
    "outbox",
    "inbox",
    "ticks",
    "kv",
    "kv:rev",
    "kv:at",
    "kv:calls",
    "meta",
    "holders",
];
/// Keys that the loops read even if a topic has no jobs.
const ALWAYS_READ: [&str; 4] = ["pending", "unack", "retry", "meta"];
/// Keys that views count.
const COUNTED: [&str; 10] =
    ["pending", "ready", "blocked", "unack", "retry", "dead", "done", "unique", "outbox", "meta"];
/// A score long ago: a due time, the end of a mark; as a token, an expired lease.
const LONG_AGO: u64 = 1_763_740_800_000;

/// How a sick topic meets the daemon: its key is wrong before the start, after it, in a topic of pull
/// consumers, or in a topic that the manifest does not contain.
const KINDS: [&str; 4] = ["early", "late", "pull", "gone"];

/// The topic of this kind whose key of this name has a wrong type. It sorts before the healthy ones.
fn sick(kind: &str, name: &str) -> String {
    format!("a-{kind}.{}", name.replace(':', "_"))
}

fn poison(store: &Store, kind: &str) {
    for name in KEYS {
        let sick = sick(kind, name);
        let _: () = store.ask(cmd("SET").arg(key(&sick, name)).arg("a text"));
        let _: i64 = store.ask(cmd("SADD").arg("duebox:topics").arg(&sick));
    }
}

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("quick.wat", Handler::logs("ran").wat());
    let mut topics = Vec::new();
    for name in KEYS {
        topics.push(topic(&sick("early", name), "quick.wat", ""));
        topics.push(topic(&sick("late", name), "quick.wat", ""));
        topics.push(format!("[topics.\"{}\"]\n", sick("pull", name)));
    }
    topics.push(topic("z-work", "quick.wat", "max_pending = 1000\nretention = \"1s\""));
    topics.push("[topics.z-pull]\n".to_owned());
    topics.push(topic("z-new.*", "quick.wat", ""));
    for (name, target) in [("sick", &*sick("late", "ticks")), ("well", "z-work")] {
        topics.push(format!(
            "[[schedules]]\nname = \"{name}\"\ntopic = \"{target}\"\nevery = \"1h\"\n"
        ));
    }
    fixture.manifest("", &topics);
    fixture
}

/// Leaves in healthy topics what each loop has to find.
fn leave_work(store: &Store) {
    let on = |command: &str, topic: &str, name: &str, words: &[&str]| {
        let _: redis::Value = store.ask(cmd(command).arg(key(topic, name)).arg(words));
    };
    let (then, now) = (LONG_AGO.to_string(), store.now_ms());
    on("ZADD", "z-work", "dead", &[&then, "old"]);
    for name in ["dead:jobs", "dead:info"] {
        on("HSET", "z-work", name, &["old", "{}"]);
    }
    let _: i64 = store.ask(cmd("SADD").arg("duebox:topics").arg("z-gone"));
    for topic in ["z-pull", "z-gone"] {
        on("HSET", topic, "jobs", &["leased", ""]);
        on("ZADD", topic, "unack", &[&then, "leased"]);
    }
    on("ZADD", "z-gone", "unique", &[&then, "mark"]);
    let child = format!("{now} [{{\"topic\":\"z-work\",\"id\":\"child\"}}]");
    on("HSET", "z-gone", "outbox", &[&format!("{now}000:parent"), &child]);
    on("HDEL", "z-work", "meta", &["max_pending"]);
}

fn is_done(daemon: &Daemon, topic: &str, id: &str) -> bool {
    daemon.count(|line| {
        settled_as(line, "done") && line.has("topic", topic) && line.has("job_id", id)
    }) == 1
}

/// How often the log says that Redis refuses a key of the topic.
fn named(daemon: &Daemon, topic: &str) -> usize {
    daemon
        .count(|line| line.message().starts_with("Redis refuses a key") && line.has("topic", topic))
}

#[test]
fn topics_with_broken_keys_stop_no_loop_and_no_view() {
    let fixture = fixture();
    let store = fixture.store();
    poison(&store, "early");
    let mut daemon = fixture.start();
    let at = address(&daemon);
    KINDS.iter().skip(1).for_each(|kind| poison(&store, kind));
    leave_bad_reports(&store);
    leave_work(&store);
    daemon.signal("HUP");
    push(&fixture, "z-work", "plain", 0);
    push(&fixture, "z-new.eu", "found", 0);

    eventually("a plain push is found", || is_done(&daemon, "z-work", "plain"));
    eventually("a topic of a pattern is found", || is_done(&daemon, "z-new.eu", "found"));
    eventually("a follow-up is relayed", || is_done(&daemon, "z-work", "child"));
    eventually("dead jobs are pruned", || store.stage("z-work", "dead").is_empty());
    eventually("marks are pruned", || store.stage("z-gone", "unique").is_empty());
    eventually("an unbound topic's lease ends", || {
        store.stage("z-gone", "retry").contains("leased")
    });
    eventually("a pull topic's lease ends", || store.stage("z-pull", "unack").is_empty());
    eventually("limits are restored", || {
        fixture.redis.cli(&["HGET", &key("z-work", "meta"), "max_pending"]) == "1000"
    });
    for name in ALWAYS_READ {
        for kind in KINDS {
            let sick = sick(kind, name);
            eventually("the sick topic is named", || named(&daemon, &sick) > 0);
        }
    }
    views_show_every_topic(&fixture, at);
    for name in KEYS {
        for kind in KINDS {
            let sick = sick(kind, name);
            assert!(named(&daemon, &sick) <= 1, "{sick} is named more than once");
        }
    }
    assert_eq!(daemon.count(|line| line.message().starts_with("Redis fails")), 0);

    fixture.duebox(&["doctor", "--repair"]);
    for name in KEYS {
        let names = [sick("early", name), sick("late", name)];
        names.iter().for_each(|name| push(&fixture, name, "after", 0));
        for sick in names {
            eventually("a repaired topic works", || is_done(&daemon, &sick, "after"));
        }
    }
    assert!(daemon.terminate().success());
}

/// Leaves reports of daemons that are not reports.
fn leave_bad_reports(store: &Store) {
    let _: i64 = store.ask(cmd("RPUSH").arg("duebox:runner:list").arg("a"));
    let _: () = store.ask(cmd("SET").arg("duebox:runner:bytes").arg(b"\xff\xfe"));
    let _: () = store.ask(cmd("SET").arg("duebox:runner:json").arg("{\"topics\":7}"));
    let far = store.now_ms() + 3_600_000;
    for name in ["list", "bytes", "json"] {
        let _: i64 = store.ask(cmd("ZADD").arg("duebox:runners").arg(far).arg(name));
    }
}

fn views_show_every_topic(fixture: &Fixture, at: std::net::SocketAddr) {
    let stats: Value = serde_json::from_str(&fixture.duebox(&["stats", "--json"])).unwrap();
    assert_eq!(stats["runners"].as_array().unwrap().len(), 1);
    assert_eq!(
        stats["unreadable"],
        serde_json::json!(["duebox:runner:bytes", "duebox:runner:list"])
    );
    let listed = get(at, "/v1/topics");
    assert_eq!(listed.status, 200, "{}", listed.text());
    for shown in [&stats["topics"], &listed.json()["topics"]] {
        let of = |name: &str| {
            let all = shown.as_array().unwrap();
            all.iter().find(|topic| topic["topic"] == name).unwrap_or_else(|| panic!("{name}"))
        };
        assert!(of("z-work")["fault"].is_null());
        assert_eq!(
            (of("z-pull")["ready"].as_u64(), of("z-work")["dead"].as_u64()),
            (Some(1), Some(0))
        );
        for (kind, name) in KINDS.iter().flat_map(|kind| COUNTED.map(|name| (kind, name))) {
            let fault = of(&sick(kind, name))["fault"].as_str().unwrap_or_default();
            assert!(fault.contains("WRONGTYPE"), "{kind} {name}: {fault:?}");
        }
    }
    let text = fixture.duebox(&["stats"]);
    assert!(text.contains("duebox doctor a-late.meta") && text.contains("z-work"), "{text}");
    assert_eq!(get(at, "/v1/topics/a-late.meta").status, 200);
    assert_eq!(get(at, "/v1/schedules").json()["schedules"].as_array().unwrap().len(), 2);
    let runners = get(at, "/v1/runners");
    assert_eq!(runners.status, 200, "{}", runners.text());
    assert_eq!(runners.json()["runners"].as_array().unwrap().len(), 1, "{}", runners.text());
    let metrics = metrics(at);
    assert_eq!(metrics.value("duebox_redis_up", &[]), 1.0);
    assert_eq!(metrics.all("duebox_queue_jobs", &[("topic", "z-work")]).count(), 8);
    assert!(metrics.value("duebox_topic_errors_total", &[("topic", "a-late.pending")]) > 0.0);
    assert!(metrics.value("duebox_topics_sick", &[]) >= (ALWAYS_READ.len() * KINDS.len()) as f64);
    doctor_names_every_key(fixture);
}

fn doctor_names_every_key(fixture: &Fixture) {
    let output = std::process::Command::new(duebox_harness::duebox_binary())
        .args([
            "--manifest",
            &fixture.path("duebox.toml").display().to_string(),
            "doctor",
            "--json",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found: BTreeSet<String> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["kind"] == "wrong_type")
        .map(|line| line["subject"].as_str().unwrap().to_owned())
        .collect();
    for (kind, name) in KINDS.iter().flat_map(|kind| KEYS.map(|name| (kind, name))) {
        assert!(found.contains(&key(&sick(kind, name), name)), "{kind} {name}: {text}");
    }
}

/// The set of known topics and the list of runners are advisory: nothing stops without them.
#[test]
fn topics_are_served_while_the_set_of_topics_is_unusable() {
    let fixture = Fixture::new();
    fixture.write("quick.wat", Handler::logs("ran").wat());
    let topics = [topic("work", "quick.wat", ""), topic("new.*", "quick.wat", "")];
    fixture.manifest("", &topics);
    let store = fixture.store();
    for name in ["topics", "runners"] {
        let _: () = store.ask(cmd("SET").arg(format!("duebox:{name}")).arg("a text"));
    }
    let daemon = fixture.start();
    let at = address(&daemon);
    push(&fixture, "work", "plain", 0);
    push(&fixture, "new.eu", "found", 0);
    eventually("a plain push is found", || is_done(&daemon, "work", "plain"));
    eventually("a topic of a pattern is found", || is_done(&daemon, "new.eu", "found"));
    fixture.duebox(&["push", "work", "--id", "pushed"]);
    eventually("a push is stored", || is_done(&daemon, "work", "pushed"));
    let stats: Value = serde_json::from_str(&fixture.duebox(&["stats", "--json"])).unwrap();
    assert_eq!(stats["unreadable"], serde_json::json!(["duebox:topics", "duebox:runners"]));
    assert_eq!(get(at, "/v1/topics").json()["topics"][0]["topic"], "work");
    let said = |text: &str| daemon.count(|line| line.message().starts_with(text));
    eventually("both are named", || {
        said("Redis refuses the set of known topics") == 1
            && said("the status report cannot be published") == 1
    });
    assert_eq!(said("Redis fails"), 0);
}

/// With two turns under way, the one with verdicts succeeds after the one that leases has failed. That does not say that
/// the topic works again.
#[test]
fn verdicts_that_are_settled_do_not_hide_that_nothing_can_be_leased() {
    const JOBS: usize = 100_000;
    let fixture = Fixture::new();
    let acks = r#"(module (memory (export "memory") 1)
        (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;
    fixture.write("quick.wat", acks);
    fixture.manifest("", &[topic("work", "quick.wat", "")]);
    let store = fixture.store();
    let daemon = fixture.start();
    let (meta, ready, saved) = (key("work", "meta"), key("work", "ready"), key("work", "saved"));
    let _: i64 = store.ask(cmd("HSET").arg(&meta).arg("paused").arg(1));
    push_many(&fixture, "work", JOBS);
    let left = || store.ask::<usize>(cmd("ZCARD").arg(&ready));
    eventually("all are ready", || left() == JOBS);
    let _: i64 = store.ask(cmd("HDEL").arg(&meta).arg("paused"));
    let usable = || daemon.count(|line| line.message() == "the keys of the topic are usable again");
    let refused = || {
        let metrics = metrics(address(&daemon));
        metrics.value("duebox_topic_errors_total", &[("topic", "work")])
    };
    let mut before = JOBS;
    for time in 1..=5 {
        eventually("it drains", || left() < before);
        fixture.redis.pipe(&format!("MULTI\nRENAME {ready} {saved}\nSET {ready} text\nEXEC\n"));
        eventually("the topic is named", || named(&daemon, "work") >= time);
        let at_first = refused();
        eventually("further turns are refused", || refused() >= at_first + 3.0);
        assert_eq!((named(&daemon, "work"), usable()), (time, time - 1));
        fixture.redis.pipe(&format!("MULTI\nDEL {ready}\nRENAME {saved} {ready}\nEXEC\n"));
        before = left();
        eventually("the topic is said to work", || usable() == time);
    }
    eventually("all are done", || store.ask::<usize>(cmd("HLEN").arg(key("work", "jobs"))) == 0);
}

/// Jobs run while one key gets a wrong type: verdicts that would write to it wait, the others are settled at once. No
/// lease expires meanwhile, so each job runs once.
#[test]
fn verdicts_for_a_broken_key_hold_up_no_others() {
    let fixture = Fixture::new();
    let nap = Duration::from_secs(2);
    fixture.write("nacks.wat", Handler::logs("ran").naps(nap).nacks_odd().wat());
    fixture.write("drops.wat", Handler::logs("ran").naps(nap).drops_odd().wat());
    let rules = "concurrency = 40\ndone_retention = \"1h\"\nbackoff = [\"1h\"]";
    // The broken key, the handler, where failed jobs go, and the verdicts that need the broken key.
    let cases = [
        ("retry", "nacks.wat", "retry", "-fail"),
        ("done", "nacks.wat", "retry", "-ack"),
        ("dead", "drops.wat", "dead", "-fail"),
    ];
    fixture.manifest("", &cases.map(|(broken, handler, ..)| topic(broken, handler, rules)));
    let store = fixture.store();
    let daemon = fixture.start();
    for (broken, ..) in cases {
        let jobs = (0..20)
            .flat_map(|number| [("ack", "even"), ("fail", "odd")].map(|kind| (number, kind)));
        let jobs = jobs.map(|(number, (verdict, payload))| Push {
            topic: broken.to_owned(),
            id: format!("{number}-{verdict}"),
            payload: payload.to_owned(),
            due_ms: 0,
        });
        push_each(&fixture, &jobs.collect::<Vec<_>>());
    }
    let runs = || daemon.count(|line| line.message() == "ran");
    eventually("all run", || runs() == 120);
    for (broken, ..) in cases {
        let _: () = store.ask(cmd("SET").arg(key(broken, broken)).arg("a text"));
    }
    for (broken, _, _, waits) in cases {
        eventually(&format!("only what needs {broken} waits"), || {
            let leased = store.stage(broken, "unack");
            leased.len() == 20 && leased.iter().all(|id| id.ends_with(waits))
        });
        let _: i64 = store.ask(cmd("DEL").arg(key(broken, broken)));
    }
    for (broken, _, failed, _) in cases {
        eventually("all are settled", || store.stage(broken, "unack").is_empty());
        assert_eq!(store.stage(broken, failed).len(), 20);
    }
    assert_eq!(runs(), 120);
}
