//! The commands of `examples/flows`, run as printed, and what the page says about them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use duebox_harness::{Daemon, TestRedis, duebox_binary, eventually};
use tempfile::TempDir;

use crate::support::log::{Verdict, handler_lines, verdicts};

const FLOWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/flows");

/// The example in a separate folder, so that its data is separate.
fn copy() -> TempDir {
    let dir = tempfile::Builder::new().prefix("duebox-flows-").tempdir().unwrap();
    for entry in std::fs::read_dir(FLOWS).unwrap() {
        let from = entry.unwrap().path();
        if from.is_file() {
            std::fs::copy(&from, dir.path().join(from.file_name().unwrap())).unwrap();
        }
    }
    dir
}

/// The shell commands of a page, block by block.
fn blocks(page: &str) -> Vec<&str> {
    page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// A `PATH` with the binary under test first.
fn path() -> String {
    let own: PathBuf = duebox_binary().parent().map(Path::to_owned).unwrap();
    format!("{}:{}", own.display(), std::env::var("PATH").unwrap())
}

/// Runs a block in a shell until a command fails. The example lets the daemon
/// start a Redis; the test has its own, which always ends with the test.
fn run(block: &str, dir: &Path, redis: &TestRedis) -> String {
    let output = Command::new("sh")
        .args(["-e", "-c", block])
        .current_dir(dir)
        .env("PATH", path())
        .env_remove("DUEBOX_MANIFEST")
        .env("DUEBOX_REDIS_URL", redis.url())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, failed) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "this block fails:\n{block}\n{out}\n{failed}");
    out.into_owned()
}

fn done(daemon: &Daemon, topic: &str) -> Vec<String> {
    let is_done = |verdict: &Verdict| verdict.topic == topic && verdict.settled == "done";
    verdicts(daemon).into_iter().filter(is_done).map(|verdict| verdict.id).collect()
}

fn ran(daemon: &Daemon, topic: &str) -> Vec<String> {
    handler_lines(daemon)
        .into_iter()
        .filter(|line| line.topic == topic)
        .map(|line| line.id)
        .collect()
}

#[test]
fn the_flows_example_works() {
    let (dir, redis) = (copy(), TestRedis::start());
    let page = std::fs::read_to_string(dir.path().join("README.md")).unwrap();
    let mut blocks = blocks(&page).into_iter();
    assert!(blocks.next().unwrap().trim_end().ends_with("duebox run"));
    let daemon = Daemon::start_with(&dir.path().join("duebox.toml"), |command| {
        command.current_dir(dir.path()).env("DUEBOX_REDIS_URL", redis.url());
    });
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    let printed: Vec<String> = blocks.map(|block| run(block, dir.path(), &redis)).collect();
    let printed = printed.concat();
    assert!(printed.contains("held, as it should be"), "{printed}");
    assert!(printed.contains("oct.csv"), "{printed}");
    assert!(printed.contains("minutely"), "{printed}");

    eventually("all mails went out", || done(&daemon, "mail").len() == 32);
    let mails = ran(&daemon, "mail");
    let place = |id: &str| mails.iter().position(|mail| mail == id);
    assert!(place("42.1").is_some(), "{mails:?}");
    assert!(place("password") < place("newsletter-30"), "{mails:?}");
    eventually("the reminder went out", || done(&daemon, "order.remind") == ["42.2"]);
    eventually("the accounts are done", || done(&daemon, "account").len() == 5);
    let accounts = ran(&daemon, "account");
    let of_a: Vec<&String> = accounts.iter().filter(|id| id.starts_with('a')).collect();
    assert_eq!(of_a, ["a1", "a2", "a3", "a4"]);
    eventually("the report ran", || !done(&daemon, "report").is_empty());
}
