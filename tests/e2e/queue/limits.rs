//! What a topic may do at most, all runners together: jobs that start in a time, and jobs that run at
//! once.

use std::time::{Duration, Instant};

use duebox_harness::{Daemon, eventually};

use crate::queue::idle::sleeps;
use crate::support::fixture::{Ground, topic, up};
use crate::support::log::is_said;
use crate::support::monitor::{Monitor, calls, keeps_rate, leases, most_at_once, started};
use crate::support::puppet::{PUPPET, Wish, count_settled, push_wishes, wish};

const TOPIC: &str = "mail";
/// The longest there is.
const POLL: Duration = Duration::from_secs(60);

/// Ground on which only a word from Redis wakes a runner in time: it does not poll, nor does it look
/// for leases that end before they do.
fn ground(keys: &str) -> Ground {
    ground_with_lease("10m", keys)
}

fn ground_with_lease(lease: &str, keys: &str) -> Ground {
    let ground = Ground::new();
    ground.write("puppet.wat", PUPPET);
    let redis = format!("[redis]\nurl = \"{}\"\npoll = \"1m\"\n", ground.redis.url());
    let runner = format!("[runner]\nlease = \"{lease}\"\n");
    ground.write("duebox.toml", redis + &runner + &topic(TOPIC, "puppet.wat", keys));
    ground
}

fn jobs(count: usize, payload: &str) -> Vec<Wish> {
    (0..count).map(|n| wish(&format!("job-{n}"), payload, "{}")).collect()
}

#[test]
fn two_runners_together_start_no_more_than_the_rate_allows() {
    const JOBS: usize = 150;
    let ground = ground("rate = \"50/s\"\nburst = 5");
    let store = ground.store();
    let monitor = Monitor::start(&ground.redis);
    let (first, second) = (ground.start(), ground.start());
    let began = Instant::now();
    push_wishes(&ground, TOPIC, &jobs(JOBS, ""));
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let took = began.elapsed();
    let commands = monitor.commands(&ground.redis);
    let changes = leases(&commands, TOPIC);
    assert_eq!(started(&changes).len(), JOBS);
    assert_eq!(keeps_rate(&changes, Duration::from_millis(20), 5), Ok(()));
    // A turn has up to four scripts, and two runners may take one for each job.
    let asked: usize = calls(&commands).values().sum();
    let per_job = asked as f64 / JOBS as f64;
    println!("50/s over two runners: {JOBS} jobs in {took:?}, {per_job:.1} scripts a job");
    assert!(per_job < 30.0, "{per_job:.1} scripts a job: it spins");
    eventually("all of it is told", || count_settled(&[&first, &second], "done") >= JOBS);
    assert_eq!(count_settled(&[&first, &second], "done"), JOBS);
}

#[test]
fn a_limited_topic_sleeps() {
    let ground = Ground::new();
    ground.write("puppet.wat", PUPPET);
    ground.manifest("", &[topic(TOPIC, "puppet.wat", "rate = \"1/h\"")]);
    let (daemon, store) = (ground.start(), ground.store());
    push_wishes(&ground, TOPIC, &jobs(50, "l"));
    eventually("one runs", || count_settled(&[&daemon], "done") == 1);
    sleeps(&daemon, &store, "fifty jobs behind a rate of one an hour");
    assert_eq!((count_settled(&[&daemon], "done"), store.live_count(TOPIC)), (1, 49));
}

#[test]
fn two_runners_together_run_no_more_at_once_than_the_topic_allows() {
    const JOBS: usize = 120;
    let ground = ground("max_running = 3\nconcurrency = 2");
    let store = ground.store();
    let monitor = Monitor::start(&ground.redis);
    let manifest = ground.path("duebox.toml");
    let (first, second) = (up(&manifest), up(&manifest));
    push_wishes(&ground, TOPIC, &jobs(JOBS, "z"));
    // Without a word from whoever ends a lease, the others would sleep for a minute.
    eventually("all are done", || store.live_count(TOPIC) == 0);
    let changes = leases(&monitor.commands(&ground.redis), TOPIC);
    assert_eq!((most_at_once(changes.iter()), started(&changes).len()), (3, JOBS));
    eventually("all of it is told", || count_settled(&[&first, &second], "done") >= JOBS);
    let shares = [&first, &second].map(|daemon| count_settled(&[daemon], "done"));
    println!("at most three at once: two runners shared {JOBS} jobs as {shares:?}");
    assert!(shares[0] > 0 && shares[1] > 0 && shares[0] + shares[1] == JOBS);
}

#[test]
fn who_ends_the_last_lease_wakes_who_waits_for_its_place() {
    let ground = ground("max_running = 1");
    let store = ground.store();
    let mut daemons = [ground.start(), ground.start()];
    // A nap of three seconds: whoever is told to end meanwhile ends it, and begins no other.
    push_wishes(&ground, TOPIC, &jobs(1, &format!("l{}", "z".repeat(150))));
    let has_it = |daemon: &Daemon| daemon.count(is_said) == 1;
    eventually("one has it", || daemons.iter().any(has_it));
    daemons.sort_by_key(has_it);
    let [other, ends] = &mut daemons;
    push_wishes(&ground, TOPIC, &jobs(5, "l")[1..]);
    assert_eq!(store.stage(TOPIC, "ready").len(), 4);
    let began = Instant::now();
    assert!(ends.terminate().success());
    eventually("the other runs the rest", || count_settled(&[&*other], "done") == 4);
    assert!(began.elapsed() < POLL / 2, "it was a poll that woke it");
}

#[test]
fn a_runner_that_dies_gives_its_places_back() {
    let ground = ground_with_lease("1s", "max_running = 2\nttr = \"1h\"");
    let store = ground.store();
    // 200 naps of 20 ms: both places are held when the first runner is killed.
    push_wishes(&ground, TOPIC, &jobs(2, &"z".repeat(200)));
    let mut first = ground.start();
    eventually("both places are held", || store.stage(TOPIC, "unack").len() == 2);
    first.kill();
    let second = ground.start();
    push_wishes(&ground, TOPIC, &jobs(10, "l")[2..]);
    eventually("all are done", || count_settled(&[&second], "done") == 10);
    assert_eq!(store.live_count(TOPIC), 0);
}
