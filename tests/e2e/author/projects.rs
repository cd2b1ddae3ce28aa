//! From an empty folder outside of this repository to an acked job, and to a change that takes over, in each language
//! whose tools are on this machine. Each test prints the seconds of each step.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use duebox_harness::{Daemon, LogLine, duebox_binary};
use tempfile::TempDir;

use crate::support::log::verdicts;

/// A language, and a change of its template.
struct Project {
    language: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

/// A project in a folder of its own, and the seconds of its steps.
struct Author {
    dir: TempDir,
    name: &'static str,
    steps: Vec<String>,
}

impl Author {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("duebox-author-").tempdir().unwrap();
        Self { dir, name: "order-close", steps: Vec::new() }
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join(self.name)
    }

    /// Runs `duebox` in a folder, with this environment's tools.
    fn duebox(&mut self, folder: &Path, args: &[&str]) -> Output {
        let began = Instant::now();
        let output = Command::new(duebox_binary())
            .args(args)
            .current_dir(folder)
            .env_remove("DUEBOX_MANIFEST")
            .env_remove("DUEBOX_REDIS_URL")
            // What a developer may have set must not lead the build out of the project.
            .env("CARGO_TARGET_DIR", self.dir.path().join("elsewhere"))
            .output()
            .unwrap();
        if args[0] != "push" {
            self.took(args[0], began);
        }
        output
    }

    fn took(&mut self, step: &str, began: Instant) {
        self.steps.push(format!("{step} {:.1} s", began.elapsed().as_secs_f64()));
    }

    /// Runs `duebox` in the project, which must succeed.
    fn succeeds(&mut self, args: &[&str]) -> String {
        let output = self.duebox(&self.project(), args);
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{args:?}:\n{out}\n{error}");
        out
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The whole way of an author.
fn lives(project: &Project) {
    let mut author = Author::new();
    let (home, name) = (author.dir.path().to_owned(), author.name);
    let output = author.duebox(&home, &["new", project.language, name]);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    if errors.contains("`duebox build` needs it") {
        assert!(errors.contains("hint: "), "{errors}");
        println!("{}: skipped: {errors}", project.language);
        return;
    }
    let built = author.succeeds(&["build"]);
    assert!(built.contains("digest") && built.contains("call "), "{built}");
    author.succeeds(&["check", "--strict"]);

    let folder = author.project();
    let began = Instant::now();
    let mut daemon = Daemon::start_with(&folder.join("duebox.toml"), |command| {
        command.current_dir(&folder);
    });
    daemon.wait_for_line("serving", |line| line.message() == "serving" && line.has("topic", name));
    author.took("run", began);
    let payload = if project.language == "wat" { "Ada" } else { "{\"name\":\"Ada\"}" };
    let began = Instant::now();
    author.succeeds(&["push", name, payload, "--id", "first"]);
    let is_acked = |daemon: &Daemon, id: &str| {
        verdicts(daemon).iter().any(|verdict| verdict.id == id && verdict.settled == "done")
    };
    duebox_harness::eventually("the first job is acked", || is_acked(&daemon, "first"));
    author.took("acked", began);
    daemon.wait_for_line("the greeting", |line| line.message().starts_with("Hello, Ada"));

    // A change takes over while the daemon runs.
    let source = folder.join(project.file);
    let before = fs::read_to_string(&source).unwrap();
    assert_eq!(before.matches(project.from).count(), 1, "{before}");
    fs::write(&source, before.replace(project.from, project.to)).unwrap();
    author.succeeds(&["build"]);
    let began = Instant::now();
    let is_new = |line: &LogLine| {
        let text = line.message();
        text.starts_with("Hello again, Ada") || text.starts_with("Hello; Ada")
    };
    duebox_harness::eventually("the change takes over", || {
        author.succeeds(&["push", name, payload]);
        daemon.count(is_new) > 0
    });
    author.took("change", began);
    assert!(daemon.terminate().success());
    // Nothing was built outside of the project.
    assert_eq!(names(&home), [name]);
    println!("{}: {}", project.language, author.steps.join(", "));
}

#[test]
fn a_project_in_typescript() {
    let (from, to) = ("\"Hello\")},", "\"Hello\")} again,");
    lives(&Project { language: "typescript", file: "handler.ts", from, to });
}

#[test]
fn a_project_in_python() {
    let (from, to) = ("'Hello')},", "'Hello')} again,");
    lives(&Project { language: "python", file: "handler.py", from, to });
}

#[test]
fn a_project_in_rust() {
    let (from, to) = ("{word}, {}!", "{word} again, {}!");
    lives(&Project { language: "rust", file: "src/lib.rs", from, to });
}

#[test]
fn a_project_in_go() {
    let (from, to) = ("\"%s, %s!\"", "\"%s again, %s!\"");
    lives(&Project { language: "go", file: "main.go", from, to });
}

#[test]
fn a_project_in_assemblyscript() {
    let (from, to) = ("word + \", \"", "word + \" again, \"");
    lives(&Project { language: "assemblyscript", file: "assembly/index.ts", from, to });
}

#[test]
fn a_project_in_c() {
    let (from, to) = ("DUEBOX(\", \")", "DUEBOX(\" again, \")");
    lives(&Project { language: "c", file: "handler.c", from, to });
}

#[test]
fn a_project_in_wat() {
    let (from, to) = ("(i32.const 0x2c))) ;; ','", "(i32.const 0x3b))) ;; ';'");
    lives(&Project { language: "wat", file: "handler.wat", from, to });
}
