//! Each tick of a schedule becomes exactly one job, also when runners die.

use std::collections::BTreeSet;
use std::path::PathBuf;

use duebox_harness::{Daemon, LogLine, eventually};
use redis::cmd;
use serde_json::Value;

use crate::queue::idle::sleeps;
use crate::support::fixture::{Fixture, topic, up};
use crate::support::handler::Handler;
use crate::support::log::{HandlerLine, handler_lines, tally, verdicts};
use crate::support::redis_state::{Store, key};

const TOPIC: &str = "report";
/// Intervals for the schedules that have missed ticks, in minutes. Seldom is a tick of each of them near.
const PERIODS: [u64; 3] = [10, 11, 13];
const MINUTE_MS: u64 = 60_000;
/// Closer ticks cannot be told apart.
const NEAR_MS: u64 = 20_000;

fn schedule(name: &str, keys: &str) -> String {
    format!("[[schedules]]\nname = \"{name}\"\ntopic = \"{TOPIC}\"\n{keys}\n")
}

fn write_manifest(fixture: &Fixture, schedules: &[String]) -> PathBuf {
    let mut parts = vec![topic(TOPIC, "work.wat", "")];
    parts.extend_from_slice(schedules);
    fixture.manifest("", &parts)
}

fn fixture_with(schedules: &[String]) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    write_manifest(&fixture, schedules);
    fixture
}

/// The ids of all runs so far, over all these daemons.
fn runs(daemons: &[&Daemon]) -> Vec<String> {
    daemons.iter().flat_map(|daemon| handler_lines(daemon)).map(|printed| printed.id).collect()
}

/// The tick of a job's id.
fn tick_of(id: &str) -> u64 {
    id.split_once('@').unwrap().1.parse().unwrap()
}

/// Waits until each second from the first tick of `beat` to its last has become a job that ran,
/// and returns those runs.
fn seamless_beats(daemons: &[&Daemon]) -> Vec<String> {
    let beats = || runs(daemons).into_iter().filter(|id| id.starts_with("beat@"));
    let last = beats().map(|id| tick_of(&id)).max().unwrap();
    let until_last = || beats().filter(|id| tick_of(id) <= last);
    eventually("no second is left out", || {
        let ticks: BTreeSet<u64> = until_last().map(|id| tick_of(&id)).collect();
        assert!(ticks.iter().all(|tick| tick % 1_000 == 0), "{ticks:?}");
        let first = ticks.first().copied().unwrap();
        ticks.len() as u64 == (last - first) / 1_000 + 1
    });
    until_last().collect()
}

fn all_once(runs: &[String]) {
    let tally = tally(runs.iter());
    assert!(tally.values().all(|times| *times == 1), "a tick ran twice: {tally:?}");
}

/// The time up to which the ticks of a schedule were processed.
fn dealt_with_until(store: &Store, name: &str) -> Option<u64> {
    store.ask(cmd("HGET").arg(key(TOPIC, "ticks")).arg(name))
}

fn set_dealt_with_until(store: &Store, name: &str, line: &str, until: u64) {
    let line_field = format!("{name}:line");
    let ticks = key(TOPIC, "ticks");
    let _: u64 = store.ask(cmd("HSET").arg(ticks).arg(name).arg(until).arg(line_field).arg(line));
}

/// A known bug elsewhere (asynq#653, #395, #1013): each replica pushed each tick.
#[test]
fn replicas_do_not_repeat_ticks() {
    let fixture = fixture_with(&[schedule("beat", "cron = \"* * * * * *\"\nmissed = \"all\"")]);
    let manifest = fixture.path("duebox.toml");
    let replicas = [up(&manifest), up(&manifest), up(&manifest)];
    let replicas: Vec<&Daemon> = replicas.iter().collect();
    eventually("some ticks ran", || runs(&replicas).len() >= 6);
    all_once(&seamless_beats(&replicas));
    let late = |printed: HandlerLine| printed.at_ms - tick_of(&printed.id) as i64;
    let mut late: Vec<i64> =
        replicas.iter().flat_map(|daemon| handler_lines(daemon)).map(late).collect();
    late.sort_unstable();
    assert!(late[0] >= 0, "a tick ran early: {late:?} ms");
    println!("3 replicas: ticks ran {} to {} ms late", late[0], late[late.len() - 1]);
}

#[test]
fn distant_schedules_do_not_wake_the_daemon() {
    let far = |number: usize| schedule(&format!("far-{number}"), "cron = \"0 0 1 1 *\"");
    let fixture = fixture_with(&(0..200).map(far).collect::<Vec<_>>());
    let daemon = fixture.start();
    let begun = |line: &LogLine| line.message() == "the schedule starts";
    eventually("all have begun", || daemon.count(begun) == 200);
    sleeps(&daemon, &fixture.store(), "200 schedules that are far off");
}

#[test]
fn a_dead_replica_loses_no_tick() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    let beat = schedule("beat", "every = \"1s\"\nmissed = \"all\"");
    // Other runners soon run the jobs of the dead one.
    let manifest = fixture.manifest("lease = \"5s\"", &[topic(TOPIC, "work.wat", ""), beat]);
    let (mut first, second) = (up(&manifest), up(&manifest));
    eventually("some ticks ran", || runs(&[&first, &second]).len() >= 3);
    first.kill();
    let so_far = runs(&[&second]).len();
    eventually("some more ticks ran", || runs(&[&second]).len() >= so_far + 3);
    let third = up(&manifest);
    eventually("the newcomer takes part", || !runs(&[&third]).is_empty());
    let all = seamless_beats(&[&first, &second, &third]);
    // Only a job that the dead runner had not settled has run twice.
    let unsettled: BTreeSet<String> = {
        let settled: BTreeSet<String> = verdicts(&first).into_iter().map(|v| v.id).collect();
        runs(&[&first]).into_iter().filter(|id| !settled.contains(id)).collect()
    };
    let of_others: Vec<String> = all.into_iter().filter(|id| !unsettled.contains(id)).collect();
    all_once(&of_others);
}

#[test]
fn a_job_has_the_payload_and_is_due_at_its_tick() {
    let payload = "payload = '{\"kind\":\"daily\"}'";
    let fixture = fixture_with(&[schedule("beat", &format!("every = \"1s\"\n{payload}"))]);
    let store = fixture.store();
    let _: u64 = store.ask(cmd("HSET").arg(key(TOPIC, "meta")).arg("paused").arg(1));
    let daemon = fixture.start();
    daemon.wait_for_line("it begins", |line| line.message() == "the schedule starts");
    eventually("two ticks wait", || store.live_count(TOPIC) >= 2);
    let waiting: Vec<(String, u64)> =
        store.ask(cmd("ZRANGE").arg(key(TOPIC, "ready")).arg(0).arg(-1).arg("WITHSCORES"));
    assert!(waiting.iter().all(|(id, due)| tick_of(id) == *due), "{waiting:?}");
    let payloads: Vec<String> = store.ask(cmd("HVALS").arg(key(TOPIC, "jobs")));
    assert!(payloads.iter().all(|payload| payload == "{\"kind\":\"daily\"}"), "{payloads:?}");
}

#[test]
fn missed_ticks_follow_the_policy() {
    let fixture = fixture_with(&[]);
    let store = fixture.store();
    let mut minutes = 0;
    eventually("no tick is near", || {
        let is_far = |minutes: &u64| {
            let past = store.now_ms() % (minutes * MINUTE_MS);
            past > NEAR_MS && past < minutes * MINUTE_MS - 3 * NEAR_MS
        };
        minutes = PERIODS.into_iter().find(is_far).unwrap_or(0);
        minutes > 0
    });
    let (now, period) = (store.now_ms(), minutes * MINUTE_MS);
    let last = now / period * period;
    // Three ticks have passed; the window holds two of them.
    let window = format!("every = \"{minutes}m\"\nwindow = \"{}ms\"", now - last + period * 3 / 2);
    let policies = ["skip", "once", "all"];
    let entry = |policy: &&str| schedule(policy, &format!("{window}\nmissed = \"{policy}\""));
    write_manifest(&fixture, &policies.iter().map(entry).collect::<Vec<_>>());
    for policy in policies {
        set_dealt_with_until(&store, policy, &format!("every {minutes}m"), last - 3 * period);
    }
    let daemon = fixture.start();
    let reported = |policy: &'static str| {
        move |line: &LogLine| {
            line.has("schedule", policy) && line.message().starts_with("missed ticks are skipped")
        }
    };
    for (policy, passed_over) in [("skip", 3), ("once", 2), ("all", 1)] {
        let line = daemon.wait_for_line("what is passed over", reported(policy));
        assert_eq!(line.number("ticks"), Some(passed_over), "{policy}");
    }
    eventually("all ran", || runs(&[&daemon]).len() >= 3 && store.live_count(TOPIC) == 0);
    let all_before_last = format!("all@{}", last - period);
    let expected = [all_before_last, format!("all@{last}"), format!("once@{last}")];
    let mut ran = runs(&[&daemon]);
    ran.sort();
    assert_eq!(ran, expected);
}

#[test]
fn an_outage_loses_and_repeats_no_tick() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    let beat = schedule("beat", "every = \"1s\"\nmissed = \"all\"");
    // No lease expires meanwhile, so a job that runs twice was pushed twice.
    let manifest = fixture.manifest("lease = \"10m\"", &[topic(TOPIC, "work.wat", ""), beat]);
    let (first, second) = (up(&manifest), up(&manifest));
    let daemons = [&first, &second];
    eventually("some ticks ran", || runs(&daemons).len() >= 2);
    fixture.redis.pause();
    for daemon in daemons {
        daemon.wait_for_line("the outage", |line| line.message().starts_with("Redis fails"));
    }
    fixture.redis.resume();
    // Commands without a reply may have been executed.
    let so_far = runs(&daemons).len();
    eventually("ticks run again", || runs(&daemons).len() >= so_far + 5);
    all_once(&seamless_beats(&daemons));
}

#[test]
fn a_refused_schedule_is_reported_once_and_delays_no_other() {
    let bad = "[[schedules]]\nname = \"bad\"\ntopic = \"other\"\nevery = \"1s\"\n";
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    let topics = [topic(TOPIC, "work.wat", ""), topic("other", "work.wat", "")];
    let schedules = [bad.to_owned(), schedule("beat", "every = \"1s\"")];
    fixture.manifest("", &[topics, schedules].concat());
    let store = fixture.store();
    let _: String = store.ask(cmd("SET").arg(key("other", "ticks")).arg("no hash"));
    let daemon = fixture.start();
    let reported = |line: &LogLine| line.message().starts_with("ticks cannot be pushed");
    assert!(daemon.wait_for_line("it is reported", reported).has("schedule", "bad"));
    eventually("the other ticks", || runs(&[&daemon]).len() >= 3);
    assert_eq!(daemon.count(reported), 1);
    let _: u64 = store.ask(cmd("DEL").arg(key("other", "ticks")));
    eventually("it ticks", || runs(&[&daemon]).iter().any(|id| id.starts_with("bad@")));
    all_once(&seamless_beats(&[&daemon]));
}

#[test]
fn schedules_follow_the_manifest() {
    let fixture = fixture_with(&[schedule("beat", "every = \"365d\"")]);
    let (daemon, store) = (fixture.start(), fixture.store());
    daemon.wait_for_line("it begins", |line| line.message() == "the schedule starts");
    let reloads = || daemon.count(|line| line.message() == "the manifest is reloaded");
    write_manifest(
        &fixture,
        &[schedule("beat", "every = \"1s\""), schedule("new", "every = \"1s\"")],
    );
    eventually("both tick", || {
        let ran = runs(&[&daemon]);
        ["beat@", "new@"].iter().all(|name| ran.iter().any(|id| id.starts_with(name)))
    });
    let before = reloads();
    write_manifest(&fixture, &[schedule("new", "every = \"1s\"")]);
    eventually("it is reloaded", || reloads() > before);
    // After two ticks of the other schedule, an earlier scan has ended.
    let new_ticks = || dealt_with_until(&store, "new").unwrap();
    let at = new_ticks();
    eventually("the other ticks on", || new_ticks() > at + 1_000);
    let (stopped, at) = (dealt_with_until(&store, "beat"), new_ticks());
    eventually("the other ticks on", || new_ticks() > at + 2_000);
    assert_eq!(dealt_with_until(&store, "beat"), stopped, "it was taken out of the manifest");
    // The restored schedule keeps its position.
    write_manifest(&fixture, &[schedule("beat", "every = \"1s\"\nmissed = \"all\"")]);
    eventually("it ticks again", || dealt_with_until(&store, "beat") > stopped);
    eventually("it has run", || {
        runs(&[&daemon]).iter().any(|id| id.starts_with("beat@") && Some(tick_of(id)) > stopped)
    });
    all_once(&seamless_beats(&[&daemon]));
}

#[test]
fn the_command_line_shows_schedules_and_runs_one() {
    let yearly = "cron = \"0 3 1 1 *\"\ntz = \"Asia/Shanghai\"\nmissed = \"skip\"\npayload = \"p\"";
    let fixture = fixture_with(&[schedule("yearly", yearly), schedule("beat", "every = \"1s\"")]);
    let store = fixture.store();
    let shown =
        || -> Value { serde_json::from_str(&fixture.duebox(&["schedules", "--json"])).unwrap() };
    let before = shown();
    let entry = &before["schedules"][0];
    assert_eq!((entry["name"].as_str(), entry["topic"].as_str()), (Some("yearly"), Some(TOPIC)));
    assert_eq!(entry["cron"].as_str(), Some("0 3 1 1 *"));
    assert_eq!(entry["tz"].as_str(), Some("Asia/Shanghai"));
    assert_eq!((entry["missed"].as_str(), entry["paused"].as_bool()), (Some("skip"), Some(false)));
    assert_eq!(
        (&entry["last_run_ms"], entry["window_ms"].as_u64()),
        (&Value::Null, Some(3_600_000))
    );
    let next = entry["next_run_ms"].as_u64().unwrap();
    assert!(next > store.now_ms() && next < store.now_ms() + 367 * 86_400_000);
    assert_eq!(before["schedules"][1]["every_ms"].as_u64(), Some(1_000));

    let ran: Value =
        serde_json::from_str(&fixture.duebox(&["schedules", "run", "yearly", "--json"])).unwrap();
    let id = ran["id"].as_str().unwrap();
    assert!(id.starts_with("yearly@") && ran["result"] == "pushed", "{ran}");
    assert_eq!(store.live(TOPIC), BTreeSet::from([id.to_owned()]));
    let payload: String = store.ask(cmd("HGET").arg(key(TOPIC, "jobs")).arg(id));
    assert_eq!(payload, "p");
    assert_eq!(shown()["schedules"][0]["last_run_ms"], Value::Null, "it counts as no tick");

    let daemon = fixture.start();
    eventually("a tick ran", || runs(&[&daemon]).iter().any(|id| id.starts_with("beat@")));
    let _: u64 = store.ask(cmd("HSET").arg(key(TOPIC, "meta")).arg("paused").arg(1));
    let after = shown();
    let beat = &after["schedules"][1];
    let (last, next) =
        (beat["last_run_ms"].as_u64().unwrap(), beat["next_run_ms"].as_u64().unwrap());
    assert!(last % 1_000 == 0 && next % 1_000 == 0 && next > last, "{beat}");
    assert_eq!(beat["paused"].as_bool(), Some(true));
    let table = fixture.duebox(&["schedules"]);
    assert!(
        table.contains("0 3 1 1 * (Asia/Shanghai)") && table.contains("T03:00:00+08:00"),
        "{table}"
    );
    assert!(table.contains("every 1s") && table.contains("paused"), "{table}");
}
