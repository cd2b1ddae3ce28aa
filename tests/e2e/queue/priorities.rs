//! High jobs start before low ones, and no priority starves.

use std::collections::BTreeSet;

use duebox_harness::eventually;

use crate::support::fixture::{Fixture, topic};
use crate::support::log::{handler_lines, is_handler_line};
use crate::support::monitor::{Monitor, leases, started};
use crate::support::puppet::{PUPPET, PuppetJob, puppet_job, push_jobs};

const TOPIC: &str = "mail";

/// Jobs of a priority. Their ids differ at the end, because jobs with equal due times are ordered by id.
fn jobs(priority: &str, count: usize) -> impl Iterator<Item = PuppetJob> + '_ {
    let options = format!(r#"{{"priority":"{priority}"}}"#);
    (0..count).map(move |n| puppet_job(&format!("{n}-{priority}"), "l", &options))
}

fn count(ids: &[&str], priority: &str) -> usize {
    ids.iter().filter(|id| id.ends_with(priority)).count()
}

/// Pushes these jobs in this order before any lease, runs them, and returns the order of their leases.
fn run(keys: &str, jobs: &[PuppetJob]) -> Vec<String> {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let keys = format!("concurrency = 1\n{keys}");
    fixture.manifest("", &[topic(TOPIC, "puppet.wat", &keys)]);
    let store = fixture.store();
    for some in jobs.chunks(1_000) {
        push_jobs(&fixture, TOPIC, some);
    }
    let monitor = Monitor::start(&fixture.redis);
    let daemon = fixture.start();
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let changes = leases(&monitor.commands(&fixture.redis), TOPIC);
    // A job that did not start in time is released and leased again: its last lease is the one it ran under.
    let mut seen = BTreeSet::new();
    let leased = started(&changes).into_iter().rev();
    let mut order: Vec<String> = leased.filter(|id| seen.insert(*id)).map(str::to_owned).collect();
    order.reverse();
    assert_eq!(order.len(), jobs.len(), "some were never leased");
    // One executor task runs them one by one, in the order of their leases.
    eventually("all of it is reported", || daemon.count(is_handler_line) >= order.len());
    let ran: Vec<String> = handler_lines(&daemon).into_iter().map(|line| line.id).collect();
    assert_eq!(ran, order);
    order
}

#[test]
fn without_shares_all_high_jobs_run_first() {
    let jobs: Vec<PuppetJob> =
        jobs("low", 50).chain(jobs("normal", 50)).chain(jobs("high", 50)).collect();
    let order = run("", &jobs);
    let ranks: Vec<usize> = order
        .iter()
        .map(|id| ["high", "normal", "low"].iter().position(|p| id.ends_with(p)).unwrap())
        .collect();
    assert!(ranks.is_sorted(), "{order:?}");
}

#[test]
fn with_shares_each_priority_has_its_part() {
    let jobs: Vec<PuppetJob> =
        jobs("low", 20).chain(jobs("normal", 60)).chain(jobs("high", 60)).collect();
    let order = run("priorities = true", &jobs);
    let order: Vec<&str> = order.iter().map(String::as_str).collect();
    // Of ten starts six are high, three normal and one low while all three wait.
    for (n, ten) in order[..100].chunks(10).enumerate() {
        let shares = ["high", "normal", "low"].map(|priority| count(ten, priority));
        assert_eq!(shares, [6, 3, 1], "the {n}th ten: {ten:?}");
    }
    // Then three of four are normal, until only one priority is left.
    let rest = &order[100..];
    assert_eq!((count(rest, "normal"), count(rest, "low")), (30, 10));
    assert!(count(&rest[..10], "normal") > count(&rest[..10], "low"), "{rest:?}");
}

#[test]
fn high_jobs_do_not_starve_low_ones() {
    let jobs: Vec<PuppetJob> = jobs("high", 1_000).chain(jobs("low", 20)).collect();
    let order = run("priorities = true", &jobs);
    let last_low = order.iter().rposition(|id| id.ends_with("low")).unwrap();
    assert!(last_low < 200, "the last of the low was the {last_low}th");
}
