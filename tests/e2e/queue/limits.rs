//! Limits over all runners: starts per time and concurrent jobs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use duebox_harness::{Daemon, eventually};

use crate::queue::idle::sleeps;
use crate::support::fixture::{Fixture, topic, up};
use crate::support::log::is_handler_line;
use crate::support::monitor::{Change, Monitor, calls, keeps_rate, leases, most_at_once, started};
use crate::support::puppet::{PUPPET, PuppetJob, count_settled, puppet_job, push_jobs};

const TOPIC: &str = "mail";
/// The longest poll interval.
const POLL: Duration = Duration::from_secs(60);

/// A fixture in which only a wake-up through Redis wakes a runner in time: it does not poll, and does not check
/// leases before they end.
fn fixture(keys: &str) -> Fixture {
    fixture_with_lease("10m", keys)
}

fn fixture_with_lease(lease: &str, keys: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let redis = format!("[redis]\nurl = \"{}\"\npoll = \"1m\"\n", fixture.redis.url());
    let runner = format!("[runner]\nlease = \"{lease}\"\n");
    fixture.write("duebox.toml", redis + &runner + &topic(TOPIC, "puppet.wat", keys));
    fixture
}

fn jobs(count: usize, payload: &str) -> Vec<PuppetJob> {
    (0..count).map(|n| puppet_job(&format!("job-{n}"), payload, "{}")).collect()
}

/// How many jobs were leased. One that does not start within 50 ms goes back and is leased again.
fn jobs_leased(changes: &[Change]) -> usize {
    started(changes).into_iter().collect::<BTreeSet<&str>>().len()
}

#[test]
fn two_runners_together_start_no_more_than_the_rate_allows() {
    const JOBS: usize = 150;
    let fixture = fixture("rate = \"50/s\"\nburst = 5");
    let store = fixture.store();
    let monitor = Monitor::start(&fixture.redis);
    let (first, second) = (fixture.start(), fixture.start());
    let began = Instant::now();
    push_jobs(&fixture, TOPIC, &jobs(JOBS, ""));
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let took = began.elapsed();
    let commands = monitor.commands(&fixture.redis);
    let changes = leases(&commands, TOPIC);
    assert_eq!(jobs_leased(&changes), JOBS);
    assert_eq!(keeps_rate(&changes, Duration::from_millis(20), 5), Ok(()));
    // A turn has up to four scripts, and two runners may need one turn for each job.
    let asked: usize = calls(&commands).values().sum();
    let per_job = asked as f64 / JOBS as f64;
    println!("50/s over two runners: {JOBS} jobs in {took:?}, {per_job:.1} scripts a job");
    assert!(per_job < 30.0, "{per_job:.1} scripts a job: it spins");
    eventually("all of it is reported", || count_settled(&[&first, &second], "done") >= JOBS);
    assert_eq!(count_settled(&[&first, &second], "done"), JOBS);
}

#[test]
fn a_limited_topic_sleeps() {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    fixture.manifest("", &[topic(TOPIC, "puppet.wat", "rate = \"1/h\"")]);
    let (daemon, store) = (fixture.start(), fixture.store());
    push_jobs(&fixture, TOPIC, &jobs(50, "l"));
    eventually("one runs", || count_settled(&[&daemon], "done") == 1);
    sleeps(&daemon, &store, "fifty jobs behind a rate of one an hour");
    assert_eq!((count_settled(&[&daemon], "done"), store.live_count(TOPIC)), (1, 49));
}

#[test]
fn two_runners_together_keep_max_running() {
    const JOBS: usize = 120;
    let fixture = fixture("max_running = 3\nconcurrency = 2");
    let store = fixture.store();
    let monitor = Monitor::start(&fixture.redis);
    let manifest = fixture.path("duebox.toml");
    let (first, second) = (up(&manifest), up(&manifest));
    push_jobs(&fixture, TOPIC, &jobs(JOBS, "z"));
    // Without a wake-up at the end of a lease, the other runners would sleep for a minute.
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let changes = leases(&monitor.commands(&fixture.redis), TOPIC);
    assert_eq!((most_at_once(changes.iter()), jobs_leased(&changes)), (3, JOBS));
    eventually("all of it is reported", || count_settled(&[&first, &second], "done") >= JOBS);
    let shares = [&first, &second].map(|daemon| count_settled(&[daemon], "done"));
    println!("at most three at once: two runners shared {JOBS} jobs as {shares:?}");
    assert!(shares[0] > 0 && shares[1] > 0 && shares[0] + shares[1] == JOBS);
}

#[test]
fn the_end_of_a_lease_wakes_a_waiting_runner() {
    let fixture = fixture("max_running = 1");
    let store = fixture.store();
    let mut daemons = [fixture.start(), fixture.start()];
    // A sleep of three seconds: a stopping runner finishes it and starts no other job.
    push_jobs(&fixture, TOPIC, &jobs(1, &format!("l{}", "z".repeat(150))));
    let has_it = |daemon: &Daemon| daemon.count(is_handler_line) == 1;
    eventually("one has it", || daemons.iter().any(has_it));
    daemons.sort_by_key(has_it);
    let [other, ends] = &mut daemons;
    push_jobs(&fixture, TOPIC, &jobs(5, "l")[1..]);
    assert_eq!(store.stage(TOPIC, "ready").len(), 4);
    let began = Instant::now();
    assert!(ends.terminate().success());
    eventually("the other runs the rest", || count_settled(&[&*other], "done") == 4);
    assert!(began.elapsed() < POLL / 2, "it was a poll that woke it");
}

#[test]
fn a_dead_runner_releases_its_share_of_max_running() {
    let fixture = fixture_with_lease("1s", "max_running = 2\nttr = \"1h\"");
    let store = fixture.store();
    // 200 sleeps of 20 ms: both leases are held when the first runner is killed.
    push_jobs(&fixture, TOPIC, &jobs(2, &"z".repeat(200)));
    let mut first = fixture.start();
    eventually("both places are held", || store.stage(TOPIC, "unack").len() == 2);
    first.kill();
    let second = fixture.start();
    push_jobs(&fixture, TOPIC, &jobs(10, "l")[2..]);
    eventually("all are done", || count_settled(&[&second], "done") == 10);
    assert_eq!(store.live_count(TOPIC), 0);
}

/// A worker that finds no limits has those of its own topic written again, and of no other.
#[test]
fn lost_limits_are_written_again_for_their_topic_alone() {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let topics = ["one", "two"].map(|name| topic(name, "puppet.wat", "max_running = 3"));
    fixture.manifest("", &topics);
    let daemon = fixture.start();
    let meta = |name: &str| format!("duebox:{{{name}}}:meta");
    let limit = |name: &str| fixture.redis.cli(&["HGET", &meta(name), "max_running"]);
    assert_eq!((limit("one").as_str(), limit("two").as_str()), ("3", "3"));
    // The worker of the other topic, which may look at any time, finds limits.
    fixture.redis.cli(&["HSET", &meta("two"), "max_running", "5"]);
    fixture.redis.cli(&["DEL", &meta("one")]);
    push_jobs(&fixture, "one", &[puppet_job("a", "", "{}")]);
    eventually("the job is done", || count_settled(&[&daemon], "done") == 1);
    assert_eq!((limit("one").as_str(), limit("two").as_str()), ("3", "5"));
}
