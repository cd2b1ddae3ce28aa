//! Jobs with the same key run in the order of their pushes, with the concurrency of the topic, on all runners. A
//! busy key does not delay other keys.

use std::collections::BTreeSet;
use std::time::Duration;

use duebox_harness::{Daemon, eventually};
use redis::cmd;

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{handler_lines, is_handler_line};
use crate::support::monitor::{Change, Monitor, leases, most_at_once, started};
use crate::support::puppet::{PUPPET, PuppetJob, count_settled, keyed_job, puppet_job, push_jobs};
use crate::support::redis_state::{Store, key};

const TOPIC: &str = "account";

fn fixture(keys: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    fixture.manifest("lease = \"2s\"", &[topic(TOPIC, "puppet.wat", keys)]);
    fixture
}

/// The same with a handler that sleeps this long.
fn fixture_of(keys: &str, nap_ms: u64) -> Fixture {
    let fixture = fixture(keys);
    fixture.write("puppet.wat", Handler::logs("ran").naps(Duration::from_millis(nap_ms)).wat());
    fixture
}

/// Jobs of a key, with ids in the order of their pushes.
fn line(key: &str, count: usize, payload: &str) -> Vec<PuppetJob> {
    (0..count).map(|n| keyed_job(key, &format!("{key}-{n}"), payload)).collect()
}

fn of_key<'c>(changes: &'c [Change], key: &str) -> Vec<&'c Change> {
    let start = format!("{key}-");
    changes.iter().filter(|change| change.id.starts_with(&start)).collect()
}

/// Checks that the jobs of the key were leased in the order of their pushes.
fn in_push_order(changes: &[Change], key: &str, count: usize) {
    let changes: Vec<Change> = of_key(changes, key).into_iter().cloned().collect();
    let expected: Vec<String> = (0..count).map(|n| format!("{key}-{n}")).collect();
    // A stopping runner releases jobs that have not started; they become the next of their key again.
    let mut started = started(&changes);
    started.dedup();
    assert_eq!(started, expected, "key {key}");
}

fn ran(daemons: &[&Daemon]) -> BTreeSet<String> {
    daemons.iter().flat_map(|daemon| handler_lines(daemon)).map(|line| line.id).collect()
}

/// The topic rules must be in Redis before the first push, which reads them.
fn rules_stand(fixture: &Fixture, store: &Store) {
    let mut daemon = fixture.start();
    assert!(daemon.terminate().success());
    let meta: Vec<String> = store.ask(cmd("HKEYS").arg(key(TOPIC, "meta")));
    assert!(meta.contains(&"per_key".to_owned()), "{meta:?}");
}

#[test]
fn a_busy_key_keeps_its_order_and_starves_no_other_key() {
    const NOISY: usize = 1_000;
    const QUIET: usize = 10;
    const QUIET_KEYS: [&str; 4] = ["a", "b", "c", "d"];
    let fixture = fixture_of("per_key_concurrency = 1\nconcurrency = 8", 2);
    let store = fixture.store();
    rules_stand(&fixture, &store);
    push_jobs(&fixture, TOPIC, &line("noisy", NOISY, ""));
    for key in QUIET_KEYS {
        push_jobs(&fixture, TOPIC, &line(key, QUIET, ""));
    }
    let monitor = Monitor::start(&fixture.redis);
    let (mut first, second) = (fixture.start(), fixture.start());
    // One runner may be fast enough to take all jobs; it stops and releases its key permits.
    eventually("a good part is done", || count_settled(&[&first, &second], "done") >= NOISY / 3);
    assert!(first.terminate().success());
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let changes = leases(&monitor.commands(&fixture.redis), TOPIC);
    in_push_order(&changes, "noisy", NOISY);
    assert_eq!(most_at_once(of_key(&changes, "noisy").into_iter()), 1);
    let half = changes.iter().position(|change| change.id == format!("noisy-{}", NOISY / 2));
    for key in QUIET_KEYS {
        in_push_order(&changes, key, QUIET);
        assert_eq!(most_at_once(of_key(&changes, key).into_iter()), 1, "key {key}");
        let last = changes.iter().rposition(|change| change.id == format!("{key}-{}", QUIET - 1));
        assert!(last < half, "key {key} was starved: its last job ended at {last:?} of {half:?}");
    }
    assert!(most_at_once(changes.iter()) > 1, "the keys did not run concurrently");
    let all = NOISY + 4 * QUIET;
    eventually("all of it is reported", || count_settled(&[&first, &second], "done") >= all);
    assert_eq!(count_settled(&[&first, &second], "done"), all);
}

#[test]
fn a_busy_key_starves_no_other_key_with_one_executor_task() {
    const NOISY: usize = 1_000;
    const QUIET_KEYS: [&str; 4] = ["w", "x", "y", "z"];
    // Longer than the prefetch of a runner, so it leases one job at a time.
    let fixture = fixture_of("per_key_concurrency = 1\nconcurrency = 1", 60);
    let store = fixture.store();
    rules_stand(&fixture, &store);
    push_jobs(&fixture, TOPIC, &line("noisy", NOISY, ""));
    for key in QUIET_KEYS {
        push_jobs(&fixture, TOPIC, &line(key, 5, ""));
    }
    let daemon = fixture.start();
    eventually("the quiet keys are done", || {
        store.live(TOPIC).iter().all(|id| id.starts_with("noisy-"))
    });
    let done = count_settled(&[&daemon], "done");
    println!("twenty jobs of quiet keys were done while {} of the noisy key were", done - 20);
    assert!(store.live_count(TOPIC) > NOISY / 2, "{done} jobs were done until then");
}

#[test]
fn two_runners_share_the_keys_and_no_key_runs_twice_at_once() {
    const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    // Longer than the prefetch of a runner, so that neither can take all jobs.
    let fixture = fixture_of("per_key_concurrency = 1\nconcurrency = 2", 80);
    let store = fixture.store();
    rules_stand(&fixture, &store);
    let monitor = Monitor::start(&fixture.redis);
    let (first, second) = (fixture.start(), fixture.start());
    for key in KEYS {
        push_jobs(&fixture, TOPIC, &line(key, 8, ""));
    }
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let changes = leases(&monitor.commands(&fixture.redis), TOPIC);
    for key in KEYS {
        in_push_order(&changes, key, 8);
        assert_eq!(most_at_once(of_key(&changes, key).into_iter()), 1, "key {key}");
    }
    eventually("all of it is reported", || count_settled(&[&first, &second], "done") >= 48);
    let shares = [&first, &second].map(|daemon| count_settled(&[daemon], "done"));
    println!("two runners shared 48 jobs of six keys: {shares:?}");
    assert!(shares[0] > 0 && shares[1] > 0 && shares[0] + shares[1] == 48);
}

#[test]
fn the_concurrency_of_a_key_is_that_of_the_topic() {
    let fixture = fixture("per_key_concurrency = 3\nconcurrency = 2");
    let store = fixture.store();
    rules_stand(&fixture, &store);
    push_jobs(&fixture, TOPIC, &line("k", 90, "z"));
    let monitor = Monitor::start(&fixture.redis);
    let _daemons = [fixture.start(), fixture.start()];
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let changes = leases(&monitor.commands(&fixture.redis), TOPIC);
    assert_eq!(most_at_once(changes.iter()), 3);
    // One that does not start within 50 ms goes back and is leased again.
    let mut leased = BTreeSet::new();
    let first = started(&changes).into_iter().filter(|id| leased.insert(*id));
    let numbers = first.map(|id| id[2..].parse::<usize>().unwrap());
    let numbers: Vec<usize> = numbers.collect();
    assert_eq!(numbers.len(), 90);
    // Only concurrent jobs of a key may start in any order.
    let in_line = numbers.iter().enumerate().all(|(place, number)| place.abs_diff(*number) < 3);
    assert!(in_line, "{numbers:?}");
}

/// One job of key `k` fails first, two follow it, and a job without a key follows later.
fn one_fails_of_three(fixture: &Fixture) -> (Daemon, Store) {
    let store = fixture.store();
    rules_stand(fixture, &store);
    let jobs =
        [keyed_job("k", "k-0", "ln"), keyed_job("k", "k-1", "l"), keyed_job("k", "k-2", "l")];
    push_jobs(fixture, TOPIC, &jobs);
    let daemon = fixture.start();
    eventually("the first waits for its retry", || store.stage(TOPIC, "retry").contains("k-0"));
    push_jobs(fixture, TOPIC, &[puppet_job("free", "l", "{}"), keyed_job("other", "other-0", "l")]);
    eventually("jobs without the key ran", || {
        ran(&[&daemon]).is_superset(&ids(&["free", "other-0"]))
    });
    (daemon, store)
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn with_a_strict_order_a_retry_blocks_its_key() {
    let fixture = fixture("per_key_concurrency = 1\nbackoff = \"1h\"");
    let (daemon, store) = one_fails_of_three(&fixture);
    assert!(ran(&[&daemon]).is_disjoint(&ids(&["k-1", "k-2"])));
    eventually("the others are done", || store.live(TOPIC) == ids(&["k-0", "k-1", "k-2"]));
    fixture.duebox(&["run-now", TOPIC, "k-0"]);
    eventually("all are done", || store.live_count(TOPIC) == 0);
    eventually("all of it is reported", || daemon.count(is_handler_line) >= 6);
    let order: Vec<String> = handler_lines(&daemon).into_iter().map(|line| line.id).collect();
    let of_k: Vec<&String> = order.iter().filter(|id| id.starts_with("k-")).collect();
    assert_eq!(of_k, ["k-0", "k-0", "k-1", "k-2"]);
}

#[test]
fn with_a_relaxed_order_the_next_job_passes_a_retry() {
    let fixture = fixture("per_key_concurrency = 1\norder = \"relaxed\"\nbackoff = \"1h\"");
    let (daemon, store) = one_fails_of_three(&fixture);
    eventually("the others are done", || store.live(TOPIC) == ids(&["k-0"]));
    assert_eq!(store.stage(TOPIC, "retry"), ids(&["k-0"]));
    eventually("all of it is reported", || daemon.count(is_handler_line) >= 5);
    let order: Vec<String> = handler_lines(&daemon).into_iter().map(|line| line.id).collect();
    let of_k: Vec<&String> = order.iter().filter(|id| id.starts_with("k-")).collect();
    assert_eq!(of_k, ["k-0", "k-1", "k-2"]);
}

#[test]
fn a_dead_runner_releases_its_key_permits() {
    let fixture = fixture("per_key_concurrency = 1\nconcurrency = 1");
    let store = fixture.store();
    rules_stand(&fixture, &store);
    push_jobs(&fixture, TOPIC, &line("k", 30, "zl"));
    push_jobs(&fixture, TOPIC, &line("m", 30, "zl"));
    let (mut first, second) = (fixture.start(), fixture.start());
    eventually("some ran in the first", || count_settled(&[&first], "done") >= 5);
    first.kill();
    eventually("all are done", || store.live_count(TOPIC) == 0);
    // The jobs of the dead runner run again before the following ones and spend no attempts.
    for key in ["k", "m"] {
        let lines = handler_lines(&second).into_iter().map(|line| line.id);
        let runs: Vec<usize> = lines
            .filter_map(|id| id.strip_prefix(&format!("{key}-")).map(|n| n.parse().unwrap()))
            .collect();
        assert!(runs.is_sorted(), "key {key} lost its order: {runs:?}");
    }
    assert!(handler_lines(&second).iter().all(|line| line.attempt == 1));
}

#[test]
fn the_next_job_of_a_key_follows_a_crashed_one() {
    let fixture = fixture("per_key_concurrency = 1\nmax_crashes = 1\nttr = \"1h\"");
    let store = fixture.store();
    rules_stand(&fixture, &store);
    let killer = format!("l{}", "z".repeat(500));
    push_jobs(&fixture, TOPIC, &[keyed_job("k", "k-0", &killer), keyed_job("k", "k-1", "l")]);
    let mut first = fixture.start();
    eventually("the first of the key runs", || !ran(&[&first]).is_empty());
    first.kill();
    let second = fixture.start();
    eventually("the next is done", || count_settled(&[&second], "done") == 1);
    assert_eq!(store.live_count(TOPIC), 0);
    assert_eq!((ran(&[&first]), ran(&[&second])), (ids(&["k-0"]), ids(&["k-1"])));
    assert_eq!(store.dead_class(TOPIC, "k-0"), "crashed");
}
