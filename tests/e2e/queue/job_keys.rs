//! Jobs of one key run in the order of their pushes, as many at once as the topic says, whoever runs
//! them; and one busy key does not hold up the others.

use std::collections::BTreeSet;
use std::time::Duration;

use duebox_harness::{Daemon, eventually};
use redis::cmd;

use crate::support::fixture::{Ground, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_said, said};
use crate::support::monitor::{Change, Monitor, leases, most_at_once, started};
use crate::support::puppet::{PUPPET, Wish, count_settled, keyed, push_wishes, wish};
use crate::support::redis_state::{Store, key};

const TOPIC: &str = "account";

fn ground(keys: &str) -> Ground {
    let ground = Ground::new();
    ground.write("puppet.wat", PUPPET);
    ground.manifest("lease = \"2s\"", &[topic(TOPIC, "puppet.wat", keys)]);
    ground
}

/// The same with a handler that naps so long.
fn ground_of(keys: &str, nap_ms: u64) -> Ground {
    let ground = ground(keys);
    ground.write("puppet.wat", Handler::says("ran").naps(Duration::from_millis(nap_ms)).wat());
    ground
}

/// Jobs of a key, with ids in the order of their pushes.
fn line(key: &str, count: usize, payload: &str) -> Vec<Wish> {
    (0..count).map(|n| keyed(key, &format!("{key}-{n}"), payload)).collect()
}

fn of_key<'c>(changes: &'c [Change], key: &str) -> Vec<&'c Change> {
    let start = format!("{key}-");
    changes.iter().filter(|change| change.id.starts_with(&start)).collect()
}

/// The key's jobs were leased in the order of their pushes, none after another that came later.
fn in_push_order(changes: &[Change], key: &str, count: usize) {
    let changes: Vec<Change> = of_key(changes, key).into_iter().cloned().collect();
    let expected: Vec<String> = (0..count).map(|n| format!("{key}-{n}")).collect();
    // A runner that ends gives back what it has not started: it is the next of its key again.
    let mut started = started(&changes);
    started.dedup();
    assert_eq!(started, expected, "key {key}");
}

fn ran(daemons: &[&Daemon]) -> BTreeSet<String> {
    daemons.iter().flat_map(|daemon| said(daemon)).map(|line| line.id).collect()
}

/// The manifest's rules must be in Redis before the first push: it is the push that looks at them.
fn rules_stand(ground: &Ground, store: &Store) {
    let mut daemon = ground.start();
    assert!(daemon.terminate().success());
    let meta: Vec<String> = store.ask(cmd("HKEYS").arg(key(TOPIC, "meta")));
    assert!(meta.contains(&"per_key".to_owned()), "{meta:?}");
}

#[test]
fn a_busy_key_keeps_its_order_and_starves_nobody() {
    const NOISY: usize = 1_000;
    const QUIET: usize = 10;
    const QUIET_KEYS: [&str; 4] = ["a", "b", "c", "d"];
    let ground = ground_of("per_key_concurrency = 1\nconcurrency = 8", 2);
    let store = ground.store();
    rules_stand(&ground, &store);
    push_wishes(&ground, TOPIC, &line("noisy", NOISY, ""));
    for key in QUIET_KEYS {
        push_wishes(&ground, TOPIC, &line(key, QUIET, ""));
    }
    let monitor = Monitor::start(&ground.redis);
    let (mut first, second) = (ground.start(), ground.start());
    // One runner can be quick enough to leave the other nothing: it goes, and its turns with it.
    eventually("a good part is done", || count_settled(&[&first, &second], "done") >= NOISY / 3);
    assert!(first.terminate().success());
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let changes = leases(&monitor.commands(&ground.redis), TOPIC);
    in_push_order(&changes, "noisy", NOISY);
    assert_eq!(most_at_once(of_key(&changes, "noisy").into_iter()), 1);
    let half = changes.iter().position(|change| change.id == format!("noisy-{}", NOISY / 2));
    for key in QUIET_KEYS {
        in_push_order(&changes, key, QUIET);
        assert_eq!(most_at_once(of_key(&changes, key).into_iter()), 1, "key {key}");
        let last = changes.iter().rposition(|change| change.id == format!("{key}-{}", QUIET - 1));
        assert!(last < half, "key {key} was starved: its last job ended at {last:?} of {half:?}");
    }
    assert!(most_at_once(changes.iter()) > 1, "the keys did not run beside each other");
    let all = NOISY + 4 * QUIET;
    eventually("all of it is told", || count_settled(&[&first, &second], "done") >= all);
    assert_eq!(count_settled(&[&first, &second], "done"), all);
}

#[test]
fn a_busy_key_starves_nobody_though_there_is_one_lane_for_all() {
    const NOISY: usize = 1_000;
    const QUIET_KEYS: [&str; 4] = ["w", "x", "y", "z"];
    // Longer than what a runner leases ahead: it takes one job at a time.
    let ground = ground_of("per_key_concurrency = 1\nconcurrency = 1", 60);
    let store = ground.store();
    rules_stand(&ground, &store);
    push_wishes(&ground, TOPIC, &line("noisy", NOISY, ""));
    for key in QUIET_KEYS {
        push_wishes(&ground, TOPIC, &line(key, 5, ""));
    }
    let daemon = ground.start();
    eventually("the quiet keys are done", || {
        store.live(TOPIC).iter().all(|id| id.starts_with("noisy-"))
    });
    let done = count_settled(&[&daemon], "done");
    println!("twenty jobs of quiet keys were done beside {} of the noisy key", done - 20);
    assert!(store.live_count(TOPIC) > NOISY / 2, "{done} jobs were done until then");
}

#[test]
fn two_runners_share_the_keys_and_no_key_runs_twice_at_once() {
    const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
    // Longer than what a runner leases ahead, so that neither can take all of it.
    let ground = ground_of("per_key_concurrency = 1\nconcurrency = 2", 80);
    let store = ground.store();
    rules_stand(&ground, &store);
    let monitor = Monitor::start(&ground.redis);
    let (first, second) = (ground.start(), ground.start());
    for key in KEYS {
        push_wishes(&ground, TOPIC, &line(key, 8, ""));
    }
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let changes = leases(&monitor.commands(&ground.redis), TOPIC);
    for key in KEYS {
        in_push_order(&changes, key, 8);
        assert_eq!(most_at_once(of_key(&changes, key).into_iter()), 1, "key {key}");
    }
    eventually("all of it is told", || count_settled(&[&first, &second], "done") >= 48);
    let shares = [&first, &second].map(|daemon| count_settled(&[daemon], "done"));
    println!("two runners shared 48 jobs of six keys: {shares:?}");
    assert!(shares[0] > 0 && shares[1] > 0 && shares[0] + shares[1] == 48);
}

#[test]
fn as_many_of_a_key_run_at_once_as_the_topic_says() {
    let ground = ground("per_key_concurrency = 3\nconcurrency = 2");
    let store = ground.store();
    rules_stand(&ground, &store);
    push_wishes(&ground, TOPIC, &line("k", 90, "z"));
    let monitor = Monitor::start(&ground.redis);
    let _daemons = [ground.start(), ground.start()];
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let changes = leases(&monitor.commands(&ground.redis), TOPIC);
    assert_eq!(most_at_once(changes.iter()), 3);
    let numbers = started(&changes).into_iter().map(|id| id[2..].parse::<usize>().unwrap());
    let numbers: Vec<usize> = numbers.collect();
    assert_eq!(numbers.len(), 90);
    // Those of a key that are let through together may start in any order, and no others.
    let in_line = numbers.iter().enumerate().all(|(place, number)| place.abs_diff(*number) < 3);
    assert!(in_line, "{numbers:?}");
}

/// One job of key `k` fails first, two stand behind it, and another comes later without a key.
fn one_fails_of_three(ground: &Ground) -> (Daemon, Store) {
    let store = ground.store();
    rules_stand(ground, &store);
    let wishes = [keyed("k", "k-0", "ln"), keyed("k", "k-1", "l"), keyed("k", "k-2", "l")];
    push_wishes(ground, TOPIC, &wishes);
    let daemon = ground.start();
    eventually("the first waits for its retry", || store.stage(TOPIC, "retry").contains("k-0"));
    push_wishes(ground, TOPIC, &[wish("free", "l", "{}"), keyed("other", "other-0", "l")]);
    eventually("jobs beside the key ran", || {
        ran(&[&daemon]).is_superset(&ids(&["free", "other-0"]))
    });
    (daemon, store)
}

fn ids(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

#[test]
fn with_a_strict_order_a_retry_blocks_its_key() {
    let ground = ground("per_key_concurrency = 1\nbackoff = \"1h\"");
    let (daemon, store) = one_fails_of_three(&ground);
    assert!(ran(&[&daemon]).is_disjoint(&ids(&["k-1", "k-2"])));
    assert_eq!(store.live(TOPIC), ids(&["k-0", "k-1", "k-2"]));
    ground.duebox(&["run-now", TOPIC, "k-0"]);
    eventually("all are done", || store.live_count(TOPIC) == 0);
    eventually("all of it is told", || daemon.count(is_said) >= 6);
    let order: Vec<String> = said(&daemon).into_iter().map(|line| line.id).collect();
    let of_k: Vec<&String> = order.iter().filter(|id| id.starts_with("k-")).collect();
    assert_eq!(of_k, ["k-0", "k-0", "k-1", "k-2"]);
}

#[test]
fn with_a_relaxed_order_the_next_passes_a_retry() {
    let ground = ground("per_key_concurrency = 1\norder = \"relaxed\"\nbackoff = \"1h\"");
    let (daemon, store) = one_fails_of_three(&ground);
    eventually("the others are done", || store.live(TOPIC) == ids(&["k-0"]));
    assert_eq!(store.stage(TOPIC, "retry"), ids(&["k-0"]));
    eventually("all of it is told", || daemon.count(is_said) >= 5);
    let order: Vec<String> = said(&daemon).into_iter().map(|line| line.id).collect();
    let of_k: Vec<&String> = order.iter().filter(|id| id.starts_with("k-")).collect();
    assert_eq!(of_k, ["k-0", "k-1", "k-2"]);
}

#[test]
fn a_runner_that_dies_gives_its_keys_turns_back() {
    let ground = ground("per_key_concurrency = 1\nconcurrency = 1");
    let store = ground.store();
    rules_stand(&ground, &store);
    push_wishes(&ground, TOPIC, &line("k", 30, "zl"));
    push_wishes(&ground, TOPIC, &line("m", 30, "zl"));
    let (mut first, second) = (ground.start(), ground.start());
    eventually("some ran in the first", || count_settled(&[&first], "done") >= 5);
    first.kill();
    eventually("all are done", || store.live_count(TOPIC) == 0);
    // What the dead held runs again before what stands behind it; its attempts are not spent.
    for key in ["k", "m"] {
        let lines = said(&second).into_iter().map(|line| line.id);
        let runs: Vec<usize> = lines
            .filter_map(|id| id.strip_prefix(&format!("{key}-")).map(|n| n.parse().unwrap()))
            .collect();
        assert!(runs.is_sorted(), "key {key} lost its order: {runs:?}");
    }
    assert!(said(&second).iter().all(|line| line.attempt == 1));
}

#[test]
fn the_next_of_a_key_follows_one_that_is_buried_with_its_runner() {
    let ground = ground("per_key_concurrency = 1\nmax_crashes = 1\nttr = \"1h\"");
    let store = ground.store();
    rules_stand(&ground, &store);
    let killer = format!("l{}", "z".repeat(500));
    push_wishes(&ground, TOPIC, &[keyed("k", "k-0", &killer), keyed("k", "k-1", "l")]);
    let mut first = ground.start();
    eventually("the first of the key runs", || !ran(&[&first]).is_empty());
    first.kill();
    let second = ground.start();
    eventually("the next is done", || count_settled(&[&second], "done") == 1);
    assert_eq!(store.live_count(TOPIC), 0);
    assert_eq!((ran(&[&first]), ran(&[&second])), (ids(&["k-0"]), ids(&["k-1"])));
    assert_eq!(store.dead_class(TOPIC, "k-0"), "crashed");
}
