//! Directories that a topic grants, read by a handler in Go with nothing but its own standard library: under
//! the daemon, as `duebox invoke` binds it, and as a flag grants it. Whatever it tries, nothing is changed
//! and nothing beside them is read.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::support::fixture::{Ground, built, topic};
use crate::support::log::said;

/// Reads what is granted, then tries all that is not.
const SCRIPT: [(&str, &str); 20] = [
    ("read /data/rates.csv", "12 bytes: EUR,1;USD,2\n"),
    ("read /data/sub/../sub/more.txt", "4 bytes: more"),
    ("list /data", "out rates.csv sub to-root"),
    ("stat /data/sub", "folder true"),
    ("read /data/gone", "refused"),
    ("write /data/rates.csv x", "refused"),
    ("write /data/new x", "refused"),
    ("append /data/rates.csv x", "refused"),
    ("truncate /data/rates.csv", "refused"),
    ("touch /data/rates.csv", "refused"),
    ("mkdir /data/folder", "refused"),
    ("remove /data/rates.csv", "refused"),
    ("rename /data/rates.csv /data/other.csv", "refused"),
    ("link /data/rates.csv /data/other.csv", "refused"),
    ("symlink rates.csv /data/other.csv", "refused"),
    ("read /data/out", "refused"),
    ("read /data/to-root/etc/passwd", "refused"),
    ("read /data/../secret.txt", "refused"),
    ("read /etc/passwd", "refused"),
    ("list /", "refused"),
];

/// A granted folder with links that lead out, and a secret beside it.
fn lay_out(ground: &Ground) {
    fs::create_dir_all(ground.path("rates/sub")).unwrap();
    ground.write("rates/rates.csv", "EUR,1;USD,2\n");
    ground.write("rates/sub/more.txt", "more");
    ground.write("secret.txt", "nobody sees this");
    symlink("../secret.txt", ground.path("rates/out")).unwrap();
    symlink("/", ground.path("rates/to-root")).unwrap();
}

/// Every file of the granted folder with what it holds, and when it was changed.
fn listing(folder: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let held = if meta.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
        let changed = meta.modified().unwrap();
        all.insert(
            path.display().to_string(),
            format!("{:?} {changed:?} {held}", meta.file_type()),
        );
        if meta.is_dir() {
            all.extend(listing(&path));
        }
    }
    all
}

fn script() -> String {
    let steps: Vec<&str> = SCRIPT.iter().map(|(step, _)| *step).collect();
    format!("script={}", steps.join("; "))
}

fn check(how: &str, lines: &[String]) {
    assert_eq!(lines.len(), SCRIPT.len(), "{how}: {lines:#?}");
    for ((step, wanted), line) in SCRIPT.iter().zip(lines) {
        assert!(line.contains(wanted.trim_end()), "{how}: {step}: {line}");
        assert!(!line.contains("nobody") && !line.contains("root:"), "{how}: {step}: {line}");
    }
}

/// What an account of `duebox invoke` has of the handler's lines.
fn lines_of(account: &str) -> Vec<String> {
    let account: Value = serde_json::from_str(account).unwrap();
    assert_eq!(account["verdict"], "ack", "{account}");
    let lines = account["logs"].as_array().unwrap().iter();
    lines.map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_handler_in_go_reads_what_is_granted_and_changes_nothing() {
    let ground = Ground::new();
    lay_out(&ground);
    let before = listing(&ground.path("rates"));
    let handler = built("std-go");
    let keys = "max_attempts = 1\nsandbox = { http = [], dirs = { \"/data\" = \"rates\" } }";
    let bare = topic("bare", &handler, "sandbox = { http = [] }");
    ground.manifest("", &[topic("rates", &handler, keys), bare]);
    let script = script();

    let daemon = ground.start();
    ground.duebox(&["push", "rates", "--id", "one", "--header", &script]);
    daemon.wait_for_line("the end of the job", |line| {
        line.has("job_id", "one") && line.has("settled", "done")
    });
    let lines: Vec<String> = said(&daemon).into_iter().map(|line| line.text).collect();
    check("under the daemon", &lines);

    let bound = ["invoke", "--topic", "rates", "--header", &script, "--json"];
    check("as bound", &lines_of(&ground.duebox(&bound)));
    let flag = ["invoke", "--topic", "bare", "--dir", "/data=rates", "--header", &script, "--json"];
    check("by a flag", &lines_of(&ground.duebox(&flag)));
    assert_eq!(listing(&ground.path("rates")), before);
}
