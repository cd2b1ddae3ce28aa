//! A module is overwritten a hundred times under load, by each way to replace a file. No job is lost or failed, the
//! last module serves, and a broken one in between only causes a warning.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Fixture, topic};
use crate::support::handler::{Handler, digest};
use crate::support::log::{is_handler_line, is_verdict, settled_as, tally, verdicts};
use crate::support::producer::{push, under_load};

const TOPIC: &str = "work";
const OVERWRITES: usize = 100;
/// A truncated module is written before this build.
const TRUNCATED_BEFORE: usize = 50;

#[test]
fn by_plain_writes() {
    overwrite_under_load("module.wasm", |fixture, module| {
        fixture.write("module.wasm", module);
    });
}

#[test]
fn by_renames() {
    let warnings = overwrite_under_load("module.wasm", |fixture, module| {
        let aside = fixture.write("module.wasm.new", module);
        fs::rename(aside, fixture.path("module.wasm")).unwrap();
    });
    assert_eq!(warnings, 1, "a rename shows no half-written module");
}

/// Writes as Kubernetes does: `module.wasm → ..data/module.wasm`, `..data → ..N`, and `..data` is swapped.
#[test]
fn by_symlink_swaps() {
    let warnings = overwrite_under_load("mount/module.wasm", |fixture, module| {
        let mount = fixture.path("mount");
        fs::create_dir_all(&mount).unwrap();
        let (data, before) = (mount.join("..data"), fs::read_link(mount.join("..data")).ok());
        let version = (0..).map(|n| format!("..{n}")).find(|name| !mount.join(name).exists());
        let version = version.unwrap();
        fs::create_dir(mount.join(&version)).unwrap();
        fs::write(mount.join(&version).join("module.wasm"), module).unwrap();
        symlink(&version, mount.join("..data_tmp")).unwrap();
        fs::rename(mount.join("..data_tmp"), &data).unwrap();
        match before {
            Some(before) => fs::remove_dir_all(mount.join(before)).unwrap(),
            None => symlink("..data/module.wasm", mount.join("module.wasm")).unwrap(),
        }
    });
    assert_eq!(warnings, 1, "a swap shows no half-written module");
}

#[test]
fn a_running_job_finishes_on_its_module() {
    let fixture = Fixture::new();
    let long = Handler::logs("long").naps(Duration::from_secs(2)).wasm();
    fixture.write("module.wasm", &long);
    fixture.manifest("", &[topic(TOPIC, "module.wasm", "")]);
    let daemon = fixture.start();
    push(&fixture, TOPIC, "before", 0);
    daemon.wait_for_line("the job runs", is_handler_line);
    fixture.write("module.wasm", edition(1));
    daemon
        .wait_for_line("the new module", |line| line.message().starts_with("a new module serves"));
    assert_eq!(daemon.count(is_verdict), 0, "the job was over before the module was swapped");
    push(&fixture, TOPIC, "after", 0);
    let verdict = |id: &'static str| {
        daemon.wait_for_line(id, |line| settled_as(line, "done") && line.has("job_id", id))
    };
    assert!(verdict("after").has("digest", &digest(&edition(1))));
    assert!(verdict("before").has("digest", &digest(&long)));
    assert_eq!(daemon.count(is_verdict), 2);
}

/// Overwrites the module repeatedly while jobs run; returns the number of warnings.
fn overwrite_under_load(path: &str, place: impl Fn(&Fixture, &[u8])) -> usize {
    let fixture = Fixture::new();
    place(&fixture, &edition(0));
    fixture.manifest("", &[topic(TOPIC, path, "concurrency = 8")]);
    let mut daemon = fixture.start();
    let pushed = under_load(&fixture, TOPIC, || {
        for n in 1..=OVERWRITES {
            if n == TRUNCATED_BEFORE {
                outlive_a_truncated_module(&fixture, &daemon, n - 1, &place);
            }
            place(&fixture, &edition(n));
            if n % 10 == 0 {
                wait_until_it_serves(&daemon, n);
            } else {
                let before = daemon.count(is_verdict);
                eventually("ten more jobs", || daemon.count(is_verdict) >= before + 10);
            }
        }
    });
    push(&fixture, TOPIC, "last", 0);
    let jobs = pushed.len() + 2;
    eventually("every job is settled", || daemon.count(is_verdict) >= jobs);
    assert!(daemon.terminate().success());

    let settled = verdicts(&daemon);
    assert_eq!(settled.len(), jobs);
    assert!(settled.iter().all(|v| v.settled == "done" && v.attempt == 1), "a job failed");
    let once =
        pushed.iter().map(String::as_str).chain(["last", "probe"]).map(|id| (id, 1)).collect();
    assert_eq!(tally(settled.iter().map(|verdict| &verdict.id)), once);
    let last = settled.iter().find(|verdict| verdict.id == "last").unwrap();
    assert_eq!(last.digest, digest(&edition(OVERWRITES)));
    let served = tally(settled.iter().map(|verdict| &verdict.digest)).len();
    println!("{jobs} jobs during {OVERWRITES} overwrites, {served} of the modules served");
    assert!(served >= OVERWRITES / 10);
    assert_eq!(fixture.store().left(TOPIC).len(), 0);
    daemon.count(is_refusal)
}

fn outlive_a_truncated_module(
    fixture: &Fixture,
    daemon: &Daemon,
    serving: usize,
    place: &impl Fn(&Fixture, &[u8]),
) {
    wait_until_it_serves(daemon, serving);
    let whole = edition(serving + 1);
    let warned = daemon.count(is_refusal);
    place(fixture, &whole[..whole.len() / 2]);
    eventually("the truncated module is refused", || daemon.count(is_refusal) > warned);
    // Jobs that start after the refusal run on the previous module.
    push(fixture, TOPIC, "probe", 0);
    let line = daemon
        .wait_for_line("the probe", |line| settled_as(line, "done") && line.has("job_id", "probe"));
    assert!(line.has("digest", &digest(&edition(serving))), "{}", line.text());
}

fn is_refusal(line: &LogLine) -> bool {
    line.has("level", "WARN") && line.message().contains("the module in service stays")
}

fn wait_until_it_serves(daemon: &Daemon, n: usize) {
    let word = format!("edition {n}");
    daemon.wait_for_line(&word, |line| is_handler_line(line) && line.message() == word);
}

/// The `n`-th build of the module.
fn edition(n: usize) -> Vec<u8> {
    Handler::logs(&format!("edition {n}")).naps(Duration::from_millis(10)).wasm()
}
