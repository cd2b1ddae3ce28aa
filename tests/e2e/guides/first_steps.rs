//! The commands of "Quick start" in the README and of the quickstart page, in their order, with the real binary,
//! modules and shop. Only ports and interactive waits differ. On another server, or a cluster, one line of the
//! manifest differs, too: `redis.url`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use duebox_harness::{Daemon, TestRedis, Topology, duebox_binary, eventually};
use duebox_shop::Shop;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::client::address;
use crate::support::log::verdicts;
use crate::support::shell;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// The address of the shop in the pages.
const SHOP: &str = "http://127.0.0.1:7290";

/// The HTTP address of the daemon in the pages.
const API: &str = "127.0.0.1:7280";

/// The quickstart in a separate folder, with the shop that its commands call.
struct Desk {
    dir: TempDir,
    shop: Shop,
    redis: Option<TestRedis>,
    _runtime: Runtime,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("duebox-first-").tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for folder in ["examples/quickstart", "handlers", "target/release"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for entry in fs::read_dir(Path::new(ROOT).join("examples/quickstart")).unwrap() {
            let from = entry.unwrap().path();
            if from.is_file() {
                let to = at("examples/quickstart").join(from.file_name().unwrap());
                fs::copy(&from, to).unwrap();
            }
        }
        let built = Path::new(ROOT).join("handlers/build").canonicalize().unwrap();
        symlink(built, at("handlers/build")).unwrap();
        symlink(duebox_binary(), at("target/release/duebox")).unwrap();
        let token = fs::read_to_string(at("examples/quickstart/shop.token")).unwrap();
        let runtime = Runtime::new().unwrap();
        let shop = runtime.block_on(Shop::open(0, Some(token.trim().to_owned()))).unwrap();
        let redis = other_redis(&at("examples/quickstart/duebox.toml"));
        Self { dir, shop, redis, _runtime: runtime }
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("examples/quickstart")
    }

    fn start(&self) -> Daemon {
        let daemon = Daemon::start_with(&self.folder().join("duebox.toml"), |command| {
            command.current_dir(self.folder()).env("SHOP", self.shop.origin());
        });
        daemon.wait_for_line("ready", |line| line.message() == "ready");
        daemon
    }

    /// Runs the commands of a page in one shell until one fails; returns their output.
    fn run(&self, block: &str) -> String {
        let mut block = block.replace(SHOP, &self.shop.origin()).replace(" --watch", "");
        if let Some(redis) = &self.redis {
            let port = redis.port_of("duebox:{order.close}:jobs");
            block = block.replace("redis-cli -s data/redis.sock", &format!("redis-cli -p {port}"));
        }
        let bin = self.dir.path().join("target/release");
        shell::run(&block, &self.folder(), &bin, &[("SHOP", &self.shop.origin())])
    }

    /// Whether `duebox stats` shows that many jobs of the topic as done and as run by its handler.
    fn counts(&self, topic: &str, jobs: u64) -> bool {
        let printed = self.run(&format!("duebox stats {topic} --json"));
        let stats: Value = serde_json::from_str(&printed).unwrap();
        let shown = &stats["topics"][0];
        shown["done"] == jobs && shown["handler"]["total"]["jobs"] == jobs
    }

    fn closed(&self, order: &str) -> usize {
        let books = self.shop.books();
        let ledger = books.ledger().iter();
        ledger.filter(|entry| entry.what == "closed" && entry.of == order && entry.effect).count()
    }
}

/// The Redis of this run in place of the managed one, if the run names a server or a topology: one line of the
/// manifest changes.
fn other_redis(manifest: &Path) -> Option<TestRedis> {
    let names_one = std::env::var_os("DUEBOX_TEST_SERVER").is_some();
    if !names_one && Topology::of_run() == Topology::Single {
        return None;
    }
    const MANAGED: &str = "url = \"managed\"\n";
    let (redis, text) = (TestRedis::start(), fs::read_to_string(manifest).unwrap());
    assert_eq!(text.matches(MANAGED).count(), 1);
    fs::write(manifest, text.replace(MANAGED, &format!("url = \"{}\"\n", redis.url()))).unwrap();
    Some(redis)
}

/// The shell commands of a part of a page, block by block.
fn blocks(page: &str, heading: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
    let part = text.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let part = part.split("\n## ").next().unwrap();
    let blocks = part.split("```sh\n").skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

fn is_settled(daemon: &Daemon, topic: &str, count: usize) -> bool {
    let done = verdicts(daemon).into_iter();
    done.filter(|verdict| verdict.topic == topic && verdict.settled == "done").count() >= count
}

#[test]
fn the_quick_start_of_the_readme_works() {
    let desk = Desk::new();
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap();
    let blocks = blocks("README.md", "Quick start");
    let [terminals, push, more] = &blocks[..] else { panic!("{blocks:#?}") };
    assert_eq!(terminals, "duebox-shop --token-file shop.token\nduebox run\n");
    let mut daemon = desk.start();
    let printed = desk.run(push);
    for topic in ["order.close", "shop.activation", "payment.poll"] {
        assert!(printed.contains(topic), "{printed}");
    }
    let answers: Vec<&str> = printed.lines().rev().take(3).collect();
    for answer in &answers {
        assert!(readme.contains(&format!("\n{answer}\n")), "the README does not show {answer}");
    }
    eventually("the order is closed", || desk.closed("A-1042") == 1);
    eventually("its job is done", || is_settled(&daemon, "order.close", 1));
    let settled = Instant::now();
    eventually("stats count the job and its attempt", || desk.counts("order.close", 1));
    assert!(settled.elapsed() < Duration::from_secs(6), "{:?}", settled.elapsed());
    let printed = desk.run(&more.replace(API, &address(&daemon).to_string()));
    assert!(printed.starts_with("verdict  ack"), "{printed}");
    let pushed = printed.lines().last().unwrap();
    assert!(readme.contains(pushed), "the README does not show {pushed}");
    eventually("the second order is closed", || desk.closed("A-1043") == 1);
    eventually("its job is done", || is_settled(&daemon, "order.close", 2));
    assert!(daemon.terminate().success());
}

#[test]
fn the_quickstart_page_works() {
    let desk = Desk::new();
    let blocks = blocks("examples/quickstart/README.md", "Play with it");
    let [_, daemon, push, fault, plain, rebuild] = &blocks[..] else { panic!("{blocks:#?}") };
    assert!(daemon.ends_with("duebox run\n") && rebuild.contains("build.sh order-close"));
    // Keep the aliases of earlier blocks, as a terminal does.
    let aliases = push.lines().filter(|line| line.starts_with("alias "));
    let aliases: String = aliases.map(|line| format!("{line}\n")).collect();
    let mut daemon = desk.start();
    let printed = desk.run(push);
    assert!(printed.contains("payment.poll"), "{printed}");
    eventually("the order is closed", || desk.closed("A-1042") == 1);
    for (topic, count) in [("shop.activation", 1), ("payment.poll", 1)] {
        eventually("all that was pushed is done", || is_settled(&daemon, topic, count));
    }
    desk.run(&format!("{aliases}{fault}"));
    eventually("the message in spite of the fault", || is_settled(&daemon, "shop.activation", 2));
    desk.run(&format!("{aliases}{plain}"));
    eventually("the plainly pushed job has closed its order", || {
        desk.closed("A-1044") == 1 && is_settled(&daemon, "order.close", 2)
    });
    assert!(daemon.terminate().success());
}
