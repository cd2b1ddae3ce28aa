//! The managed Redis starts and stops with the daemon, and its data survives both.

use std::env;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use duebox_harness::{Daemon, duebox_binary, eventually, only_on_one_server};
use redis::{InfoDict, cmd};
use tempfile::TempDir;

use crate::support::fixture::{topic, up};
use crate::support::handler::Handler;
use crate::support::log::{is_verdict, settled_as, tally, verdicts};
use crate::support::redis_state::Store;

const TOPIC: &str = "work";

/// A folder with a manifest for a managed Redis. Dropping it ends a Redis that a killed
/// daemon left behind.
struct Home(TempDir);

impl Home {
    fn new(handler: &Handler) -> Self {
        let home = Self(tempfile::Builder::new().prefix("duebox-e2e-").tempdir().unwrap());
        std::fs::write(home.path("work.wat"), handler.wat()).unwrap();
        let manifest = format!(
            "[redis]\nurl = \"managed\"\nmanaged = {{ dir = \"data\", fsync = \"always\" }}\n\
             [runner]\nlease = \"2s\"\n{}",
            topic(TOPIC, "work.wat", "concurrency = 8")
        );
        std::fs::write(home.path("duebox.toml"), manifest).unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn start(&self) -> Daemon {
        up(&self.path("duebox.toml"))
    }

    fn url(&self) -> String {
        format!("redis+unix://{}", self.path("data/redis.sock").display())
    }

    fn store(&self) -> Store {
        Store::new(&self.url())
    }

    /// Whether a server replies.
    fn answers(&self) -> bool {
        redis::Client::open(self.url()).unwrap().get_connection().is_ok()
    }

    fn redis_pid(&self) -> String {
        let info: InfoDict = self.store().ask(cmd("INFO").arg("server"));
        info.get("process_id").unwrap()
    }

    /// Pushes with the binary, which finds the managed Redis through the manifest.
    fn push(&self, args: &[&str], lines: usize) {
        let text = "{}\n".repeat(lines);
        std::fs::write(self.path("lines"), text).unwrap();
        let status = Command::new(duebox_binary())
            .args(["push", TOPIC])
            .args(args)
            .current_dir(self.0.path())
            .env_remove("DUEBOX_MANIFEST")
            .env_remove("DUEBOX_REDIS_URL")
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "{args:?}");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.answers() {
            kill(&self.redis_pid());
        }
    }
}

fn kill(pid: &str) {
    duebox_harness::send_signal("KILL", pid.parse().unwrap());
}

#[test]
fn it_stops_with_the_daemon_and_keeps_its_data() {
    only_on_one_server!("a managed Redis is one server");
    let home = Home::new(&Handler::logs("ran"));
    let mut daemon = home.start();
    home.push(&["{}", "--id", "later", "--in", "10h"], 0);
    home.push(&["{}", "--id", "now"], 0);
    daemon.wait_for_line("the job that is due", |line| settled_as(line, "done"));
    // A second daemon does not take the directory from the first.
    let mut second = Daemon::start(&home.path("duebox.toml"));
    assert_eq!(second.wait_exit().code(), Some(1));
    assert_eq!(second.count(|line| line.text().contains("another daemon")), 1);
    // The log says which server it is, and where its data is.
    let started =
        daemon.wait_for_line("the server", |line| line.message() == "starting the managed Redis");
    assert!(
        ["redis-server", "valkey-server"].contains(&started.str("server")),
        "{}",
        started.text()
    );
    assert!(started.str("version").contains('.') && started.str("dir").ends_with("/data"));

    assert_eq!(daemon.terminate().code(), Some(0));
    assert!(!home.answers(), "the managed Redis outlives its daemon");
    let log = std::fs::read_to_string(home.path("data/redis.log")).unwrap();
    assert!(log.contains("ready to exit"), "it was not stopped cleanly:\n{log}");
    let mut daemon = home.start();
    assert!(home.store().live(TOPIC).iter().eq(["later"]));
    assert_eq!(home.store().stage(TOPIC, "pending").len(), 1);
    assert!(daemon.terminate().success());
}

#[test]
fn the_redis_of_a_killed_daemon_is_adopted_or_loaded() {
    only_on_one_server!("a managed Redis is one server");
    const JOBS: usize = 300;
    let home = Home::new(&Handler::logs("ran").naps(std::time::Duration::from_millis(20)));
    let mut daemon = home.start();
    home.push(&["@lines", "--lines", "--id", "job"], JOBS);
    let mut settled = Vec::new();
    for also_redis in [false, true] {
        let so_far = settled.len();
        eventually("some are settled", || daemon.count(is_verdict) + so_far >= so_far + JOBS / 4);
        let redis_pid = home.redis_pid();
        daemon.kill();
        daemon.wait_exit();
        settled.extend(verdicts(&daemon));
        if also_redis {
            kill(&redis_pid);
            eventually("Redis is gone", || !home.answers());
        }
        daemon = home.start();
        let adopted = daemon.count(|line| line.message().starts_with("adopted"));
        assert_eq!((adopted == 1, home.redis_pid() == redis_pid), (!also_redis, !also_redis));
    }
    let store = home.store();
    eventually("the rest is settled", || store.live_count(TOPIC) == 0);
    assert!(daemon.terminate().success());
    settled.extend(verdicts(&daemon));
    assert!(settled.iter().all(|v| v.settled == "done" && v.attempt == 1));
    let times = tally(settled.iter().map(|verdict| &verdict.id));
    assert!(times.values().all(|times| *times == 1), "settled twice: {times:?}");
    println!("{} of {JOBS} verdicts were heard of, through two deaths", times.len());
}

#[test]
fn a_redis_that_dies_is_restarted() {
    only_on_one_server!("a managed Redis is one server");
    let home = Home::new(&Handler::logs("ran").naps(std::time::Duration::from_millis(10)));
    let mut daemon = home.start();
    home.push(&["@lines", "--lines", "--id", "job"], 400);
    eventually("some are settled", || daemon.count(is_verdict) >= 100);
    kill(&home.redis_pid());
    daemon.wait_for_line("its return", |line| line.message() == "the managed Redis is back");
    let store = home.store();
    eventually("all are settled", || store.live_count(TOPIC) == 0);
    assert!(verdicts(&daemon).iter().all(|v| v.settled == "done" && v.attempt == 1));
    assert!(daemon.terminate().success());
    assert!(!home.answers());
}

/// Only a `valkey-server` is on the search path: that of the run's server, or else the installed Redis by this name.
#[test]
fn valkey_is_started_where_there_is_no_redis() {
    only_on_one_server!("a managed Redis is one server");
    let home = Home::new(&Handler::logs("ran"));
    let bin = home.path("bin");
    std::fs::create_dir(&bin).unwrap();
    symlink(server_program(), bin.join("valkey-server")).unwrap();
    let mut daemon = Daemon::start_with(&home.path("duebox.toml"), |command| {
        command.env("PATH", &bin);
    });
    let started =
        daemon.wait_for_line("the server", |line| line.message() == "starting the managed Redis");
    assert_eq!(started.str("server"), "valkey-server", "{}", started.text());
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    home.push(&["{}", "--id", "now"], 0);
    daemon.wait_for_line("the job", |line| settled_as(line, "done"));
    assert!(daemon.terminate().success());
}

fn server_program() -> PathBuf {
    let named = env::var_os("DUEBOX_TEST_SERVER").map(PathBuf::from);
    let installed = env::var_os("PATH").unwrap();
    let folders = named.into_iter().chain(env::split_paths(&installed));
    let programs = folders
        .flat_map(|folder| ["valkey-server", "redis-server"].map(|program| folder.join(program)));
    let mut there = programs.filter(|program| program.is_file());
    there.next().expect("an installed redis-server or valkey-server")
}
