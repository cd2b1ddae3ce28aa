//! Health probes in every state of the process, on the API address and on their own, `duebox health`, and the
//! messages to systemd.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output};
use std::time::Duration;

use duebox_harness::{Daemon, duebox_binary, eventually, patience};
use serde_json::Value;

use crate::support::client::{address, ask, get};
use crate::support::fixture::{Fixture, topic};
use crate::support::handler::Handler;
use crate::support::log::is_handler_line;
use crate::support::producer::push_many;

const TOPIC: &str = "work";

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    fixture.write("work.wasm", Handler::logs("work").wasm());
    write(&fixture, "");
    fixture
}

/// A manifest with a separate address for probes.
fn write(fixture: &Fixture, more: &str) {
    let topics = topic(TOPIC, "work.wasm", "");
    let probes = "[server]\nprobes = \"127.0.0.1:0\"\n".to_owned();
    fixture.manifest("drain_timeout = \"20s\"", &[topics, probes, more.to_owned()]);
}

fn probes(daemon: &Daemon) -> SocketAddr {
    let line = daemon.wait_for_line("probes", |line| line.message() == "probes are served");
    line.str("address").parse().unwrap()
}

/// The checks of a readiness probe that fail.
fn failing(at: SocketAddr) -> Vec<String> {
    let answer = ask(at, "GET /readyz", &[("accept", "application/json")], b"");
    let json: Value = serde_json::from_slice(&answer.body).unwrap();
    let checks = json["checks"].as_array().unwrap();
    let failed = checks.iter().filter(|check| check["ok"] == false);
    let names: Vec<String> =
        failed.map(|check| check["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(answer.status == 200, names.is_empty(), "{json}");
    names
}

fn health(fixture: &Fixture, words: &[&str]) -> Output {
    Command::new(duebox_binary())
        .arg("health")
        .args(words)
        .current_dir(fixture.path(""))
        .env_remove("DUEBOX_MANIFEST")
        .env_remove("DUEBOX_LISTEN")
        .output()
        .unwrap()
}

#[test]
fn probes_name_what_fails_and_recover_with_it() {
    let fixture = fixture();
    let daemon = fixture.start();
    let (api, apart) = (address(&daemon), probes(&daemon));
    for at in [api, apart] {
        for path in ["/livez", "/readyz", "/startupz"] {
            assert_eq!(get(at, path).status, 200, "{path}");
        }
    }
    assert_eq!(get(apart, "/v1/topics").status, 404, "only probes are served there");

    write(&fixture, "[topics.\"bad name\"]\n");
    eventually("the refused manifest is reported", || failing(apart) == ["manifest"]);
    assert_eq!(get(apart, "/readyz?exclude=manifest").status, 200);
    assert_eq!(get(apart, "/readyz?exclude=everything").status, 400);
    write(&fixture, &topic("more", "more.wasm", ""));
    eventually("the missing module is reported", || failing(apart) == ["modules"]);
    assert!(get(apart, "/readyz").text().contains("no valid module for more"));
    fixture.write("more.wasm", Handler::logs("more").wasm());
    eventually("all is well again", || failing(apart).is_empty());
}

#[test]
fn an_absent_redis_is_reported_and_does_not_fail_liveness() {
    let fixture = fixture();
    let daemon = fixture.start();
    let at = probes(&daemon);
    fixture.redis.pause();
    eventually("it is named", || failing(at) == ["redis"]);
    assert_eq!((get(at, "/livez").status, get(at, "/startupz").status), (200, 200));
    assert_eq!(get(at, "/metrics").status, 200, "a page comes without Redis too");
    fixture.redis.resume();
    eventually("it is back", || failing(at).is_empty());
}

#[test]
fn probes_report_a_drain_until_its_end() {
    let fixture = Fixture::new();
    fixture.write("work.wasm", Handler::logs("work").naps(Duration::from_secs(3_600)).wasm());
    let server = "[server]\nprobes = \"127.0.0.1:0\"\n".to_owned();
    fixture
        .manifest("drain_timeout = \"3s\"", &[topic(TOPIC, "work.wasm", "ttr = \"2h\""), server]);
    let mut daemon = fixture.start();
    let at = probes(&daemon);
    // The job runs longer than the drain timeout.
    push_many(&fixture, TOPIC, 1);
    // A drain releases a job that has not started, and the daemon would exit at once.
    daemon.wait_for_line("it runs", is_handler_line);
    daemon.signal("TERM");
    daemon.wait_for_line("the drain", |line| line.message().starts_with("draining"));
    assert_eq!(failing(at), ["serving"]);
    assert_eq!((get(at, "/livez").status, get(at, "/startupz").status), (200, 200));
    assert!(daemon.wait_exit().success());
}

#[test]
fn health_uses_the_address_of_the_manifest() {
    let fixture = fixture();
    let daemon = fixture.start();
    let at = probes(&daemon).to_string();
    let well = health(&fixture, &["--address", &at]);
    assert!(well.status.success(), "{well:?}");
    assert!(String::from_utf8_lossy(&well.stdout).contains("[+] redis ok"), "{well:?}");
    for probe in ["live", "startup"] {
        assert!(health(&fixture, &["--address", &at, "--probe", probe]).status.success());
    }
    // A manifest with the address and an unrelated error.
    let text = fs::read_to_string(fixture.path("duebox.toml")).unwrap();
    let bad = text.replace("127.0.0.1:0", &at) + "[topics.\"bad name\"]\n";
    fixture.write("duebox.toml", bad);
    assert!(health(&fixture, &["--probe", "live"]).status.success());
    eventually("the bad manifest is reported", || health(&fixture, &[]).status.code() == Some(1));
    assert!(health(&fixture, &["--exclude", "manifest"]).status.success());
    assert_eq!(health(&fixture, &["--exclude", "nothing"]).status.code(), Some(2));
    drop(daemon);
    let away = health(&fixture, &["--address", &at, "--timeout", "1s"]);
    assert_eq!(away.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&away.stderr).contains("no response from the daemon"),
        "{away:?}"
    );
}

#[test]
fn systemd_is_notified_of_start_reload_stop_and_liveness() {
    let fixture = fixture();
    let socket = UnixDatagram::bind(fixture.path("notify")).unwrap();
    socket.set_read_timeout(Some(patience())).unwrap();
    let heard = |what: &str| {
        let mut buffer = [0; 512];
        loop {
            let length = socket.recv(&mut buffer).unwrap_or_else(|_| panic!("never heard {what}"));
            let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if text.lines().any(|line| line == what) {
                return text;
            }
        }
    };
    let mut daemon = Daemon::start_with(&fixture.path("duebox.toml"), |command| {
        command.env("NOTIFY_SOCKET", fixture.path("notify")).env("WATCHDOG_USEC", "400000");
    });
    heard("READY=1");
    heard("WATCHDOG=1");
    heard("WATCHDOG=1");
    daemon.signal("HUP");
    assert!(heard("RELOADING=1").contains("MONOTONIC_USEC="));
    heard("READY=1");
    daemon.signal("TERM");
    assert!(heard("STOPPING=1").contains("EXTEND_TIMEOUT_USEC=20000000"));
    assert!(daemon.wait_exit().success());
}

/// Runs the daemon as process 1 of a container: it inherits orphans, and signals have no default
/// effect.
#[test]
fn as_process_1_it_handles_signals_and_reaps_orphans() {
    let can = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!("this machine gives us no process namespace: not tested");
        return;
    }
    let fixture = fixture();
    let script = format!(
        // The shell becomes the daemon: process 1, whose child leaves a child of its own behind.
        "(sh -c 'sleep 0.2 & exit' &) ; exec {} run --manifest {}",
        duebox_binary().display(),
        fixture.path("duebox.toml").display()
    );
    let mut daemon = Daemon::start_with(&fixture.path("duebox.toml"), |command| {
        let mut inside = Command::new("unshare");
        inside.args(["--pid", "--fork", "--kill-child=KILL", "--mount-proc", "sh", "-c", &script]);
        inside.env("DUEBOX_LISTEN", "127.0.0.1:0").env("DUEBOX_LOG_FORMAT", "json");
        inside.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
        inside.stderr(std::process::Stdio::piped());
        *command = inside;
    });
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    let first = child_of(daemon.pid()).expect("the process that unshare made");
    eventually("no zombie is left", || child_of(first).is_none());
    duebox_harness::send_signal("TERM", first);
    assert!(daemon.wait_exit().success());
}

/// The first child of a process, including zombies.
fn child_of(pid: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}
