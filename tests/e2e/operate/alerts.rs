//! Alerts of `examples/observability/alerts.yml`, each raised by its cause, and gone after what its runbook says.
//!
//! A condition is evaluated on one scrape, without the time for which an alert waits.

use std::io::{BufRead, BufReader, PipeReader};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use duebox_harness::{Daemon, eventually, only_on_one_server};

use crate::support::alert::{
    BREAKER_OPEN, FULL, JOBS_DIE, JOBS_LATE, LEASES_LOST, LOG_LINES_DROPPED, MANIFEST_REFUSED,
    MODULE_REFUSED, NO_RUNNER, REDIS_AT_RISK, REDIS_AWAY, REDIS_SLOW, RoundTrips, STARTS_LATE,
    TOPICS_WAIT,
};
use crate::support::client::address;
use crate::support::exposition::metrics;
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::is_verdict;
use crate::support::producer::{push, push_many};

fn started(fixture: &Fixture) -> (Daemon, SocketAddr) {
    let daemon = fixture.start();
    let at = address(&daemon);
    (daemon, at)
}

#[test]
fn a_failing_handler_raises_its_alerts_until_it_is_mended_and_its_jobs_are_requeued() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("failing").nacks().wat());
    let breaker = "breaker = { failures = 5, probe = \"1h\", on = [\"nack\"] }\nbackoff = \"1h\"";
    let topics = [
        topic("dies", "work.wat", "max_attempts = 1\nbreaker = { failures = 0 }"),
        topic("opens", "work.wat", breaker),
    ];
    fixture.manifest("", &topics);
    let (_daemon, at) = started(&fixture);
    assert!(!BREAKER_OPEN.is_raised(at) && !JOBS_DIE.is_raised(at));
    push_many(&fixture, "dies", 10);
    JOBS_DIE.wait_until_raised(at);
    push_many(&fixture, "opens", 20);
    BREAKER_OPEN.wait_until_raised(at);

    fixture.write("work.wat", Handler::logs("well").wat());
    BREAKER_OPEN.wait_until_gone(at);
    eventually("all have died", || fixture.store().stage("dies", "dead").len() == 10);
    fixture.duebox(&["requeue", "dies", "--all"]);
    eventually("requeued jobs are acked", || fixture.store().live_count("dies") == 0);
    assert_eq!(fixture.store().stage("dies", "dead").len(), 0);
}

#[test]
fn refused_files_raise_their_alerts_until_they_are_corrected() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("one").wat());
    let good = [topic("work", "work.wat", "")];
    fixture.manifest("", &good);
    let (daemon, at) = started(&fixture);
    assert!(
        !MANIFEST_REFUSED.is_raised(at)
            && !MODULE_REFUSED.is_raised(at)
            && !TOPICS_WAIT.is_raised(at)
    );
    fixture.manifest("nonsense = 1", &good);
    MANIFEST_REFUSED.wait_until_raised(at);
    fixture.manifest("", &[topic("work", "work.wat", ""), topic("new", "new.wat", "")]);
    fixture.write("new.wat", "no module");
    TOPICS_WAIT.wait_until_raised(at);
    fixture.write("work.wat", "no module");
    MODULE_REFUSED.wait_until_raised(at);

    fixture.write("work.wat", Handler::logs("two").wat());
    fixture.write("new.wat", Handler::logs("new").wat());
    TOPICS_WAIT.wait_until_gone(at);
    MANIFEST_REFUSED.wait_until_gone(at);
    daemon.wait_for_line("the reload", |line| line.message() == "the manifest is reloaded");
}

#[test]
fn late_jobs_and_full_slots_raise_their_alerts_until_there_is_room() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").naps(Duration::from_millis(300)).wat());
    fixture.manifest("max_jobs = 1", &[topic("work", "work.wat", "")]);
    let (_daemon, at) = started(&fixture);
    assert!(!FULL.is_raised(at) && !JOBS_LATE.is_raised(at));
    let due_ms = fixture.store().now_ms() - 120_000;
    for job in 0..20 {
        push(&fixture, "work", &job.to_string(), due_ms);
    }
    JOBS_LATE.wait_until_raised(at);
    FULL.wait_until_raised(at);

    JOBS_LATE.wait_until_gone(at);
    FULL.wait_until_gone(at);
    STARTS_LATE.wait_until_raised(at);
}

/// Leaves Redis 5 % of memory above what it uses.
fn limit_memory(fixture: &Fixture) {
    let info = fixture.redis.cli(&["INFO", "memory"]);
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    let limit = used.trim().parse::<u64>().unwrap() * 21 / 20;
    fixture.redis.cli(&["CONFIG", "SET", "maxmemory", &limit.to_string()]);
}

#[test]
fn a_redis_that_fills_or_goes_away_raises_its_alerts_until_it_is_back() {
    only_on_one_server!("the metrics of memory and of an outage are those of one server");
    let mut fixture = Fixture::persistent();
    fixture.write("work.wat", Handler::logs("ran").wat());
    fixture.manifest("", &[topic("work", "work.wat", "")]);
    let (_daemon, at) = started(&fixture);
    assert!(!REDIS_AWAY.is_raised(at) && !REDIS_AT_RISK.is_raised(at));
    REDIS_AT_RISK.check_text();
    // The memory in use changes with what clients ask, so the limit follows it.
    eventually("DueboxRedisAtRisk is raised", || {
        limit_memory(&fixture);
        REDIS_AT_RISK.is_raised(at)
    });
    fixture.redis.cli(&["CONFIG", "SET", "maxmemory", "1gb"]);
    REDIS_AT_RISK.wait_until_gone(at);

    fixture.redis.stop();
    REDIS_AWAY.wait_until_raised(at);
    fixture.redis.restart();
    REDIS_AWAY.wait_until_gone(at);
    push(&fixture, "work", "after", 0);
    eventually("jobs run again", || fixture.store().live_count("work") == 0);
}

#[test]
fn a_runner_that_sleeps_past_its_leases_raises_the_alert_of_lost_leases() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").naps(Duration::from_millis(60)).wat());
    fixture.manifest("lease = \"1s\"", &[topic("work", "work.wat", "concurrency = 16")]);
    let ((first, at), _second) = (started(&fixture), fixture.start());
    push_many(&fixture, "work", 1_500);
    eventually("both work", || first.count(is_verdict) > 16);
    first.signal("STOP");
    eventually("the other has done everything", || fixture.store().live_count("work") == 0);
    first.signal("CONT");
    LEASES_LOST.wait_until_raised(at);
}

#[test]
fn without_a_runner_its_alert_is_raised_until_one_starts_and_takes_the_oldest_jobs_first() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    let work = [topic("work", "work.wat", "concurrency = 1")];
    fixture.manifest("", &work);
    let (mut daemon, at) = started(&fixture);
    NO_RUNNER.check_text();
    assert!(!NO_RUNNER.is_raised(at));
    // Nothing is left to be scraped, so the metric is absent.
    assert!(daemon.terminate().success());
    assert!(fixture.duebox(&["stats"]).contains("no daemon runs"));
    fixture.manifest("nonsense = 1", &work);
    let mut refused = Daemon::start(&fixture.path("duebox.toml"));
    assert_eq!(refused.wait_exit().code(), Some(2));
    let now_ms = fixture.store().now_ms();
    for (id, overdue_ms) in [("second", 40_000), ("first", 50_000), ("third", 30_000)] {
        push(&fixture, "work", id, now_ms - overdue_ms);
    }

    fixture.manifest("", &work);
    let (daemon, at) = started(&fixture);
    assert!(!NO_RUNNER.is_raised(at));
    eventually("the daemon is seen", || {
        fixture.duebox(&["stats"]).contains("handlers of 1 running daemon")
    });
    eventually("overdue jobs have run", || daemon.count(is_verdict) == 3);
    let lines = daemon.lines();
    let verdicts = lines.iter().filter(|line| is_verdict(line));
    let order: Vec<&str> = verdicts.map(|line| line.str("job_id")).collect();
    assert_eq!(order, ["first", "second", "third"]);
}

#[test]
fn a_redis_that_another_client_blocks_raises_its_alert_and_names_the_command() {
    only_on_one_server!("the command that blocks is sent to one server");
    let fixture = Fixture::with_args(&["--enable-debug-command", "yes"]);
    let nap = Duration::from_millis(200);
    fixture.write("work.wat", Handler::logs("ran").naps(nap).wat());
    fixture.manifest("", &[topic("work", "work.wat", "")]);
    let (_daemon, at) = started(&fixture);
    REDIS_SLOW.check_text();
    eventually("DueboxRedisSlow is raised", || {
        // It ends while Redis is blocked.
        push_many(&fixture, "work", 1);
        fixture.redis.cli(&["DEBUG", "SLEEP", "1"]);
        REDIS_SLOW.is_raised(at)
    });
    let slow = fixture.redis.cli(&["SLOWLOG", "GET", "10"]);
    assert!(slow.contains("DEBUG") && slow.contains("SLEEP"), "{slow}");

    let trips = || RoundTrips::of(&metrics(at));
    let mut before = trips();
    eventually("ten round trips in a row are quick", || {
        let since = trips().since(before);
        if since.are_slow() {
            before = trips();
        }
        since.all >= 10.0 && !since.are_slow()
    });
}

/// A daemon whose log waits in a pipe until the test reads it, and its address.
fn started_unread(fixture: &Fixture) -> (Daemon, SocketAddr, BufReader<PipeReader>) {
    let (reader, writer) = std::io::pipe().unwrap();
    let daemon = Daemon::start_with(&fixture.path("duebox.toml"), |command| {
        command.stderr(writer);
    });
    let mut log = BufReader::new(reader);
    loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "the daemon ended before it served HTTP");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        if line["message"] == "HTTP is served" {
            return (daemon, line["address"].as_str().unwrap().parse().unwrap(), log);
        }
    }
}

#[test]
fn a_log_that_nobody_reads_raises_its_alert_until_the_level_is_raised_or_it_is_read() {
    let fixture = Fixture::new();
    fixture.write("work.wat", Handler::logs("ran").wat());
    let work = [topic("work", "work.wat", "")];
    fixture.manifest("", &work);
    let (_daemon, at, log) = started_unread(&fixture);
    assert!(!LOG_LINES_DROPPED.is_raised(at));
    let run = |jobs| {
        push_many(&fixture, "work", jobs);
        eventually("the jobs have run", || fixture.store().live_count("work") == 0);
    };
    // Lines that 1,000 jobs lose. A worker may log after its jobs are gone, so a first thousand is not counted.
    let lost = || {
        run(1_000);
        let dropped = || metrics(at).value("duebox_log_lines_dropped_total", &[]);
        let before = dropped();
        run(1_000);
        dropped() - before
    };
    LOG_LINES_DROPPED.check_text();
    eventually("DueboxLogLinesDropped is raised", || {
        run(10_000);
        LOG_LINES_DROPPED.is_raised(at)
    });
    assert!(lost() > 0.0, "jobs go on while lines are dropped");

    fixture.manifest("log = \"warn\"", &work);
    eventually("a higher level ends it", || lost() == 0.0);

    fixture.manifest("", &work);
    let is_read = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_read);
    thread::spawn(move || {
        let mut lines = log.lines().map_while(Result::ok);
        seen.store(lines.any(|line| line.contains("after-the-reload")), Ordering::Relaxed);
        lines.for_each(drop);
    });
    eventually("lines are written and read again", || {
        push(&fixture, "work", "after-the-reload", 0);
        is_read.load(Ordering::Relaxed)
    });
    assert_eq!(lost(), 0.0);
}
