//! A topic that is split over slots of Redis: each job runs once wherever it was pushed, and a change of
//! the number of shards loses none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use duebox_harness::{Daemon, eventually};
use serde_json::Value;

use crate::support::fixture::{Ground, topic, up};
use crate::support::handler::Handler;
use crate::support::log::{is_said, said, settled_as, tally, verdicts};
use crate::support::producer::push_many;

const TOPIC: &str = "work";

fn ground() -> Ground {
    let ground = Ground::new();
    ground.write("one.wat", Handler::says("ran").wat());
    ground
}

/// Writes a manifest that splits the topic over so many shards.
fn split(ground: &Ground, shards: u32, keys: &str) {
    ground.manifest("", &[topic(TOPIC, "one.wat", &format!("shards = {shards}\n{keys}"))]);
}

/// Pushes jobs under the ids `name-1`, `name-2` … and answers what came of them, by the word.
fn push_lines(ground: &Ground, name: &str, count: usize) -> BTreeMap<String, u64> {
    let mut lines = String::new();
    for n in 0..count {
        writeln!(lines, "{n}").unwrap();
    }
    ground.write("lines", lines);
    let words = ["push", TOPIC, "@lines", "--lines", "--id", name, "--if-exists", "keep", "--json"];
    let said: Value = serde_json::from_str(&ground.duebox(&words)).unwrap();
    let tally = said.as_object().unwrap().iter();
    tally.filter_map(|(word, count)| Some((word.clone(), count.as_u64()?))).collect()
}

fn ids(name: &str, count: usize) -> BTreeSet<String> {
    (1..=count).map(|n| format!("{name}-{n}")).collect()
}

fn shard_name(number: u32) -> String {
    if number == 0 { TOPIC.to_owned() } else { format!("{TOPIC}#{number}") }
}

fn live(ground: &Ground, shards: u32) -> Vec<usize> {
    let store = ground.store();
    (0..shards).map(|number| store.live_count(&shard_name(number))).collect()
}

fn assert_each_ran_once(daemon: &Daemon, ids: &BTreeSet<String>) {
    let (said, verdicts) = (said(daemon), verdicts(daemon));
    let ran: BTreeSet<String> = said.iter().map(|line| line.id.clone()).collect();
    assert_eq!(ran, *ids);
    assert!(tally(said.iter().map(|line| &line.id)).values().all(|times| *times == 1));
    assert!(tally(verdicts.iter().map(|verdict| &verdict.id)).values().all(|times| *times == 1));
    // People see the topic, and not its shards.
    assert!(verdicts.iter().all(|verdict| verdict.topic == TOPIC && verdict.settled == "done"));
}

#[test]
fn thousands_of_jobs_over_three_shards_run_once_each() {
    const JOBS: usize = 4_000;
    let ground = ground();
    split(&ground, 3, "");
    let mut daemon = ground.start();
    assert_eq!(push_lines(&ground, "job", JOBS)["pushed"], JOBS as u64);
    // A plain producer that knows nothing of shards, and one that knows the last.
    let mut all = ids("job", JOBS);
    all.extend(push_many(&ground, TOPIC, 500));
    eventually("every job is done", || daemon.count(|line| settled_as(line, "done")) >= JOBS + 500);
    ground.redis.pipe(
        "MULTI\nHSET duebox:{work#2}:jobs last {}\nZADD duebox:{work#2}:pending 0 last\nEXEC\n",
    );
    all.insert("last".to_owned());
    eventually("the last is done", || daemon.count(|line| settled_as(line, "done")) > JOBS + 500);
    assert_eq!(live(&ground, 3), [0, 0, 0]);
    assert!(daemon.terminate().success());
    assert_each_ran_once(&daemon, &all);
    let store = ground.store();
    for number in 0..3 {
        assert_eq!(store.keys(&shard_name(number)), BTreeSet::from(["meta".to_owned()]));
    }
}

/// 4 → 2 → 5, with a backlog at each change.
#[test]
fn nothing_is_lost_when_the_number_of_shards_changes() {
    const ROUND: usize = 400;
    let ground = ground();
    split(&ground, 4, "");
    let mut all = BTreeSet::new();
    let mut last = None;
    for (round, shards) in [4, 2, 5].into_iter().enumerate() {
        split(&ground, shards, "");
        let mut daemon = ground.start();
        if round == 0 {
            ground.duebox(&["pause", TOPIC]);
        }
        // What was pushed under other numbers is known: nothing is pushed twice.
        for earlier in 0..round {
            let again = push_lines(&ground, &format!("round{earlier}"), ROUND);
            assert_eq!(again["kept"], ROUND as u64, "{shards} shards");
        }
        let name = format!("round{round}");
        assert_eq!(push_lines(&ground, &name, ROUND)["pushed"], ROUND as u64);
        all.extend(ids(&name, ROUND));
        if round < 2 {
            assert!(daemon.terminate().success());
            assert_eq!(daemon.count(is_said), 0, "a paused topic ran jobs");
        }
        last = Some(daemon);
    }
    let mut daemon = last.unwrap();
    assert_eq!(live(&ground, 5).iter().sum::<usize>(), all.len());
    let stats: Value = serde_json::from_str(&ground.duebox(&["stats", TOPIC, "--json"])).unwrap();
    let counted = ["pending", "ready"].map(|state| stats["topics"][0][state].as_u64().unwrap());
    assert_eq!(counted.iter().sum::<u64>(), all.len() as u64, "{stats}");
    // One of each round is found, and one is cancelled.
    for round in 0..3 {
        let found = ground.duebox(&["get", TOPIC, &format!("round{round}-7"), "--json"]);
        assert!(found.contains("ready"), "{found}");
        ground.duebox(&["cancel", TOPIC, &format!("round{round}-8")]);
        all.remove(&format!("round{round}-8"));
    }
    ground.duebox(&["resume", TOPIC]);
    eventually("every job is done", || live(&ground, 5).iter().sum::<usize>() == 0);
    assert!(daemon.terminate().success());
    assert_each_ran_once(&daemon, &all);
}

#[test]
fn another_number_waits_for_the_next_start_and_limits_are_shared() {
    let ground = ground();
    split(&ground, 3, "max_running = 10\nmax_pending = 100\nrate = \"30/s\"\nburst = 6");
    let mut daemon = ground.start();
    let rule = |shard: u32, field: &str| {
        ground.redis.cli(&["HGET", &format!("duebox:{{{}}}:meta", shard_name(shard)), field])
    };
    for shard in 0..3 {
        assert_eq!(rule(shard, "max_running"), "4");
        assert_eq!(rule(shard, "max_pending"), "34");
        assert_eq!(rule(shard, "rate"), "100000.000000");
        assert_eq!(rule(shard, "burst"), "2");
    }
    split(&ground, 2, "max_running = 30");
    daemon.wait_for_line("the word about it", |line| {
        line.has("key", "topics.\"work\".shards") && line.message().contains("at the next start")
    });
    eventually("the other rules hold", || rule(2, "max_running") == "10");
    assert_eq!(rule(0, "shards"), "3");
    assert!(daemon.terminate().success());
    let second = ground.start();
    assert_eq!((rule(0, "shards"), rule(0, "shards_seen")), ("2".to_owned(), "3 2".to_owned()));
    // The third shard is served on.
    ground
        .redis
        .pipe("MULTI\nHSET duebox:{work#2}:jobs a {}\nZADD duebox:{work#2}:pending 0 a\nEXEC\n");
    second.wait_for_line("its job", |line| settled_as(line, "done") && line.has("job_id", "a"));
}

/// A runner of another manifest splits the topic over more, and dies: those that are left serve the
/// shards it added.
#[test]
fn shards_that_another_runner_added_are_served_too() {
    let ground = ground();
    split(&ground, 2, "");
    let mut first = ground.start();
    let other = [topic(TOPIC, "one.wat", "shards = 5")];
    let mut second = up(&ground.manifest_named("other.toml", "", &other));
    second.kill();
    const JOBS: usize = 500;
    assert_eq!(push_lines(&ground, "job", JOBS)["pushed"], JOBS as u64);
    eventually("every job is done", || live(&ground, 5).iter().sum::<usize>() == 0);
    assert!(first.terminate().success());
    assert_each_ran_once(&first, &ids("job", JOBS));
}
