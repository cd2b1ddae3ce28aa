//! The commands of `examples/cluster`, run as printed: every job runs, also those of the primary that died.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use duebox_harness::{Daemon, duebox_binary, eventually};
use tempfile::TempDir;

use crate::support::log::{handler_lines, verdicts};
use crate::support::shell;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/cluster");
const JOBS: usize = 600;
const SERVERS: u16 = 6;
/// The bus of a server has its port and this number.
const BUS: u16 = 1_000;

/// The example in a folder of its own. Its servers end with it.
struct Example {
    dir: TempDir,
    first_port: u16,
}

impl Example {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("duebox-cluster-").tempdir().unwrap();
        for entry in std::fs::read_dir(EXAMPLE).unwrap() {
            let from = entry.unwrap().path();
            if from.is_file() {
                std::fs::copy(&from, dir.path().join(from.file_name().unwrap())).unwrap();
            }
        }
        Self { dir, first_port: free_ports() }
    }

    fn variables(&self) -> [(&'static str, String); 2] {
        let url = format!(
            "redis-cluster://127.0.0.1:{},127.0.0.1:{}",
            self.first_port,
            self.first_port + 2
        );
        [("CLUSTER_PORT", self.first_port.to_string()), ("CLUSTER_URL", url)]
    }

    fn run(&self, block: &str) -> String {
        let variables = self.variables();
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let bin = duebox_binary();
        shell::run(block, self.dir.path(), bin.parent().unwrap_or(Path::new(".")), &variables)
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        // A failed test leaves the servers running.
        let mut stop = Command::new("./cluster");
        stop.arg("stop").current_dir(self.dir.path()).envs(self.variables());
        drop(stop.status());
    }
}

/// The first of six free ports in a row, whose buses are free, too.
fn free_ports() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let are_free =
        |first: &u16| (*first..*first + SERVERS).all(|port| is_free(port) && is_free(port + BUS));
    // Below the ports that the kernel gives to others.
    let start = 10_000 + (std::process::id() % 1_000) as u16 * 8;
    (start..start + 8_000).step_by(8).find(are_free).expect("free ports")
}

#[test]
fn the_cluster_example_survives_the_death_of_a_primary() {
    let example = Example::new();
    let page = std::fs::read_to_string(example.dir.path().join("README.md")).unwrap();
    let mut blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    assert!(example.run(blocks.next().unwrap()).contains("six servers"));
    let daemon = Daemon::start_with(&example.dir.path().join("duebox.toml"), |command| {
        command.current_dir(example.dir.path()).envs(example.variables());
    });
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    let mut blocks: Vec<&str> = blocks.collect();
    let stop = blocks.pop().unwrap();
    let printed: String = blocks.into_iter().map(|block| example.run(block)).collect();
    assert!(printed.contains("3 primaries") && printed.contains("is dead"), "{printed}");
    eventually("every job has run", || {
        let ran: BTreeSet<String> =
            handler_lines(&daemon).into_iter().map(|line| line.id).collect();
        ran.len() == JOBS
    });
    // A verdict that the dead primary confirmed may be lost with it: its job runs again. No attempt is spent.
    assert!(verdicts(&daemon).iter().all(|verdict| verdict.attempt == 1));
    drop(daemon);
    example.run(stop);
}
