//! Directories that a topic grants, read by a Go handler with only its standard library. The grants come from the
//! daemon, from `duebox invoke`, and from a flag. The handler changes nothing and reads nothing outside them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::support::fixture::{Fixture, built, topic};
use crate::support::log::handler_lines;

/// Reads the granted files, then tries everything else.
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

/// A granted folder with links that point outside, and a secret next to it.
fn lay_out(fixture: &Fixture) {
    fs::create_dir_all(fixture.path("rates/sub")).unwrap();
    fixture.write("rates/rates.csv", "EUR,1;USD,2\n");
    fixture.write("rates/sub/more.txt", "more");
    fixture.write("secret.txt", "nobody sees this");
    symlink("../secret.txt", fixture.path("rates/out")).unwrap();
    symlink("/", fixture.path("rates/to-root")).unwrap();
}

/// Every file of the granted folder with its content and modification time.
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

/// The handler's lines in the report of `duebox invoke`.
fn lines_of(account: &str) -> Vec<String> {
    let account: Value = serde_json::from_str(account).unwrap();
    assert_eq!(account["verdict"], "ack", "{account}");
    let lines = account["logs"].as_array().unwrap().iter();
    lines.map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_go_handler_reads_granted_files_and_changes_nothing() {
    let fixture = Fixture::new();
    lay_out(&fixture);
    let before = listing(&fixture.path("rates"));
    let handler = built("std-go");
    let keys = "max_attempts = 1\nsandbox = { http = [], dirs = { \"/data\" = \"rates\" } }";
    let bare = topic("bare", &handler, "sandbox = { http = [] }");
    fixture.manifest("", &[topic("rates", &handler, keys), bare]);
    let script = script();

    let daemon = fixture.start();
    fixture.duebox(&["push", "rates", "--id", "one", "--header", &script]);
    daemon.wait_for_line("the end of the job", |line| {
        line.has("job_id", "one") && line.has("settled", "done")
    });
    let lines: Vec<String> = handler_lines(&daemon).into_iter().map(|line| line.text).collect();
    check("under the daemon", &lines);

    let bound = ["invoke", "--topic", "rates", "--header", &script, "--json"];
    check("as bound", &lines_of(&fixture.duebox(&bound)));
    let flag = ["invoke", "--topic", "bare", "--dir", "/data=rates", "--header", &script, "--json"];
    check("by a flag", &lines_of(&fixture.duebox(&flag)));
    assert_eq!(listing(&fixture.path("rates")), before);
}
