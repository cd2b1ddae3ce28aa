//! What has not started obeys: jobs of all lengths in one topic, quick ones first, so that the daemon believes
//! that the slow ones behind them are quick, too. Pause, cancel, priority and ttl reach all but the job that
//! runs, another daemon gets its half, and a runner that dies has crashed no job but that one.

use std::collections::BTreeSet;

use duebox_harness::{Daemon, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::log::{said, settled_as};
use crate::support::puppet::{PUPPET, Wish, count_settled, push_wishes, wish};

const TOPIC: &str = "work";
/// Logs its payload and naps for 40 ms.
const SLOW: &str = "lzz";
/// Jobs that may start while a command is on its way: the one that runs, and what a busy machine lets pass.
const MEANWHILE: usize = 4;

fn ground(keys: &str) -> Ground {
    let ground = Ground::new();
    ground.write("puppet.wat", PUPPET);
    let keys = format!("concurrency = 1\n{keys}");
    ground.manifest("lease = \"2s\"", &[topic(TOPIC, "puppet.wat", &keys)]);
    ground
}

fn jobs(start: &str, count: usize, payload: &str, options: &str) -> Vec<Wish> {
    (0..count).map(|n| wish(&format!("{start}-{n:03}"), payload, options)).collect()
}

/// Pushes quick jobs, and behind them slow ones.
fn push_mixed(ground: &Ground, slow: usize, options: &str) {
    let mut all = jobs("a-quick", 40, "l", "{}");
    all.extend(jobs("b-slow", slow, SLOW, options));
    push_wishes(ground, TOPIC, &all);
}

fn slow_started(daemon: &Daemon) -> usize {
    said(daemon).iter().filter(|line| line.id.starts_with("b-slow")).count()
}

fn after_some_slow_ones(ground: &Ground) -> Daemon {
    let daemon = ground.start();
    eventually("slow jobs run", || slow_started(&daemon) >= 3);
    daemon
}

#[test]
fn a_pause_holds_back_all_but_the_job_that_runs() {
    let ground = ground("");
    push_mixed(&ground, 300, "{}");
    let daemon = after_some_slow_ones(&ground);
    let store = ground.store();
    ground.duebox(&["pause", TOPIC]);
    let started = slow_started(&daemon);
    eventually("nothing is leased", || store.stage(TOPIC, "unack").is_empty());
    let meanwhile = slow_started(&daemon) - started;
    assert!(meanwhile <= MEANWHILE, "{meanwhile} jobs started in a pause");
    assert_eq!(store.attempts(TOPIC).len(), 0, "nothing is spent");
}

#[test]
fn jobs_that_have_not_started_can_be_cancelled() {
    let ground = ground("");
    push_mixed(&ground, 300, "{}");
    let daemon = after_some_slow_ones(&ground);
    let next = slow_started(&daemon) + MEANWHILE;
    let ids: Vec<String> = (next..next + 10).map(|n| format!("b-slow-{n:03}")).collect();
    let mut words = vec!["cancel", TOPIC];
    words.extend(ids.iter().map(String::as_str));
    ground.duebox(&words);
    let behind = format!("b-slow-{:03}", next + 12);
    eventually("the queue moves on", || said(&daemon).iter().any(|line| line.id == behind));
    let ran: BTreeSet<String> = said(&daemon).into_iter().map(|line| line.id).collect();
    let cancelled_and_ran: Vec<&String> = ids.iter().filter(|id| ran.contains(*id)).collect();
    assert!(cancelled_and_ran.is_empty(), "{cancelled_and_ran:?}");
}

#[test]
fn a_job_of_high_priority_is_next() {
    let ground = ground("");
    push_mixed(&ground, 300, "{}");
    let daemon = after_some_slow_ones(&ground);
    push_wishes(&ground, TOPIC, &[wish("urgent", "l", r#"{"priority":"high"}"#)]);
    let before = slow_started(&daemon);
    eventually("it runs", || said(&daemon).iter().any(|line| line.id == "urgent"));
    let lines = said(&daemon);
    let at = lines.iter().position(|line| line.id == "urgent").unwrap();
    let passed = lines[..at].iter().filter(|line| line.id.starts_with("b-slow")).count();
    assert!(passed <= before + MEANWHILE, "{} slow jobs came before it", passed - before);
}

#[test]
fn jobs_that_wait_longer_than_their_ttl_expire() {
    const SLOW_JOBS: usize = 60;
    let ground = ground("");
    push_mixed(&ground, SLOW_JOBS, r#"{"ttl_ms":500}"#);
    let daemon = ground.start();
    let store = ground.store();
    eventually("all have ended", || store.live_count(TOPIC) == 0);
    let ran = slow_started(&daemon);
    // 500 ms are 12 jobs of 40 ms; a late one may start with the last.
    assert!(ran <= 20, "{ran} jobs ran");
    let dead = store.stage(TOPIC, "dead");
    assert_eq!(dead.len() + ran, SLOW_JOBS);
    assert!(dead.iter().all(|id| store.dead_class(TOPIC, id) == "expired"), "{dead:?}");
}

#[test]
fn two_daemons_share_a_topic_of_slow_jobs() {
    const JOBS: usize = 100;
    let ground = ground("");
    ground.duebox(&["pause", TOPIC]);
    push_wishes(&ground, TOPIC, &jobs("b-slow", JOBS, SLOW, "{}"));
    let (first, second) = (ground.start(), ground.start());
    ground.duebox(&["resume", TOPIC]);
    eventually("all are done", || count_settled(&[&first, &second], "done") == JOBS);
    let shares = [&first, &second].map(|daemon| daemon.count(|line| settled_as(line, "done")));
    assert!(shares[0].abs_diff(shares[1]) <= JOBS / 10, "{shares:?}");
}

#[test]
fn a_runner_that_dies_has_crashed_only_the_job_that_ran() {
    let ground = ground("max_crashes = 3");
    let store = ground.store();
    push_mixed(&ground, 300, "{}");
    for _ in 0..3 {
        let mut daemon = after_some_slow_ones(&ground);
        daemon.kill();
        daemon.wait_exit();
    }
    let last = ground.start();
    eventually("the leases have ended", || {
        let held = store.stage(TOPIC, "unack").len();
        held <= 1 && slow_started(&last) >= 3
    });
    let dead = store.stage(TOPIC, "dead");
    assert!(dead.len() <= 1, "{dead:?} are dead");
    let crashes: u64 =
        store.attempts(TOPIC).values().map(|packed| packed / 1_000_000 % 1_000).sum();
    let crashed = crashes as usize + 3 * dead.len();
    assert!(crashed <= 3, "{crashed} crashes were counted for three deaths");
}
