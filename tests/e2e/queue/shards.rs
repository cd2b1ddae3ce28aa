//! A topic with several shards: each job runs once on any shard, and a change of their number loses none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use duebox_harness::{Daemon, eventually};
use serde_json::Value;

use crate::support::fixture::{Fixture, topic, up};
use crate::support::handler::Handler;
use crate::support::log::{handler_lines, is_handler_line, settled_as, tally, verdicts};
use crate::support::producer::push_many;

const TOPIC: &str = "work";

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("one.wat", Handler::logs("ran").wat());
    fixture
}

/// Writes a manifest with this number of shards.
fn split(fixture: &Fixture, shards: u32, keys: &str) {
    fixture.manifest("", &[topic(TOPIC, "one.wat", &format!("shards = {shards}\n{keys}"))]);
}

/// Pushes jobs with the ids `name-1`, `name-2` … and returns the number of each result.
fn push_lines(fixture: &Fixture, name: &str, count: usize) -> BTreeMap<String, u64> {
    let mut lines = String::new();
    for n in 0..count {
        writeln!(lines, "{n}").unwrap();
    }
    fixture.write("lines", lines);
    let words = ["push", TOPIC, "@lines", "--lines", "--id", name, "--if-exists", "keep", "--json"];
    let printed: Value = serde_json::from_str(&fixture.duebox(&words)).unwrap();
    let tally = printed.as_object().unwrap().iter();
    tally.filter_map(|(word, count)| Some((word.clone(), count.as_u64()?))).collect()
}

fn ids(name: &str, count: usize) -> BTreeSet<String> {
    (1..=count).map(|n| format!("{name}-{n}")).collect()
}

fn shard_name(number: u32) -> String {
    if number == 0 { TOPIC.to_owned() } else { format!("{TOPIC}#{number}") }
}

fn live(fixture: &Fixture, shards: u32) -> Vec<usize> {
    let store = fixture.store();
    (0..shards).map(|number| store.live_count(&shard_name(number))).collect()
}

fn assert_each_ran_once(daemon: &Daemon, ids: &BTreeSet<String>) {
    let (printed, verdicts) = (handler_lines(daemon), verdicts(daemon));
    let ran: BTreeSet<String> = printed.iter().map(|line| line.id.clone()).collect();
    assert_eq!(ran, *ids);
    assert!(tally(printed.iter().map(|line| &line.id)).values().all(|times| *times == 1));
    assert!(tally(verdicts.iter().map(|verdict| &verdict.id)).values().all(|times| *times == 1));
    // Commands show the topic, not its shards.
    assert!(verdicts.iter().all(|verdict| verdict.topic == TOPIC && verdict.settled == "done"));
}

#[test]
fn thousands_of_jobs_over_three_shards_run_once_each() {
    const JOBS: usize = 4_000;
    let fixture = fixture();
    split(&fixture, 3, "");
    let mut daemon = fixture.start();
    assert_eq!(push_lines(&fixture, "job", JOBS)["pushed"], JOBS as u64);
    // A plain producer without knowledge of shards, and one that pushes to the last shard.
    let mut all = ids("job", JOBS);
    all.extend(push_many(&fixture, TOPIC, 500));
    eventually("every job is done", || daemon.count(|line| settled_as(line, "done")) >= JOBS + 500);
    fixture.redis.pipe(
        "MULTI\nHSET duebox:{work#2}:jobs last {}\nZADD duebox:{work#2}:pending 0 last\nEXEC\n",
    );
    all.insert("last".to_owned());
    eventually("the last is done", || daemon.count(|line| settled_as(line, "done")) > JOBS + 500);
    assert_eq!(live(&fixture, 3), [0, 0, 0]);
    assert!(daemon.terminate().success());
    assert_each_ran_once(&daemon, &all);
    let store = fixture.store();
    for number in 0..3 {
        assert_eq!(store.keys(&shard_name(number)), BTreeSet::from(["meta".to_owned()]));
    }
}

/// 4 → 2 → 5, with a backlog at each change.
#[test]
fn a_change_of_the_number_of_shards_loses_no_job() {
    const ROUND: usize = 400;
    let fixture = fixture();
    split(&fixture, 4, "");
    let mut all = BTreeSet::new();
    let mut last = None;
    for (round, shards) in [4, 2, 5].into_iter().enumerate() {
        split(&fixture, shards, "");
        let mut daemon = fixture.start();
        if round == 0 {
            fixture.duebox(&["pause", TOPIC]);
        }
        // Ids that were pushed with other numbers of shards are known and not pushed twice.
        for earlier in 0..round {
            let again = push_lines(&fixture, &format!("round{earlier}"), ROUND);
            assert_eq!(again["kept"], ROUND as u64, "{shards} shards");
        }
        let name = format!("round{round}");
        assert_eq!(push_lines(&fixture, &name, ROUND)["pushed"], ROUND as u64);
        all.extend(ids(&name, ROUND));
        if round < 2 {
            assert!(daemon.terminate().success());
            assert_eq!(daemon.count(is_handler_line), 0, "a paused topic ran jobs");
        }
        last = Some(daemon);
    }
    let mut daemon = last.unwrap();
    assert_eq!(live(&fixture, 5).iter().sum::<usize>(), all.len());
    let stats: Value = serde_json::from_str(&fixture.duebox(&["stats", TOPIC, "--json"])).unwrap();
    let counted = ["pending", "ready"].map(|state| stats["topics"][0][state].as_u64().unwrap());
    assert_eq!(counted.iter().sum::<u64>(), all.len() as u64, "{stats}");
    // One of each round is found, and one is cancelled.
    for round in 0..3 {
        let found = fixture.duebox(&["get", TOPIC, &format!("round{round}-7"), "--json"]);
        assert!(found.contains("ready"), "{found}");
        fixture.duebox(&["cancel", TOPIC, &format!("round{round}-8")]);
        all.remove(&format!("round{round}-8"));
    }
    fixture.duebox(&["resume", TOPIC]);
    eventually("every job is done", || live(&fixture, 5).iter().sum::<usize>() == 0);
    assert!(daemon.terminate().success());
    assert_each_ran_once(&daemon, &all);
}

#[test]
fn a_new_number_of_shards_needs_a_restart_and_limits_are_divided() {
    let fixture = fixture();
    split(&fixture, 3, "max_running = 10\nmax_pending = 100\nrate = \"30/s\"\nburst = 6");
    let mut daemon = fixture.start();
    let rule = |shard: u32, field: &str| {
        fixture.redis.cli(&["HGET", &format!("duebox:{{{}}}:meta", shard_name(shard)), field])
    };
    for shard in 0..3 {
        assert_eq!(rule(shard, "max_running"), "4");
        assert_eq!(rule(shard, "max_pending"), "34");
        assert_eq!(rule(shard, "rate"), "100000.000000");
        assert_eq!(rule(shard, "burst"), "2");
    }
    split(&fixture, 2, "max_running = 30");
    daemon.wait_for_line("the word about it", |line| {
        line.has("key", "topics.\"work\".shards") && line.message().contains("at the next start")
    });
    eventually("the other rules hold", || rule(2, "max_running") == "10");
    assert_eq!(rule(0, "shards"), "3");
    assert!(daemon.terminate().success());
    let second = fixture.start();
    assert_eq!((rule(0, "shards"), rule(0, "shards_seen")), ("2".to_owned(), "3 2".to_owned()));
    // The third shard is served on.
    fixture
        .redis
        .pipe("MULTI\nHSET duebox:{work#2}:jobs a {}\nZADD duebox:{work#2}:pending 0 a\nEXEC\n");
    second.wait_for_line("its job", |line| settled_as(line, "done") && line.has("job_id", "a"));
}

/// A runner with another manifest adds shards and dies; the remaining runners serve the
/// added shards.
#[test]
fn shards_added_by_another_runner_are_served() {
    let fixture = fixture();
    split(&fixture, 2, "");
    let mut first = fixture.start();
    let other = [topic(TOPIC, "one.wat", "shards = 5")];
    let mut second = up(&fixture.manifest_named("other.toml", "", &other));
    second.kill();
    const JOBS: usize = 500;
    assert_eq!(push_lines(&fixture, "job", JOBS)["pushed"], JOBS as u64);
    eventually("every job is done", || live(&fixture, 5).iter().sum::<usize>() == 0);
    assert!(first.terminate().success());
    assert_each_ran_once(&first, &ids("job", JOBS));
}
