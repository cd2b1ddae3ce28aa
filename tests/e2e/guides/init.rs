//! `duebox init`: from an empty folder to an acked job in two commands.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use duebox_harness::{Daemon, duebox_binary};
use tempfile::TempDir;

use crate::support::log::verdicts;

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("duebox-init-").tempdir().unwrap()
}

/// Runs `duebox` in a folder, with this search path.
fn duebox(folder: &Path, args: &[&str], path: &str) -> Output {
    Command::new(duebox_binary())
        .args(args)
        .current_dir(folder)
        .env("PATH", path)
        .env_remove("DUEBOX_MANIFEST")
        .env_remove("DUEBOX_REDIS_URL")
        .output()
        .unwrap()
}

fn init(folder: &Path, args: &[&str]) -> Output {
    let args: Vec<&str> = ["init"].iter().chain(args).copied().collect();
    duebox(folder, &args, &std::env::var("PATH").unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_empty_folder_becomes_a_project_that_runs_a_job() {
    let dir = folder();
    let output = init(dir.path(), &["hello"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    assert!(
        text(&output.stdout).contains("\n  cd hello\n  duebox run "),
        "{}",
        text(&output.stdout)
    );
    let project = dir.path().join("hello");
    assert_eq!(names(&project), ["duebox.toml", "hello.ts"]);

    let mut daemon = Daemon::start_with(&project.join("duebox.toml"), |command| {
        command.current_dir(&project);
    });
    daemon.wait_for_line("a first job", |line| line.message() == "Hello, world");
    duebox_harness::eventually("it is acked", || {
        verdicts(&daemon).iter().any(|verdict| verdict.settled == "done")
    });

    // The commands that `init` suggests, and those of the comments in the manifest.
    let path = std::env::var("PATH").unwrap();
    for args in [
        &["push", "hello", "Ada", "--id", "ada"] as &[&str],
        &["push", "hello", "", "--id", "empty"],
        &["stats"],
        &["check", "--strict"],
    ] {
        let output = duebox(&project, args, &path);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    }
    daemon.wait_for_line("the pushed job", |line| line.message() == "Hello, Ada");
    let settled = |id: &str, settled: &str| {
        verdicts(&daemon).iter().any(|verdict| verdict.id == id && verdict.settled == settled)
    };
    duebox_harness::eventually("the empty payload is dead", || settled("empty", "dead"));
    let listed = text(&duebox(&project, &["done", "list", "hello"], &path).stdout);
    assert!(listed.contains("ada"), "{listed}");
    assert!(daemon.terminate().success());
}

#[test]
fn existing_files_are_refused_and_nothing_is_written() {
    for existing in ["duebox.toml", "hello.ts"] {
        let dir = folder();
        fs::write(dir.path().join(existing), "mine").unwrap();
        let output = init(dir.path(), &[]);
        assert_eq!(output.status.code(), Some(2));
        let error = text(&output.stderr);
        assert!(error.contains(existing) && error.contains("hint: "), "{error}");
        assert_eq!(names(dir.path()), [existing]);
        assert_eq!(fs::read_to_string(dir.path().join(existing)).unwrap(), "mine");
    }
    // A file where the folder should be.
    let dir = folder();
    fs::write(dir.path().join("file"), "").unwrap();
    let output = init(dir.path(), &["file"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("hint: "), "{}", text(&output.stderr));
}

#[test]
fn a_full_disk_leaves_no_file() {
    let dir = folder();
    // The limit on the size of files stands for a full disk; a shell ignores the signal that comes with it.
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" init";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(duebox_binary())
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cannot be written"), "{}", text(&output.stderr));
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn a_missing_redis_server_is_reported_with_its_package() {
    let dir = folder();
    let output = duebox(dir.path(), &["init"], "/nonexistent");
    assert!(output.status.success());
    let warning = text(&output.stderr);
    assert!(warning.contains("apt-get install redis-server"), "{warning}");
}
