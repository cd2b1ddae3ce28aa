//! Priorities: the high before the low, and none of them starves.

use duebox_harness::eventually;

use crate::support::fixture::{Ground, topic};
use crate::support::log::{is_said, said};
use crate::support::monitor::{Monitor, leases, started};
use crate::support::puppet::{PUPPET, Wish, push_wishes, wish};

const TOPIC: &str = "mail";

/// Jobs of a priority, told by the end of their ids: what is due at once is in the order of ids.
fn jobs(priority: &str, count: usize) -> impl Iterator<Item = Wish> + '_ {
    let options = format!(r#"{{"priority":"{priority}"}}"#);
    (0..count).map(move |n| wish(&format!("{n}-{priority}"), "l", &options))
}

fn count(ids: &[&str], priority: &str) -> usize {
    ids.iter().filter(|id| id.ends_with(priority)).count()
}

/// Runs these jobs, pushed in this order before anybody leases, and answers the order of their leases.
fn run(keys: &str, wishes: &[Wish]) -> Vec<String> {
    let ground = Ground::new();
    ground.write("puppet.wat", PUPPET);
    let keys = format!("concurrency = 1\n{keys}");
    ground.manifest("", &[topic(TOPIC, "puppet.wat", &keys)]);
    let store = ground.store();
    for some in wishes.chunks(1_000) {
        push_wishes(&ground, TOPIC, some);
    }
    let monitor = Monitor::start(&ground.redis);
    let daemon = ground.start();
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let changes = leases(&monitor.commands(&ground.redis), TOPIC);
    let order: Vec<String> = started(&changes).into_iter().map(str::to_owned).collect();
    assert_eq!(order.len(), wishes.len(), "some were leased twice");
    // One lane runs them one after the other, in the order of their leases.
    eventually("all of it is told", || daemon.count(is_said) >= order.len());
    let ran: Vec<String> = said(&daemon).into_iter().map(|line| line.id).collect();
    assert_eq!(ran, order);
    order
}

#[test]
fn without_shares_all_of_the_high_go_first() {
    let wishes: Vec<Wish> =
        jobs("low", 50).chain(jobs("normal", 50)).chain(jobs("high", 50)).collect();
    let order = run("", &wishes);
    let ranks: Vec<usize> = order
        .iter()
        .map(|id| ["high", "normal", "low"].iter().position(|p| id.ends_with(p)).unwrap())
        .collect();
    assert!(ranks.is_sorted(), "{order:?}");
}

#[test]
fn with_shares_each_has_its_part_and_what_one_leaves_goes_to_the_others() {
    let wishes: Vec<Wish> =
        jobs("low", 20).chain(jobs("normal", 60)).chain(jobs("high", 60)).collect();
    let order = run("priorities = true", &wishes);
    let order: Vec<&str> = order.iter().map(String::as_str).collect();
    // Of ten that start six are high, three normal and one low, as long as all three wait.
    for (n, ten) in order[..100].chunks(10).enumerate() {
        let shares = ["high", "normal", "low"].map(|priority| count(ten, priority));
        assert_eq!(shares, [6, 3, 1], "the {n}th ten: {ten:?}");
    }
    // Then three of four are normal, until one is all that is left.
    let rest = &order[100..];
    assert_eq!((count(rest, "normal"), count(rest, "low")), (30, 10));
    assert!(count(&rest[..10], "normal") > count(&rest[..10], "low"), "{rest:?}");
}

#[test]
fn a_flood_of_high_ones_does_not_starve_the_low() {
    let wishes: Vec<Wish> = jobs("high", 1_000).chain(jobs("low", 20)).collect();
    let order = run("priorities = true", &wishes);
    let last_low = order.iter().rposition(|id| id.ends_with("low")).unwrap();
    assert!(last_low < 200, "the last of the low was the {last_low}th");
}
