//! An idle daemon sleeps: it polls Redis once per interval and uses almost no CPU time.

use std::time::{Duration, Instant};

use duebox_harness::{Daemon, eventually};
use redis::{InfoDict, cmd};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_handler_line, settled_as};
use crate::support::producer::{push, push_many};
use crate::support::redis_state::{Store, key};

const TOPIC: &str = "work";
/// The observation time: ten polls.
const WINDOW: Duration = Duration::from_secs(2);
/// The CPU time it may use meanwhile, as a fraction of one core.
const BUSY_MAX: f64 = 0.1;
/// Commands it may cause per poll, including those of scripts; a poll and a turn take about 30.
const COMMANDS_A_POLL_MAX: f64 = 100.0;

/// Observes the daemon and fails if it is busy.
pub(crate) fn sleeps(daemon: &Daemon, store: &Store, while_what: &str) {
    let commands = || -> u64 {
        let infos: Vec<InfoDict> = store.ask_all(cmd("INFO").arg("stats"));
        infos.iter().map(|info| info.get::<u64>("total_commands_processed").unwrap()).sum()
    };
    let (began, cpu, asked) = (Instant::now(), processor_time(daemon), commands());
    eventually("the window is over", || began.elapsed() >= WINDOW);
    let wall = began.elapsed().as_secs_f64();
    let busy = (processor_time(daemon) - cpu).as_secs_f64() / wall;
    let a_poll = (commands() - asked) as f64 / (wall / 0.2);
    println!("{while_what}: {:.1} % of a processor, {a_poll:.1} commands a poll", busy * 100.0);
    assert!(busy < BUSY_MAX, "{while_what}: {:.0} % of a processor", busy * 100.0);
    assert!(a_poll < COMMANDS_A_POLL_MAX, "{while_what}: {a_poll:.1} commands a poll");
}

/// The CPU time of the process so far, all threads together.
fn processor_time(daemon: &Daemon) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap();
    // After the name, which may contain spaces: user and system time are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    // Linux reports hundredths of a second to user space.
    Duration::from_millis(ticks * 10)
}

#[test]
fn it_sleeps_with_nothing_to_do() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    let topics: Vec<String> =
        (0..50).map(|n| topic(&format!("work-{n}"), "work.wat", "")).collect();
    fixture.manifest("", &topics);
    let daemon = fixture.start();
    let store = fixture.store();
    push(&fixture, "work-0", "later", store.now_ms() + 3_600_000);
    // Fifty topics take fifty script calls per poll, in one round trip.
    let (began, cpu) = (Instant::now(), processor_time(&daemon));
    eventually("the window is over", || began.elapsed() >= WINDOW);
    let busy = (processor_time(&daemon) - cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    println!("50 idle topics: {:.1} % of a processor", busy * 100.0);
    assert!(busy < BUSY_MAX, "{:.0} % of a processor", busy * 100.0);
}

/// Polls, maintenance and status reports cover all topics together. One by one they would take eleven round
/// trips per second.
#[test]
fn a_hundred_idle_topics_are_polled_together() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    let topics: Vec<String> =
        (0..100).map(|n| topic(&format!("work-{n}"), "work.wat", "")).collect();
    let manifest = format!("[redis]\nurl = \"{}\"\n{}", fixture.redis.url(), topics.concat());
    fixture.write("duebox.toml", manifest);
    let _daemon = fixture.start();
    let (store, primaries) = (fixture.store(), fixture.redis.primaries().len() as u64);
    let reads = || -> u64 {
        let infos: Vec<InfoDict> = store.ask_all(cmd("INFO").arg("stats"));
        infos.iter().map(|info| info.get::<u64>("total_reads_processed").unwrap()).sum()
    };
    let (mut began, mut read) = (Instant::now(), reads());
    eventually("each topic has had its first look", || {
        if began.elapsed() < Duration::from_secs(1) {
            return false;
        }
        let before = std::mem::replace(&mut read, reads());
        began = Instant::now();
        read - before < 10 * primaries
    });
    // Longer than the ten seconds between maintenance runs.
    eventually("the window is over", || began.elapsed() >= Duration::from_secs(12));
    let a_second = (reads() - read) as f64 / began.elapsed().as_secs_f64();
    println!("100 idle topics: {a_second:.2} reads a second");
    // Two round trips; Redis may read a hundred calls in two parts. In a cluster that is so for each primary, whose
    // replica reports once a second, too.
    let most = if primaries == 1 { 3.0 } else { 4.0 * primaries as f64 };
    assert!(a_second <= most, "{a_second:.2} reads a second");
}

/// A job that falls due alone is promoted, leased and settled. Its verdict does not look for more work.
#[test]
fn a_lone_job_takes_three_scripts() {
    const JOBS: u64 = 100;
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    fixture.manifest("", &[topic(TOPIC, "work.wat", "")]);
    let daemon = fixture.start();
    let store = fixture.store();
    let scripts = || -> u64 {
        let infos: Vec<InfoDict> = store.ask_all(cmd("INFO").arg("commandstats"));
        let calls = infos.iter().map(|info| {
            let line: String = info.get("cmdstat_evalsha").unwrap_or_default();
            let calls = line.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
            calls.map_or(0, |calls| calls.parse::<u64>().unwrap())
        });
        calls.sum()
    };
    let first_due = store.now_ms() + 1_000;
    for job in 0..JOBS {
        push(&fixture, TOPIC, &job.to_string(), first_due + 20 * job);
    }
    let before = scripts();
    let done = || daemon.count(|line| settled_as(line, "done")) as u64;
    eventually("all are done", || done() == JOBS);
    let a_job = (scripts() - before) as f64 / JOBS as f64;
    println!("{a_job:.2} scripts a job");
    // Polls, and looks for expired leases, take a few; jobs that fall due during a turn share scripts.
    assert!(a_job < 4.0, "{a_job:.2} scripts a job");
}

#[test]
fn it_sleeps_while_no_job_may_start() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").naps(Duration::from_secs(7_200)).wat());
    fixture.manifest("", &[topic(TOPIC, "work.wat", "ttr = \"3h\"\nconcurrency = 2")]);
    let daemon = fixture.start();
    let store = fixture.store();
    push(&fixture, TOPIC, "0", 0);
    daemon.wait_for_line("it runs", is_handler_line);
    // A due successor waits for the end of the lease; promote skips it each time.
    push(&fixture, TOPIC, "0", 0);
    sleeps(&daemon, &store, "a due successor of a running job");
    push_many(&fixture, TOPIC, 50);
    eventually("both lanes are taken", || daemon.count(is_handler_line) == 2);
    sleeps(&daemon, &store, "fifty ready jobs behind two that run");
}

#[test]
fn it_sleeps_while_a_topic_is_paused() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    fixture.manifest("", &[topic(TOPIC, "work.wat", "")]);
    let daemon = fixture.start();
    let store = fixture.store();
    fixture.redis.cli(&["HSET", &key(TOPIC, "meta"), "paused", "1"]);
    push_many(&fixture, TOPIC, 50);
    eventually("they are promoted", || store.stage(TOPIC, "ready").len() == 50);
    sleeps(&daemon, &store, "a paused topic");
    assert_eq!(daemon.count(is_handler_line), 0);
    fixture.redis.cli(&["HDEL", &key(TOPIC, "meta"), "paused"]);
    eventually("they run", || daemon.count(|line| settled_as(line, "done")) == 50);
}
