//! Panics of the daemon's tasks, injected at fail points: tasks start again, readiness names those that are down,
//! leases come back, and code whose state others rely on aborts the process.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, duebox_binary, eventually, patience};

use crate::support::client::{address, get};
use crate::support::exposition::{Page, metrics};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::{is_verdict, settled_as, verdicts};
use crate::support::producer::{push, push_many};

const TOPIC: &str = "work";

/// A fixture, and a daemon that panics where a file of its fail points says.
struct Panicking {
    fixture: Fixture,
    daemon: Daemon,
    api: SocketAddr,
}

impl Panicking {
    /// A daemon whose handler naps.
    fn start(nap: Duration, runner: &str, more: &str) -> Self {
        let fixture = Fixture::new();
        fixture.write("work.wasm", Handler::logs("work").naps(nap).wasm());
        let topics = topic(TOPIC, "work.wasm", "concurrency = 4\nmax_attempts = 1");
        fixture.manifest(runner, &[topics, more.to_owned()]);
        fs::create_dir(fixture.path("fail-points")).unwrap();
        let daemon = Daemon::start_with(&fixture.path("duebox.toml"), |command: &mut Command| {
            command.env("DUEBOX_FAIL_POINTS", fixture.path("fail-points"));
        });
        daemon.wait_for_line("ready", |line| line.message() == "ready");
        let api = address(&daemon);
        Self { fixture, daemon, api }
    }

    /// Lets a part panic once, or until the file is removed.
    fn panics(&self, part: &str, content: &str) -> PathBuf {
        self.fixture.write(&format!("fail-points/{part}"), content)
    }

    fn page(&self) -> Page {
        metrics(self.api)
    }

    fn panics_of(&self, task: &str) -> f64 {
        self.page().value("duebox_task_panics_total", &[("task", task)])
    }

    /// What the readiness probe says of tasks, if it fails.
    fn down(&self) -> Option<String> {
        let answer = get(self.api, "/readyz");
        let line = answer.text().lines().find(|line| line.starts_with("[-] tasks"));
        line.map(str::to_owned).filter(|_| answer.status == 503)
    }
}

#[test]
fn every_loop_that_panics_is_named_and_starts_again() {
    let more = "[server]\nlisten = \"127.0.0.1:0\"\n[topics.\"pattern.*\"]\nhandler = \"work.wasm\"\n\
        [topics.tick]\nhandler = \"work.wasm\"\n[[schedules]]\nname = \"often\"\ntopic = \"tick\"\nevery = \"1s\"\n";
    let it = Panicking::start(Duration::ZERO, "events = 1000", more);
    let loops = [
        "poller",
        "wake_ups",
        "recovery",
        "maintenance",
        "relay",
        "limits",
        "topic_discovery",
        "scheduler",
        "status",
        "heartbeat",
        "events",
        "traces",
        "http_history",
        "worker",
    ];
    for task in loops {
        it.panics(task, "");
        eventually(task, || it.panics_of(task) >= 1.0);
    }
    // Whatever panics all the time is down until it no longer does.
    let file = it.panics("relay", "always");
    eventually("it is named", || {
        it.down()
            .is_some_and(|line| line.contains("relay panicked at runner/src/observe/fail_point"))
    });
    assert!(it.page().value("duebox_tasks_down", &[]) >= 1.0);
    fs::remove_file(file).unwrap();
    let place = |line: &LogLine| {
        line.message().starts_with("panicked") && line.str("place").contains("fail_point.rs:")
    };
    assert!(it.daemon.count(place) >= loops.len());
    eventually("all run again", || it.down().is_none() && get(it.api, "/readyz").status == 200);
    let ticks = || it.daemon.count(|line| is_verdict(line) && line.has("topic", "tick"));
    let before = ticks();
    push_many(&it.fixture, TOPIC, 20);
    eventually("jobs run", || it.daemon.count(|line| settled_as(line, "done")) >= 20);
    eventually("schedules run", || ticks() > before);
    let mut daemon = it.daemon;
    assert!(daemon.terminate().success());
}

#[test]
fn jobs_of_a_worker_that_panics_come_back() {
    let server = "[server]\nlisten = \"127.0.0.1:0\"\n";
    let it = Panicking::start(Duration::from_secs(1), "lease = \"2s\"", server);
    push_many(&it.fixture, TOPIC, 12);
    eventually("some run", || it.fixture.store().stage(TOPIC, "unack").len() >= 4);
    it.panics("worker", "");
    let down = it.daemon.wait_for_line("the panic", |line| {
        line.message().starts_with("the task panicked") && line.has("task", "worker work")
    });
    assert!(down.str("place").contains("fail_point.rs:"), "{}", down.text());
    eventually("every job is done", || it.daemon.count(|line| settled_as(line, "done")) == 12);
    // No attempt is spent: each of the jobs has only one.
    assert!(verdicts(&it.daemon).iter().all(|verdict| verdict.attempt == 1));
    assert_eq!(it.fixture.store().stage(TOPIC, "dead").len(), 0);
    let slots = it.page().value("duebox_slots_used", &[]);
    assert_eq!(slots, 0.0, "no guest of the first worker is left");
}

#[test]
fn a_drain_does_not_wait_for_a_worker_that_is_down() {
    let server = "[server]\nlisten = \"127.0.0.1:0\"\n";
    let mut it = Panicking::start(Duration::ZERO, "drain_timeout = \"60s\"", server);
    it.panics("worker", "always");
    // By the fifth panic the wait is longer than a second.
    eventually("it is down", || it.panics_of("worker") >= 5.0);
    it.daemon.signal("TERM");
    assert!(it.daemon.wait_exit().success());
}

#[test]
fn a_job_during_which_the_host_panics_runs_again() {
    let server = "[server]\nlisten = \"127.0.0.1:0\"\n";
    let it = Panicking::start(Duration::ZERO, "", server);
    it.panics("guest", "");
    push_many(&it.fixture, TOPIC, 1);
    eventually("it is done", || it.daemon.count(|line| settled_as(line, "done")) == 1);
    let settled: Vec<String> =
        verdicts(&it.daemon).into_iter().map(|verdict| verdict.settled).collect();
    assert_eq!(settled, ["released", "done"]);
    assert_eq!((it.panics_of("guest"), it.down()), (1.0, None));
}

#[test]
fn a_listener_that_panics_keeps_its_port() {
    let server = "[server]\nlisten = \"127.0.0.1:0\"\n";
    let it = Panicking::start(Duration::ZERO, "", server);
    it.panics("http_listener", "");
    eventually("it panicked", || it.panics_of("http_listener") == 1.0);
    it.panics("http_connection", "");
    let mut broken = TcpStream::connect(it.api).unwrap();
    broken.set_read_timeout(Some(patience())).unwrap();
    // It is closed, or reset, without an answer.
    assert_eq!(broken.read(&mut [0; 16]).unwrap_or(0), 0);
    assert_eq!(it.panics_of("http_connection"), 1.0, "other connections are served");
}

#[test]
fn where_the_state_cannot_be_trusted_the_process_aborts_and_no_job_is_lost() {
    for part in ["executor", "timer", "supervisor"] {
        let fixture = {
            let server = "[server]\nlisten = \"127.0.0.1:0\"\n";
            let mut it = Panicking::start(Duration::from_millis(50), "lease = \"2s\"", server);
            it.panics(part, "");
            push_many(&it.fixture, TOPIC, 5);
            // The worker sleeps until then, by the timer.
            let soon_ms = it.fixture.store().now_ms() + 500;
            push(&it.fixture, TOPIC, "later", soon_ms);
            if part == "supervisor" {
                // An order reaches the supervisor. The daemon aborts before it replies.
                let mut order = Command::new(duebox_binary());
                order.args(["rollback", TOPIC]).current_dir(it.fixture.path(""));
                drop(order.output().unwrap());
            }
            assert!(!it.daemon.wait_exit().success(), "{part}");
            let aborted = |line: &LogLine| {
                line.text().starts_with("duebox: aborted: the ")
                    && line.text().contains("fail_point.rs:")
            };
            assert_eq!(it.daemon.count(aborted), 1, "{part}");
            it.fixture
        };
        let daemon = fixture.start();
        eventually("every job is done", || {
            let store = fixture.store();
            ["pending", "ready", "unack", "retry", "dead"]
                .iter()
                .all(|stage| store.stage(TOPIC, stage).is_empty())
        });
        drop(daemon);
    }
}
