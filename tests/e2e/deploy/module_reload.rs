//! A module overwritten a hundred times under load, in each way that files get replaced: no job is
//! lost or failed by it, the last module serves, and a broken one in between only warns.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use duebox_harness::{Daemon, LogLine, eventually};

use crate::support::fixture::{Ground, topic};
use crate::support::handler::{Handler, digest};
use crate::support::log::{is_said, is_verdict, settled_as, tally, verdicts};
use crate::support::producer::{push, under_load};

const TOPIC: &str = "work";
const OVERWRITES: usize = 100;
/// Before this one a truncated module is put in place.
const TRUNCATED_BEFORE: usize = 50;

#[test]
fn by_plain_writes() {
    overwrite_under_load("module.wasm", |ground, module| {
        ground.write("module.wasm", module);
    });
}

#[test]
fn by_renames() {
    let warnings = overwrite_under_load("module.wasm", |ground, module| {
        let aside = ground.write("module.wasm.new", module);
        fs::rename(aside, ground.path("module.wasm")).unwrap();
    });
    assert_eq!(warnings, 1, "a rename shows no half-written module");
}

/// As Kubernetes does it: `module.wasm → ..data/module.wasm`, `..data → ..N`, and `..data` is swapped.
#[test]
fn by_swaps_of_a_link() {
    let warnings = overwrite_under_load("mount/module.wasm", |ground, module| {
        let mount = ground.path("mount");
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
fn a_job_that_runs_finishes_on_the_module_it_started_with() {
    let ground = Ground::new();
    let long = Handler::says("long").naps(Duration::from_secs(2)).wasm();
    ground.write("module.wasm", &long);
    ground.manifest("", &[topic(TOPIC, "module.wasm", "")]);
    let daemon = ground.start();
    push(&ground, TOPIC, "before", 0);
    daemon.wait_for_line("the job runs", is_said);
    ground.write("module.wasm", edition(1));
    daemon
        .wait_for_line("the new module", |line| line.message().starts_with("a new module serves"));
    assert_eq!(daemon.count(is_verdict), 0, "the job was over before the module was swapped");
    push(&ground, TOPIC, "after", 0);
    let verdict = |id: &'static str| {
        daemon.wait_for_line(id, |line| settled_as(line, "done") && line.has("job_id", id))
    };
    assert!(verdict("after").has("digest", &digest(&edition(1))));
    assert!(verdict("before").has("digest", &digest(&long)));
    assert_eq!(daemon.count(is_verdict), 2);
}

/// Overwrites the module again and again while jobs run; answers how often the daemon warned.
fn overwrite_under_load(path: &str, place: impl Fn(&Ground, &[u8])) -> usize {
    let ground = Ground::new();
    place(&ground, &edition(0));
    ground.manifest("", &[topic(TOPIC, path, "concurrency = 8")]);
    let mut daemon = ground.start();
    let pushed = under_load(&ground, TOPIC, || {
        for n in 1..=OVERWRITES {
            if n == TRUNCATED_BEFORE {
                outlive_a_truncated_module(&ground, &daemon, n - 1, &place);
            }
            place(&ground, &edition(n));
            if n % 10 == 0 {
                wait_until_it_serves(&daemon, n);
            } else {
                let before = daemon.count(is_verdict);
                eventually("ten more jobs", || daemon.count(is_verdict) >= before + 10);
            }
        }
    });
    push(&ground, TOPIC, "last", 0);
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
    assert_eq!(ground.store().keys(TOPIC).len(), 0);
    daemon.count(is_refusal)
}

fn outlive_a_truncated_module(
    ground: &Ground,
    daemon: &Daemon,
    serving: usize,
    place: &impl Fn(&Ground, &[u8]),
) {
    wait_until_it_serves(daemon, serving);
    let whole = edition(serving + 1);
    let warned = daemon.count(is_refusal);
    place(ground, &whole[..whole.len() / 2]);
    eventually("the truncated module is refused", || daemon.count(is_refusal) > warned);
    // Jobs that start after the refusal run on the module before.
    push(ground, TOPIC, "probe", 0);
    let line = daemon
        .wait_for_line("the probe", |line| settled_as(line, "done") && line.has("job_id", "probe"));
    assert!(line.has("digest", &digest(&edition(serving))), "{}", line.text());
}

fn is_refusal(line: &LogLine) -> bool {
    line.has("level", "WARN") && line.message().contains("the module in service stays")
}

fn wait_until_it_serves(daemon: &Daemon, n: usize) {
    let word = format!("edition {n}");
    daemon.wait_for_line(&word, |line| is_said(line) && line.message() == word);
}

/// The `n`-th build of the module.
fn edition(n: usize) -> Vec<u8> {
    Handler::says(&format!("edition {n}")).naps(Duration::from_millis(10)).wasm()
}
