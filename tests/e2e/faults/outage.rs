//! Redis goes away, hangs, or loses its scripts. The daemon waits, recovers without help, and loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duebox_harness::{
    Daemon, Lateness, LogLine, Proxy, RedisServer, eventually, only_on_one_server,
};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{
    handler_lines, is_handler_line, is_lost, is_verdict, settled_as, tally, verdicts,
};
use crate::support::monitor::{Monitor, leases};
use crate::support::producer::{push, push_many, under_load};
use crate::support::puppet::count_settled;

const TOPIC: &str = "work";

fn fixture_with(fixture: Fixture, handler: &Handler, runner: &str, keys: &str) -> Fixture {
    fixture.write("work.wat", handler.wat());
    fixture.manifest(runner, &[topic(TOPIC, "work.wat", keys)]);
    fixture
}

fn log_count(daemon: &Daemon, begin: &str) -> usize {
    daemon.count(|line| line.message().starts_with(begin))
}

#[test]
fn redis_ends_and_starts_again_under_load() {
    const JOBS: usize = 3_000;
    let handler = Handler::logs("ran").naps(Duration::from_millis(10));
    // Longer than a cluster takes to start again.
    let runner = "lease = \"30s\"";
    let mut fixture = fixture_with(Fixture::persistent(), &handler, runner, "concurrency = 16");
    let pushed = push_many(&fixture, TOPIC, JOBS);
    let mut daemon = fixture.start();
    for outage in 1..=3 {
        eventually("a part is settled", || daemon.count(is_verdict) >= outage * JOBS / 5);
        fixture.redis.stop();
        eventually("the daemon notices", || log_count(&daemon, "Redis fails") >= outage);
        fixture.redis.restart();
        eventually("the daemon is back", || log_count(&daemon, "Redis is back") >= outage);
    }
    let store = fixture.store();
    eventually("every job is settled", || store.live_count(TOPIC) == 0);
    assert!(daemon.terminate().success());
    assert_eq!(store.left(TOPIC), BTreeSet::new());
    let ran: BTreeSet<String> = handler_lines(&daemon).into_iter().map(|line| line.id).collect();
    assert_eq!(ran, pushed);
    let settled = verdicts(&daemon);
    // A verdict whose reply was lost is recognized when it is repeated.
    let times = tally(settled.iter().filter(|v| v.settled == "done").map(|verdict| &verdict.id));
    assert!(times.values().all(|times| *times == 1), "settled twice: {times:?}");
    assert!(settled.iter().all(|verdict| verdict.attempt == 1));
    let lost = daemon.count(is_lost);
    println!("3 outages, {JOBS} jobs: {} reported as done, {lost} as lost", times.len());
    assert_eq!((times.len(), lost), (JOBS, 0));
}

#[test]
fn scripts_are_flushed_under_load() {
    let handler = Handler::logs("ran").naps(Duration::from_millis(5));
    let fixture = fixture_with(Fixture::new(), &handler, "", "concurrency = 8");
    let mut daemon = fixture.start();
    let pushed = under_load(&fixture, TOPIC, || {
        for _ in 0..50 {
            assert_eq!(fixture.redis.cli(&["SCRIPT", "FLUSH"]), "OK");
            let before = daemon.count(is_verdict);
            eventually("jobs go on", || daemon.count(is_verdict) >= before + 10);
        }
    });
    eventually("every job is settled", || daemon.count(is_verdict) >= pushed.len());
    assert!(daemon.terminate().success());
    let settled = verdicts(&daemon);
    assert!(settled.iter().all(|v| v.settled == "done" && v.attempt == 1));
    let once: BTreeMap<&str, usize> = pushed.iter().map(|id| (id.as_str(), 1)).collect();
    assert_eq!(tally(settled.iter().map(|verdict| &verdict.id)), once);
    assert_eq!(log_count(&daemon, "Redis fails"), 0);
    assert_eq!(fixture.store().left(TOPIC), BTreeSet::new());
}

#[test]
fn a_redis_that_hangs_longer_than_the_lease_ends_the_guests() {
    let handler = Handler::logs("ran").naps(Duration::from_secs(7_200));
    let keys = "ttr = \"3h\"\nconcurrency = 3\nmax_crashes = 999";
    let fixture = fixture_with(Fixture::new(), &handler, "lease = \"1s\"", keys);
    let daemon = fixture.start();
    push_many(&fixture, TOPIC, 3);
    eventually("three run", || daemon.count(is_handler_line) == 3);
    fixture.redis.pause();
    daemon.wait_for_line("the guests are ended", |line| {
        line.message().starts_with("leases expired without renewal")
    });
    assert_eq!(daemon.count(is_handler_line), 3);
    // Later runs have a quick handler; interrupted jobs can only run again.
    fixture.write("work.wat", Handler::logs("again").wat());
    daemon
        .wait_for_line("the new module", |line| line.message().starts_with("a new module serves"));
    fixture.redis.resume();
    eventually("they run again", || daemon.count(|line| settled_as(line, "done")) == 3);
    let settled = verdicts(&daemon);
    let done = settled.iter().filter(|verdict| verdict.settled == "done");
    assert!(done.clone().all(|verdict| verdict.attempt == 1), "an attempt was spent: {settled:?}");
    assert_eq!(tally(done.map(|v| &v.id)), BTreeMap::from([("0", 1), ("1", 1), ("2", 1)]));
    assert_eq!(fixture.store().live_count(TOPIC), 0);
}

#[test]
fn verdicts_survive_a_short_outage() {
    let handler = Handler::logs("ran").naps(Duration::from_millis(300));
    let fixture = fixture_with(Fixture::new(), &handler, "lease = \"20s\"", "concurrency = 4");
    let daemon = fixture.start();
    push_many(&fixture, TOPIC, 4);
    eventually("four run", || daemon.count(is_handler_line) == 4);
    fixture.redis.pause();
    daemon.wait_for_line("the outage", |line: &LogLine| line.message().starts_with("Redis fails"));
    fixture.redis.resume();
    eventually("each verdict counts", || daemon.count(|line| settled_as(line, "done")) == 4);
    assert_eq!((daemon.count(is_handler_line), daemon.count(is_lost)), (4, 0));
    push(&fixture, TOPIC, "after", 0);
    daemon.wait_for_line("the next job", |line| line.has("job_id", "after"));
}

#[test]
fn it_drains_in_time_while_redis_is_away() {
    drains_in_time_without_redis(|fixture, daemon| {
        fixture.redis.stop();
        daemon.wait_for_line("the outage", |line| line.message().starts_with("Redis fails"));
    });
}

#[test]
fn it_drains_in_time_while_redis_hangs() {
    drains_in_time_without_redis(|fixture, _| fixture.redis.pause());
}

fn drains_in_time_without_redis(fails: impl FnOnce(&mut Fixture, &Daemon)) {
    let handler = Handler::logs("ran").naps(Duration::from_secs(7_200));
    let runner = "drain_timeout = \"5s\"\nevents = 1000";
    let mut fixture = fixture_with(Fixture::new(), &handler, runner, "ttr = \"3h\"");
    let mut daemon = fixture.start();
    push(&fixture, TOPIC, "long", 0);
    daemon.wait_for_line("the job runs", is_handler_line);
    fails(&mut fixture, &daemon);
    let (asked_at, lateness) = (std::time::Instant::now(), Lateness::measure());
    assert_eq!(daemon.terminate().code(), Some(0));
    let ended_after = asked_at.elapsed();
    let drained = daemon.wait_for_line("it has drained", |line| line.message() == "drained");
    let drained_after = Duration::from_secs_f64(drained.decimal("drain_ms").unwrap() / 1_000.0);
    println!(
        "drain_timeout 5 s without Redis: drained after {drained_after:?}, ended after {ended_after:?}"
    );
    // No second for verdicts is added, as there is with a Redis that answers.
    let most = lateness.allows(Duration::from_millis(5_800));
    assert!(drained_after < most, "{drained_after:?}, at most {most:?}");
    // On a busy machine the kernel took 1.2 s to end the process after that.
    let most = lateness.allows(Duration::from_secs(8));
    assert!(ended_after < most, "{ended_after:?}, at most {most:?}");
}

/// A restart without persistence and FLUSHALL lose the limits with the jobs. Nothing is leased without them.
#[test]
fn limits_that_redis_lost_hold_at_once() {
    const JOBS: usize = 6;
    let handler = Handler::logs("ran").naps(Duration::from_millis(30));
    let keys = "concurrency = 6\nmax_running = 1";
    let mut fixture = fixture_with(Fixture::new(), &handler, "", keys);
    let daemon = fixture.start();
    let monitor_of = |fixture: &Fixture| Monitor::start(&fixture.redis);
    for round in 1..=4 {
        if round % 2 == 0 {
            fixture.redis.restart();
        } else {
            assert_eq!(fixture.redis.cli(&["FLUSHALL"]), "OK");
        }
        let monitor = monitor_of(&fixture);
        push_many(&fixture, TOPIC, JOBS);
        eventually("all are done", || daemon.count(is_verdict) >= round * JOBS);
        eventually("the version of the layout is back", || {
            fixture.redis.cli(&["GET", "duebox:layout"]) == "1"
        });
        let mut open: i32 = 0;
        for change in leases(&monitor.commands(&fixture.redis), TOPIC) {
            open += if change.expires_us.is_some() { 1 } else { -1 };
            assert!(open <= 1, "round {round}: {open} at once");
        }
    }
    assert_eq!(fixture.store().live_count(TOPIC), 0);
}

/// Connections are cut faster than a lease lasts: leases are renewed, and no job runs twice or dies.
#[test]
fn rapid_disconnects_bury_no_job() {
    only_on_one_server!("a proxy stands in front of one server");
    const JOBS: usize = 40;
    let handler = Handler::logs("ran").naps(Duration::from_millis(300));
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port());
    let fixture = fixture_with(Fixture::on(redis), &handler, "", "");
    let manifest = format!(
        "[redis]\nurl = \"{}\"\npoll = \"200ms\"\n[runner]\nlease = \"2s\"\n{}",
        proxy.url(),
        topic(TOPIC, "work.wat", "concurrency = 4\nmax_crashes = 1")
    );
    fixture.write("duebox.toml", manifest);
    let (first, second) = (fixture.start(), fixture.start());
    push_many(&fixture, TOPIC, JOBS);
    let done = || count_settled(&[&first, &second], "done");
    let mut cuts = 0;
    while done() < JOBS / 2 {
        cuts += proxy.cut();
        std::thread::sleep(Duration::from_millis(50));
    }
    eventually("all are done", || done() == JOBS);
    println!("{JOBS} jobs under {cuts} cuts");
    let store = fixture.store();
    assert_eq!((store.live_count(TOPIC), store.stage(TOPIC, "dead").len()), (0, 0));
    let ran = [&first, &second].map(|daemon| daemon.count(is_handler_line));
    assert_eq!(ran.iter().sum::<usize>(), JOBS, "some ran twice");
    assert_eq!(first.count(is_lost) + second.count(is_lost), 0);
}

/// An outage longer than the lease: another runner may reclaim the jobs first, and counts no crash.
#[test]
fn an_outage_longer_than_the_lease_is_no_crash() {
    let handler = Handler::logs("ran").naps(Duration::from_millis(1_500));
    let keys = "concurrency = 2\nmax_crashes = 1";
    let fixture = fixture_with(Fixture::persistent(), &handler, "lease = \"1s\"", keys);
    let mut fixture = fixture;
    let (first, second) = (fixture.start(), fixture.start());
    push_many(&fixture, TOPIC, 4);
    eventually("all run", || first.count(is_handler_line) + second.count(is_handler_line) == 4);
    fixture.redis.stop();
    for daemon in [&first, &second] {
        daemon.wait_for_line("the guests are ended", |line| {
            line.message().starts_with("leases expired without renewal")
        });
    }
    fixture.redis.restart();
    let done = || count_settled(&[&first, &second], "done");
    eventually("all are done", || done() == 4);
    assert!(fixture.store().stage(TOPIC, "dead").is_empty());
}

/// Waiting workers go on at once when Redis is back, long before their leases expire.
#[test]
fn jobs_go_on_within_a_second_after_an_outage() {
    let fixture = Fixture::persistent();
    let mut fixture = fixture_with(fixture, &Handler::logs("ran"), "lease = \"60s\"", "");
    let daemon = fixture.start();
    push(&fixture, TOPIC, "before", 0);
    daemon.wait_for_line("the first job", |line| settled_as(line, "done"));
    fixture.redis.stop();
    let failed_at = std::time::Instant::now();
    // By then a worker that waits by itself would wait for up to 2.5 s.
    eventually("an outage of seconds", || failed_at.elapsed() > Duration::from_secs(6));
    fixture.redis.restart();
    let back_at = std::time::Instant::now();
    push(&fixture, TOPIC, "after", 0);
    daemon.wait_for_line("the next job", |line| line.has("job_id", "after"));
    let took = back_at.elapsed();
    println!("the first job ran {took:?} after Redis was back");
    assert!(took < Duration::from_millis(1_500), "{took:?}");
}

/// Redis refuses to write for a third of a lease, and writes for a moment in between: long enough to settle and
/// to renew, so that no lease ends.
#[test]
fn verdicts_are_settled_in_the_first_moment_in_which_redis_writes() {
    only_on_one_server!("a server of a cluster refuses REPLICAOF");
    const JOBS: usize = 800;
    const READ_ONLY: Duration = Duration::from_secs(1);
    const WRITES: Duration = Duration::from_millis(200);
    let handler = Handler::logs("ran").naps(Duration::from_millis(300));
    let fixture = fixture_with(Fixture::new(), &handler, "lease = \"3s\"", "concurrency = 16");
    let pushed = push_many(&fixture, TOPIC, JOBS);
    // Each would run again what the other one cannot settle in time.
    let mut daemons = [fixture.start(), fixture.start()];
    eventually("jobs run", || daemons.iter().all(|daemon| daemon.count(is_verdict) > 0));
    for _ in 0..12 {
        // A replica of a server that is not there keeps its data and refuses writes.
        fixture.redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
        std::thread::sleep(READ_ONLY);
        fixture.redis.cli(&["REPLICAOF", "NO", "ONE"]);
        std::thread::sleep(WRITES);
    }
    eventually("every job is settled", || fixture.store().live_count(TOPIC) == 0);
    assert!(daemons.iter_mut().all(|daemon| daemon.terminate().success()));
    let lines: Vec<_> = daemons.iter().flat_map(handler_lines).collect();
    let once: BTreeMap<&str, usize> = pushed.iter().map(|id| (id.as_str(), 1)).collect();
    let ran = tally(lines.iter().map(|line| &line.id));
    let twice: Vec<_> = ran.iter().filter(|(_, times)| **times > 1).collect();
    assert!(ran == once, "of {} jobs {} ran, again: {twice:?}", pushed.len(), ran.len());
}

/// Redis settles verdicts, the reply is lost, and Redis refuses the repetition. When it accepts calls again, it has no
/// lease for these verdicts.
#[test]
fn a_verdict_is_recognized_though_its_repetition_was_refused() {
    only_on_one_server!("a proxy stands in front of one server");
    const JOBS: usize = 4;
    let handler = Handler::logs("ran").naps(Duration::from_secs(1));
    let redis = RedisServer::start();
    let proxy = Proxy::start(redis.port());
    let fixture = fixture_with(Fixture::on(redis), &handler, "", "").reached_at(proxy.url());
    let topic = topic(TOPIC, "work.wat", "concurrency = 4");
    let manifest =
        format!("[redis]\nurl = \"{}\"\n[runner]\nlease = \"30s\"\n{topic}", proxy.url());
    fixture.write("duebox.toml", manifest);
    let daemon = fixture.start();
    push_many(&fixture, TOPIC, JOBS);
    eventually("the jobs run", || daemon.count(is_handler_line) == JOBS);
    // A word of a call of its own, not a part of a key.
    let verdict = "\r\nack\r\n";
    proxy.lose_reply_to(verdict, 0);
    proxy.refuse(true);
    eventually("the reply is lost", || proxy.lost() == 1);
    // As a server that loads its data does. On a replica a verdict without a lease has nothing to write.
    fixture.redis.cli(&["ACL", "SETUSER", "default", "-evalsha", "-eval"]);
    proxy.measure_replies_to(verdict);
    proxy.refuse(false);
    eventually("the repetition has a reply", || proxy.longest_reply() > 0);
    assert_eq!(daemon.count(is_verdict), 0, "it is not the refusal");
    fixture.redis.cli(&["ACL", "SETUSER", "default", "+evalsha", "+eval"]);
    let ended = |line: &LogLine| is_verdict(line) || is_lost(line);
    eventually("every verdict has an end", || daemon.count(ended) == JOBS);
    let done = daemon.count(|line| settled_as(line, "done"));
    assert_eq!((done, daemon.count(is_lost)), (JOBS, 0));
    assert_eq!(daemon.count(is_handler_line), JOBS);
}
