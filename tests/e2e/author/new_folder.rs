//! `duebox new` writes a project whole, or nothing.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use duebox_harness::duebox_binary;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("duebox-new-").tempdir().unwrap()
}

fn new(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(duebox_binary());
    command.arg("new").args(args).current_dir(folder).output().unwrap()
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
fn an_empty_folder_is_filled_and_a_missing_one_is_made() {
    let dir = folder();
    let output = new(dir.path(), &["typescript", "a/b/order-close"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("cd a/b/order-close"), "{}", text(&output.stdout));
    let made = names(&dir.path().join("a/b/order-close"));
    assert_eq!(
        made,
        [".gitignore", "README.md", "duebox.toml", "handler.ts", "sdk", "tests", "tsconfig.json"]
    );

    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let output = new(&empty, &["typescript", "."]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(names(&empty), made);
    let manifest = fs::read_to_string(empty.join("duebox.toml")).unwrap();
    assert!(manifest.contains("[topics.empty]"), "{manifest}");
}

#[test]
fn a_folder_with_files_is_refused_whole() {
    let dir = folder();
    let project = dir.path().join("mine");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("notes"), "mine").unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    for name in ["mine", "file"] {
        let output = new(dir.path(), &["rust", name]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("nothing was written") && error.contains("hint: "), "{error}");
    }
    assert_eq!(names(&project), ["notes"]);
    assert_eq!(names(dir.path()), ["file", "mine"]);
}

#[test]
fn a_name_that_no_handler_can_have_is_refused() {
    let dir = folder();
    for name in ["Order", "7up", "a.b", "über", "a b", &"a".repeat(65)] {
        let output = new(dir.path(), &["go", name]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(text(&output.stderr).contains("order-close"), "{}", text(&output.stderr));
    }
    let output = new(dir.path(), &["cobol", "a"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("assemblyscript"), "{}", text(&output.stderr));
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn an_sdk_that_is_not_published_is_not_taken_from_a_registry() {
    let dir = folder();
    for (language, place) in [("rust", "crates.io"), ("go", "Go module proxy"), ("c", "no package")]
    {
        let output = new(dir.path(), &[language, "order-close", "--no-vendor"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(place) && error.contains("nothing was written"), "{error}");
        assert_eq!(names(dir.path()), [""; 0]);
    }
    let output = new(dir.path(), &["rust", "order-close", "--no-vendor", "--vendor"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(dir.path().join("order-close/sdk/Cargo.toml").is_file());
}

#[test]
fn a_full_disk_leaves_nothing() {
    let dir = folder();
    fs::create_dir(dir.path().join("empty")).unwrap();
    for target in ["a/b", "empty"] {
        // The limit on the size of files stands for a full disk; a shell ignores the signal that comes with it.
        let script = format!("trap '' XFSZ; ulimit -f 0; exec \"$0\" new c {target}");
        let output = Command::new("sh")
            .args(["-c", &script])
            .arg(duebox_binary())
            .current_dir(dir.path())
            .output()
            .unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("cannot be written"), "{error}");
    }
    assert_eq!(names(dir.path()), ["empty"]);
    assert_eq!(names(&dir.path().join("empty")), [""; 0]);
}

#[test]
fn a_missing_tool_is_named_with_what_installs_it() {
    for (language, remedy) in [
        ("rust", "https://sh.rustup.rs"),
        ("go", "https://go.dev/dl"),
        ("assemblyscript", "https://nodejs.org"),
        ("c", "apt-get install clang lld"),
    ] {
        let dir = folder();
        let run = |args: &[&str]| {
            Command::new(duebox_binary())
                .args(args)
                .current_dir(dir.path())
                .env("PATH", "/nonexistent")
                .output()
                .unwrap()
        };
        let output = run(&["new", language, "a"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(remedy), "{}", text(&output.stderr));
        let output = run(&["build", "a"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(remedy), "{}", text(&output.stderr));
    }
}
