//! Jobs that were leased ahead but have not started still obey commands. Quick jobs come before slow ones, so the
//! daemon expects the slow ones to be quick. Pause, cancel, replace, priority and ttl apply to all but the running job.
//! Another daemon gets its share, and a runner that dies has crashed only the running job.

use std::collections::BTreeSet;

use std::time::{Duration, Instant};

use duebox_harness::{Daemon, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::log::{handler_lines, settled_as};
use crate::support::puppet::{PUPPET, PuppetJob, count_settled, puppet_job, push_jobs};

const TOPIC: &str = "work";
/// Logs its payload and sleeps for 40 ms.
const SLOW: &str = "lzz";
/// Computes for about a millisecond.
const SPIN: &str = r#"(module
  (memory (export "memory") 1)
  (func (export "handle") (param i32) (result i32)
    (local $left i32)
    (local.set $left (i32.const 1000000))
    (loop $again
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $again (local.get $left)))
    i32.const 0))"#;
/// Jobs that may start before a command arrives: the running one, and some on a busy machine.
const MEANWHILE: usize = 4;

fn fixture(keys: &str) -> Fixture {
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let keys = format!("concurrency = 1\n{keys}");
    fixture.manifest("lease = \"2s\"", &[topic(TOPIC, "puppet.wat", &keys)]);
    fixture
}

fn jobs(start: &str, count: usize, payload: &str, options: &str) -> Vec<PuppetJob> {
    (0..count).map(|n| puppet_job(&format!("{start}-{n:03}"), payload, options)).collect()
}

/// Pushes quick jobs, then slow ones.
fn push_mixed(fixture: &Fixture, slow: usize, options: &str) {
    let mut all = jobs("a-quick", 40, "l", "{}");
    all.extend(jobs("b-slow", slow, SLOW, options));
    push_jobs(fixture, TOPIC, &all);
}

fn slow_started(daemon: &Daemon) -> usize {
    handler_lines(daemon).iter().filter(|line| line.id.starts_with("b-slow")).count()
}

fn after_some_slow_ones(fixture: &Fixture) -> Daemon {
    let daemon = fixture.start();
    eventually("slow jobs run", || slow_started(&daemon) >= 3);
    daemon
}

#[test]
fn a_pause_stops_all_but_the_running_job() {
    let fixture = fixture("");
    push_mixed(&fixture, 300, "{}");
    let daemon = after_some_slow_ones(&fixture);
    let store = fixture.store();
    fixture.duebox(&["pause", TOPIC]);
    let started = slow_started(&daemon);
    eventually("nothing is leased", || store.stage(TOPIC, "unack").is_empty());
    let meanwhile = slow_started(&daemon) - started;
    assert!(meanwhile <= MEANWHILE, "{meanwhile} jobs started in a pause");
    assert_eq!(store.attempts(TOPIC).len(), 0, "nothing is spent");
}

#[test]
fn jobs_that_have_not_started_can_be_cancelled() {
    let fixture = fixture("");
    push_mixed(&fixture, 300, "{}");
    let daemon = after_some_slow_ones(&fixture);
    // The commands take as long as some jobs.
    let next = slow_started(&daemon) + 60;
    let ids: Vec<String> = (next..next + 10).map(|n| format!("b-slow-{n:03}")).collect();
    for id in &ids {
        fixture.duebox(&["cancel", TOPIC, id]);
    }
    let behind = format!("b-slow-{:03}", next + 12);
    eventually("the queue moves on", || {
        handler_lines(&daemon).iter().any(|line| line.id == behind)
    });
    let ran: BTreeSet<String> = handler_lines(&daemon).into_iter().map(|line| line.id).collect();
    let cancelled_and_ran: Vec<&String> = ids.iter().filter(|id| ran.contains(*id)).collect();
    assert!(cancelled_and_ran.is_empty(), "{cancelled_and_ran:?}");
}

#[test]
fn a_high_priority_job_is_next() {
    let fixture = fixture("");
    push_mixed(&fixture, 300, "{}");
    let daemon = after_some_slow_ones(&fixture);
    push_jobs(&fixture, TOPIC, &[puppet_job("urgent", "l", r#"{"priority":"high"}"#)]);
    let before = slow_started(&daemon);
    eventually("it runs", || handler_lines(&daemon).iter().any(|line| line.id == "urgent"));
    let lines = handler_lines(&daemon);
    let at = lines.iter().position(|line| line.id == "urgent").unwrap();
    let passed = lines[..at].iter().filter(|line| line.id.starts_with("b-slow")).count();
    assert!(passed <= before + MEANWHILE, "{} slow jobs came before it", passed - before);
}

#[test]
fn jobs_that_wait_longer_than_their_ttl_expire() {
    const SLOW_JOBS: usize = 60;
    let fixture = fixture("");
    push_mixed(&fixture, SLOW_JOBS, r#"{"ttl_ms":500}"#);
    let daemon = fixture.start();
    let store = fixture.store();
    eventually("all have ended", || store.live_count(TOPIC) == 0);
    let dead = store.stage(TOPIC, "dead");
    // The log follows Redis.
    eventually("it is reported", || dead.len() + slow_started(&daemon) >= SLOW_JOBS);
    let ran = slow_started(&daemon);
    // 500 ms are 12 jobs of 40 ms; a late one may start with the last.
    assert!(ran <= 20, "{ran} jobs ran");
    assert_eq!(dead.len() + ran, SLOW_JOBS);
    assert!(dead.iter().all(|id| store.dead_class(TOPIC, id) == "expired"), "{dead:?}");
}

#[test]
fn two_daemons_share_a_topic_of_slow_jobs() {
    const JOBS: usize = 100;
    let fixture = fixture("");
    fixture.duebox(&["pause", TOPIC]);
    push_jobs(&fixture, TOPIC, &jobs("b-slow", JOBS, SLOW, "{}"));
    let (first, second) = (fixture.start(), fixture.start());
    fixture.duebox(&["resume", TOPIC]);
    eventually("all are done", || count_settled(&[&first, &second], "done") == JOBS);
    let shares = [&first, &second].map(|daemon| daemon.count(|line| settled_as(line, "done")));
    assert!(shares[0].abs_diff(shares[1]) <= JOBS / 10, "{shares:?}");
}

#[test]
fn jobs_that_have_not_started_can_be_replaced() {
    const SLOW_JOBS: usize = 120;
    let fixture = fixture("");
    push_mixed(&fixture, SLOW_JOBS, "{}");
    let daemon = after_some_slow_ones(&fixture);
    // The command takes as long as some jobs.
    let next = slow_started(&daemon) + 30;
    let ids: Vec<String> = (next..next + 10).map(|n| format!("b-slow-{n:03}")).collect();
    let lines: Vec<String> =
        ids.iter().map(|id| format!(r#"{{"id":"{id}","payload":"lx"}}"#)).collect();
    fixture.write("new.ndjson", lines.join("\n"));
    fixture.duebox(&["push", TOPIC, "--jobs", "new.ndjson", "--if-exists", "replace"]);
    let store = fixture.store();
    eventually("all have ended", || store.live_count(TOPIC) == 0);
    // The log follows Redis.
    let is_told = |id: &String| handler_lines(&daemon).iter().any(|line| line.id == *id);
    eventually("it is reported", || ids.iter().all(is_told));
    let ran = handler_lines(&daemon);
    for id in &ids {
        let texts: Vec<&str> =
            ran.iter().filter(|line| line.id == *id).map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["lx"], "{id} ran as it was before");
    }
}

/// Pushes jobs of which each tenth is slow.
fn push_a_tenth_slow(fixture: &Fixture, count: usize) {
    let job = |n: usize| {
        let (start, payload) = if n % 10 == 9 { ("b-slow", SLOW) } else { ("a-quick", "l") };
        puppet_job(&format!("{start}-{n:04}"), payload, "{}")
    };
    push_jobs(fixture, TOPIC, &(0..count).map(job).collect::<Vec<_>>());
}

#[test]
fn a_pause_and_a_high_priority_hold_for_a_mix_with_a_tenth_of_slow_jobs() {
    let fixture = fixture("");
    push_a_tenth_slow(&fixture, 1_500);
    let daemon = after_some_slow_ones(&fixture);
    push_jobs(&fixture, TOPIC, &[puppet_job("urgent", "l", r#"{"priority":"high"}"#)]);
    let before = slow_started(&daemon);
    eventually("it runs", || handler_lines(&daemon).iter().any(|line| line.id == "urgent"));
    let lines = handler_lines(&daemon);
    let at = lines.iter().position(|line| line.id == "urgent").unwrap();
    let passed = lines[..at].iter().filter(|line| line.id.starts_with("b-slow")).count();
    assert!(passed <= before + MEANWHILE, "{} slow jobs came before it", passed - before);

    fixture.duebox(&["pause", TOPIC]);
    let (store, started) = (fixture.store(), slow_started(&daemon));
    eventually("nothing is leased", || store.stage(TOPIC, "unack").is_empty());
    let meanwhile = slow_started(&daemon) - started;
    assert!(meanwhile <= MEANWHILE, "{meanwhile} slow jobs started in a pause");
    assert!(store.live_count(TOPIC) > 500, "the jobs were over before the pause");
    assert!(store.attempts(TOPIC).is_empty(), "nothing is spent");
}

#[test]
fn two_daemons_share_a_mix_with_a_tenth_of_slow_jobs() {
    const JOBS: usize = 2_000;
    let fixture = fixture("");
    fixture.duebox(&["pause", TOPIC]);
    push_a_tenth_slow(&fixture, JOBS);
    let daemons = [fixture.start(), fixture.start()];
    fixture.duebox(&["resume", TOPIC]);
    eventually("all are done", || count_settled(&daemons.each_ref(), "done") == JOBS);
    let shares = daemons.each_ref().map(slow_started);
    // The time of the quick jobs does not count next to that of the slow ones.
    assert!(shares[0].abs_diff(shares[1]) <= JOBS / 10 / 10, "slow jobs: {shares:?}");
}

#[test]
fn two_daemons_need_half_the_time_for_jobs_of_100_ms() {
    const JOBS: usize = 200;
    // 20 ms for each z.
    const DURATION: Duration = Duration::from_millis(100);
    let fixture = fixture("");
    fixture.duebox(&["pause", TOPIC]);
    let mut all = jobs("a-quick", 40, "l", "{}");
    all.extend(jobs("b-slow", JOBS, "lzzzzz", "{}"));
    push_jobs(&fixture, TOPIC, &all);
    let daemons = [fixture.start(), fixture.start()];
    fixture.duebox(&["resume", TOPIC]);
    let began = Instant::now();
    eventually("all are done", || count_settled(&daemons.each_ref(), "done") == JOBS + 40);
    let took = began.elapsed();
    let shares = daemons.each_ref().map(slow_started);
    println!("{JOBS} jobs of 100 ms over two daemons: {took:?}, {shares:?}");
    assert!(shares[0].abs_diff(shares[1]) <= JOBS / 10, "{shares:?}");
    let one_after_the_other = DURATION * JOBS as u32;
    assert!(took < one_after_the_other * 3 / 4, "{took:?}");
}

/// Redis counts each leased job as running. One that waits for a place in its daemon goes back, so that it takes
/// none from another daemon.
#[test]
fn jobs_that_have_not_started_leave_max_running_to_another_daemon() {
    const JOBS: usize = 60;
    let fixture = Fixture::new();
    fixture.write("puppet.wat", PUPPET);
    let keys = "concurrency = 50\nmax_running = 2";
    fixture.manifest("lease = \"2s\"\nmax_jobs = 1", &[topic(TOPIC, "puppet.wat", keys)]);
    fixture.duebox(&["pause", TOPIC]);
    push_jobs(&fixture, TOPIC, &jobs("b-slow", JOBS, "lzzzzz", "{}"));
    let daemons = [fixture.start(), fixture.start()];
    fixture.duebox(&["resume", TOPIC]);
    eventually("all are done", || count_settled(&daemons.each_ref(), "done") == JOBS);
    let shares = daemons.each_ref().map(slow_started);
    assert!(shares.iter().all(|share| *share >= JOBS / 4), "{shares:?}");
    let store = fixture.store();
    assert!(store.attempts(TOPIC).is_empty(), "nothing is spent");
}

#[test]
fn a_dead_runner_crashed_only_the_running_job() {
    let fixture = fixture("max_crashes = 3");
    let store = fixture.store();
    push_mixed(&fixture, 300, "{}");
    for _ in 0..3 {
        let mut daemon = after_some_slow_ones(&fixture);
        daemon.kill();
        daemon.wait_exit();
    }
    let last = fixture.start();
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

/// One thread runs the jobs one after the other, although more may run at once.
#[test]
fn a_dead_runner_crashed_no_job_that_waited_for_a_thread() {
    const KILLS: usize = 5;
    let fixture = Fixture::new();
    fixture.write("spin.wat", SPIN);
    let keys = "concurrency = 64\nmax_crashes = 3";
    fixture.manifest("lease = \"1s\"\nthreads = 1", &[topic(TOPIC, "spin.wat", keys)]);
    let store = fixture.store();
    push_jobs(&fixture, TOPIC, &jobs("spin", 1_000, "", "{}"));
    for _ in 0..KILLS {
        let mut daemon = fixture.start();
        eventually("jobs are leased", || !store.stage(TOPIC, "unack").is_empty());
        daemon.kill();
        daemon.wait_exit();
    }
    let _last = fixture.start();
    eventually("all are done", || store.live_count(TOPIC) == 0);
    // The job that ran at each kill.
    let dead = store.stage(TOPIC, "dead");
    assert!(dead.len() <= KILLS, "{} jobs are dead: {dead:?}", dead.len());
}
