//! `examples/webhook` as printed: the daemon posts jobs to the Python receiver, which checks their signatures, and
//! its responses settle them.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use duebox_harness::{Daemon, TestRedis, duebox_binary, eventually, patience};
use tempfile::TempDir;

use crate::support::log::verdicts;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/webhook");

/// The receiver and its output. Dropping it ends the process.
struct Application {
    process: Child,
    origin: String,
    lines: Receiver<String>,
}

impl Application {
    fn start(dir: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut process = Command::new("python3")
            .args(["receiver.py", &port.to_string()])
            .current_dir(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let printed = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            printed.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let address = format!("127.0.0.1:{port}");
        eventually("the receiver listens", || std::net::TcpStream::connect(&address).is_ok());
        Self { process, origin: format!("http://{address}"), lines }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The example in a separate folder, with the built handler.
fn copy() -> TempDir {
    let dir = tempfile::Builder::new().prefix("duebox-webhook-").tempdir().unwrap();
    for name in ["receiver.py", "signing.key"] {
        std::fs::copy(Path::new(EXAMPLE).join(name), dir.path().join(name)).unwrap();
    }
    let manifest = std::fs::read_to_string(Path::new(EXAMPLE).join("duebox.toml")).unwrap();
    let handler = crate::support::fixture::built("webhook");
    let manifest = manifest.replace("../../handlers/build/webhook.wasm", &handler);
    assert!(manifest.contains(&handler));
    std::fs::write(dir.path().join("duebox.toml"), manifest).unwrap();
    dir
}

/// The push commands of the page, with the binary under test.
fn push(dir: &Path, redis: &TestRedis, application: &Application) {
    let page = std::fs::read_to_string(Path::new(EXAMPLE).join("README.md")).unwrap();
    let block = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let path = format!(
        "{}:{}",
        duebox_binary().parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let status = Command::new("sh")
        .args(["-e", "-c", block])
        .current_dir(dir)
        .env("PATH", path)
        .env("APPLICATION", &application.origin)
        .env("DUEBOX_REDIS_URL", redis.url())
        .env_remove("DUEBOX_MANIFEST")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{block}");
}

#[test]
fn a_python_receiver_settles_jobs() {
    let (dir, redis) = (copy(), TestRedis::start());
    let application = Application::start(dir.path());
    let daemon = Daemon::start_with(&dir.path().join("duebox.toml"), |command| {
        command.env("APPLICATION", &application.origin).env("DUEBOX_REDIS_URL", redis.url());
    });
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    push(dir.path(), &redis, &application);
    let settled = |id: &str| {
        let of_id = verdicts(&daemon).into_iter().filter(|verdict| verdict.id == id);
        of_id.map(|verdict| verdict.settled).collect::<Vec<_>>()
    };
    eventually("a second attempt", || settled("user-9").len() >= 2);
    eventually("all are settled", || {
        !settled("user-7").is_empty() && !settled("user-8").is_empty()
    });
    assert_eq!((settled("user-7"), settled("user-8")), (vec!["done".into()], vec!["dead".into()]));
    assert!(settled("user-9").iter().all(|word| word == "retry"));
    let mut printed: Vec<String> = Vec::new();
    while printed.len() < 4 {
        printed.push(application.lines.recv_timeout(patience()).unwrap());
    }
    let page = std::fs::read_to_string(Path::new(EXAMPLE).join("README.md")).unwrap();
    let shown = page.split("```text\n").find(|block| block.starts_with("job ")).unwrap();
    let shown = shown.split("```").next().unwrap().lines().map(str::to_owned);
    let mut shown: Vec<String> = shown.collect();
    printed.sort_unstable();
    shown.sort_unstable();
    assert_eq!(printed, shown);
}
