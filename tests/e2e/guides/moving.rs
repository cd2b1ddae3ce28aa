//! The guides for moving from another queue: its job and ours run on one Redis at the same time, each as its
//! page has it, and their keys do not meet.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use duebox_harness::{Daemon, TestRedis, duebox_binary, eventually, only_on_one_server};
use tempfile::TempDir;

use crate::support::client::address;
use crate::support::log::verdicts;
use crate::support::page::Page;
use crate::support::program::{Running, program, run};
use crate::support::shell;
use crate::support::shop::OpenShop;

const THEIRS: &str = "A-1042";
const OURS: &str = "B-7";

/// A page, and where its blocks find their Redis and their shop.
struct Move {
    page: Page,
    redis: TestRedis,
    shop: OpenShop,
    dir: TempDir,
}

impl Move {
    fn from(queue: &str) -> Self {
        let shop = OpenShop::open();
        for id in [THEIRS, OURS] {
            shop.shop.books().place_order(id, &["unpaid"]);
        }
        let dir = tempfile::Builder::new().prefix("duebox-move-").tempdir().unwrap();
        let page = Page::read(&format!("docs/guide/moving/{queue}.md"));
        Self { page, redis: TestRedis::start(), shop, dir }
    }

    /// A block of one language, with the addresses of this test and a short delay.
    fn block(&self, language: &str, number: usize) -> String {
        let block = self.page.blocks(language)[number];
        let delays = [
            ("30 * time.Minute", "time.Second"),
            ("30*time.Minute", "time.Second"),
            ("30 * 60_000", "1_000"),
            ("30 * 60", "1"),
        ];
        let block =
            delays.iter().fold(block.to_owned(), |block, (from, to)| block.replace(from, to));
        let block = block.replace("https://shop.example", &self.shop.shop.origin());
        block.replace("6379", &self.redis.server().port().to_string())
    }

    /// The same for the order of our job.
    fn our_block(&self, language: &str, number: usize) -> String {
        self.block(language, number).replace(THEIRS, OURS)
    }

    fn folder(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Their worker and their producer: the order is closed. Returns the worker, which goes on.
    fn runs_theirs(&self, language: &str, producer: usize, worker: usize) -> Running {
        let worker = program(language, &self.block(language, worker), &self.folder("their-worker"));
        let worker = Running::start(worker);
        run(program(language, &self.block(language, producer), &self.folder("their-producer")));
        self.wait_closed(THEIRS);
        worker
    }

    fn wait_closed(&self, order: &str) {
        eventually(&format!("{order} is closed"), || {
            self.shop.ledger("closed").iter().any(|(id, _, effect)| id == order && *effect)
        });
    }

    /// Writes the manifest of the page.
    fn manifest(&self, folder: &Path) {
        let origin = self.shop.shop.origin();
        let grant = format!("http = [\"{origin}\"]");
        let manifest = self.block("toml", 0);
        let manifest =
            manifest.replace(&grant, &format!("{grant}\nhttp_private = [\"127.0.0.1\"]"));
        let redis = format!("[redis]\nurl = \"{}\"\n", self.redis.url());
        fs::write(folder.join("duebox.toml"), redis + &manifest).unwrap();
    }

    /// Starts our daemon in a folder that has the handler.
    fn daemon(&self, folder: &Path) -> Daemon {
        self.manifest(folder);
        let daemon = Daemon::start(&folder.join("duebox.toml"));
        daemon.wait_for_line("ready", |line| line.message() == "ready");
        daemon
    }

    /// Our producer: the other order is closed.
    fn runs_ours(&self, language: &str, producer: usize) {
        run(program(language, &self.our_block(language, producer), &self.folder("our-producer")));
        self.wait_closed(OURS);
    }

    /// While a job waits in the other queue, its keys begin with this, which the plan says, too, and ours with ours.
    fn keys_are_apart(&self, language: &str, prefix: &str) {
        let later = self.page.blocks(language)[0];
        let later = later.replace("6379", &self.redis.server().port().to_string());
        run(program(language, &later.replace(THEIRS, "A-2"), &self.folder("later")));
        let keys = self.redis.cli(&["KEYS", "*"]);
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            keys.lines().partition(|key| key.starts_with("duebox:"));
        assert!(!ours.is_empty() && !theirs.is_empty(), "{keys}");
        assert!(theirs.iter().all(|key| key.starts_with(prefix)), "{theirs:?}");
        let plan = Page::read("docs/guide/moving/README.md");
        assert!(plan.text().contains(&format!("`{prefix}`")), "{prefix}");
    }

    /// The commands that count what waits in the other queue print zeros.
    fn is_drained(&self) {
        let block = self.page.part("## Drain");
        let [count] = block.blocks("sh")[..] else { panic!("{}", block.text()) };
        let bin = self.folder("bin");
        let client = format!(
            "#!/bin/sh\nPATH=${{PATH#*:}} exec redis-cli -p {} \"$@\"\n",
            self.redis.server().port()
        );
        fs::write(bin.join("redis-cli"), client).unwrap();
        fs::set_permissions(bin.join("redis-cli"), fs::Permissions::from_mode(0o755)).unwrap();
        eventually("the queue is drained", || {
            let printed = shell::run(count, self.dir.path(), &bin, &[]);
            assert_eq!(printed.lines().count(), count.lines().count(), "{printed}");
            printed.lines().all(|line| line == "0")
        });
    }

    /// Compiles our handler in Go, in a new project.
    fn go_project(&self, block: usize) -> PathBuf {
        let bin = duebox_binary();
        let duebox = |folder: &Path, words: &str| {
            shell::run(&format!("duebox {words}"), folder, bin.parent().unwrap(), &[])
        };
        duebox(self.dir.path(), "new go order-close");
        let folder = self.dir.path().join("order-close");
        fs::remove_file(folder.join("main_test.go")).unwrap();
        fs::write(folder.join("main.go"), self.our_block("go", block)).unwrap();
        self.manifest(&folder);
        duebox(&folder, "build");
        folder
    }
}

fn is_done(daemon: &Daemon) {
    eventually("our job is done", || {
        verdicts(daemon).iter().any(|verdict| verdict.settled == "done" && verdict.attempt == 1)
    });
}

/// The pages for Go have their producer, ours, their handler and ours.
fn moves_in_go(queue: &str, prefix: &str) {
    let moving = Move::from(queue);
    let _worker = moving.runs_theirs("go", 0, 2);
    let daemon = moving.daemon(&moving.go_project(3));
    moving.runs_ours("go", 1);
    is_done(&daemon);
    moving.is_drained();
    moving.keys_are_apart("go", prefix);
}

#[test]
fn a_topic_moves_from_asynq() {
    only_on_one_server!("asynq and the producer connect to one server");
    moves_in_go("asynq", "asynq:");
}

#[test]
fn a_topic_moves_from_delayqueue() {
    only_on_one_server!("delayqueue and the producer connect to one server");
    moves_in_go("delayqueue", "dp:");
}

#[test]
fn a_topic_moves_from_bullmq() {
    only_on_one_server!("BullMQ and the producer connect to one server");
    let moving = Move::from("bullmq");
    let _worker = moving.runs_theirs("js", 0, 2);
    let folder = moving.folder("ours");
    fs::write(folder.join("order-close.ts"), moving.our_block("ts", 0)).unwrap();
    let daemon = moving.daemon(&folder);
    moving.runs_ours("js", 1);
    is_done(&daemon);
    moving.is_drained();
    moving.keys_are_apart("js", "bull:");
}

#[test]
fn a_topic_moves_from_sidekiq() {
    only_on_one_server!("Sidekiq and the producer connect to one server");
    let moving = Move::from("sidekiq");
    let folder = moving.folder("sidekiq");
    fs::write(folder.join("close_order.rb"), moving.block("ruby", 0)).unwrap();
    let url = moving.redis.url();
    let mut sidekiq = std::process::Command::new("sidekiq");
    sidekiq.args(["-r", "./close_order.rb"]).current_dir(&folder).env("REDIS_URL", &url);
    let _sidekiq = Running::start(sidekiq);
    let their_producer = moving.folder("their-producer");
    symlink(folder.join("close_order.rb"), their_producer.join("close_order.rb")).unwrap();
    let mut push = program("ruby", &moving.block("ruby", 1), &their_producer);
    push.env("REDIS_URL", &url);
    run(push);
    moving.wait_closed(THEIRS);

    let daemon = moving.daemon(&moving.folder("ours"));
    let served = address(&daemon).to_string();
    let worker = moving.our_block("ruby", 3).replace("127.0.0.1:7280", &served);
    let _worker = Running::start(program("ruby", &worker, &moving.folder("our-worker")));
    moving.runs_ours("ruby", 2);
    eventually("our job is done", || {
        moving.redis.cli(&["EXISTS", "duebox:{order.close}:jobs"]).trim() == "0"
    });
    let keys = moving.redis.cli(&["KEYS", "*"]);
    let named = ["queue:", "queues", "schedule", "retry", "dead", "processes", "stat:"];
    let theirs: Vec<&str> = keys.lines().filter(|key| !key.starts_with("duebox:")).collect();
    assert!(theirs.iter().any(|key| named.iter().any(|name| key.starts_with(name))), "{theirs:?}");
    moving.is_drained();
}
