//! From an empty folder outside of this repository to an acked job, and to a change that takes over, in each language. A
//! compiler that is missing fails its test. Each test prints the seconds of each step.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use duebox_harness::duebox_binary;
use tempfile::TempDir;

use super::dev_session::{DevSession, is_verdict};

/// The time from an empty folder to an acked job, with a compiler that has built before.
const FIRST_JOB_MAX: Duration = Duration::from_secs(60);
/// A machine that runs other tests and compilers at the same time takes so many times as long.
const BUSY: u32 = 5;
/// The folder with the programs that an author has.
const BIN: &str = "bin";

/// A language, and a change of its template.
struct Project {
    language: &'static str,
    /// Whether a compiler of this machine builds it. The others need nothing but `duebox` and a Redis server.
    is_compiled: bool,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    /// The command that runs the unit tests of the template.
    unit_tests: Option<&'static str>,
}

/// A project in a folder of its own, and the seconds of its steps.
struct Author {
    dir: TempDir,
    name: &'static str,
    is_compiled: bool,
    steps: Vec<String>,
}

impl Author {
    fn new(is_compiled: bool) -> Self {
        let dir = tempfile::Builder::new().prefix("duebox-author-").tempdir().unwrap();
        let bin = dir.path().join(BIN);
        fs::create_dir(&bin).unwrap();
        symlink(duebox_binary(), bin.join("duebox")).unwrap();
        symlink(program("redis-server"), bin.join("redis-server")).unwrap();
        Self { dir, name: "order-close", is_compiled, steps: Vec::new() }
    }

    /// The search path: `duebox` and a Redis server, and the compilers of this machine if they are needed.
    fn path(&self) -> OsString {
        let bin = self.dir.path().join(BIN);
        if !self.is_compiled {
            return bin.into();
        }
        let mut path = bin.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        path
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
            .env("PATH", self.path())
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

    /// Runs a command of the language's own tools in the project, which must succeed.
    fn runs(&self, command: &str) {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.project())
            .env("PATH", self.path())
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .unwrap();
        let (out, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{command}:\n{out}\n{error}");
    }

    fn passes_unit_tests(&mut self, command: &str) {
        let began = Instant::now();
        self.runs(command);
        self.took("unit tests", began);
    }

    /// Installs the SDK from the archive that would be published, in place of its folder.
    fn takes_the_packed_sdk(&self) {
        self.runs("npm pack --silent ./sdk && rm -r sdk");
        let package = self.project().join("package.json");
        let linked = fs::read_to_string(&package).unwrap();
        let packed = linked.replace("file:./sdk", "file:./duebox-as-0.1.0.tgz");
        assert_ne!(packed, linked);
        fs::write(package, packed).unwrap();
    }
}

/// A program of this machine.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut files = std::env::split_paths(&path).map(|dir| dir.join(name));
    files.find(|file| file.is_file()).unwrap_or_else(|| panic!("{name} is not installed"))
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

/// The whole way of an author.
fn lives(project: &Project) {
    let mut author = Author::new(project.is_compiled);
    let (home, name) = (author.dir.path().to_owned(), author.name);
    let started = Instant::now();
    let output = author.duebox(&home, &["new", project.language, name, "--vendor"]);
    let errors = text(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("`duebox build` needs it"), "install it: {errors}");
    if project.language == "assemblyscript" {
        author.takes_the_packed_sdk();
    }
    let built = author.succeeds(&["build"]);
    assert!(built.contains("digest") && built.contains("call "), "{built}");
    author.succeeds(&["check", "--strict"]);

    let tested = author.succeeds(&["test"]);
    assert!(tested.contains(" passed, 0 failed"), "{tested}");
    let cases = tested.split(" passed, ").next().unwrap().rsplit(['\n', ' ']).next().unwrap();
    assert!(cases.parse::<u32>().unwrap() >= 7, "{tested}");

    let began = Instant::now();
    let dev = DevSession::start(&author.project(), &["--push"], &author.path());
    dev.shows("a first job is acked", |line| is_verdict(line, "ack"));
    author.took("dev, acked", began);
    let all = started.elapsed();
    assert!(all < BUSY * FIRST_JOB_MAX, "{}: {all:?}: {:?}", project.language, author.steps);
    let payload = if project.language == "wat" { "Ada" } else { "{\"name\":\"Ada\"}" };
    author.succeeds(&["push", name, payload, "--id", "second"]);
    dev.shows("its log line", |line| line.contains("second  Hello, Ada"));
    dev.shows("its verdict", |line| is_verdict(line, "ack") && line.contains(" second "));

    // A change takes over as soon as it is saved.
    let source = author.project().join(project.file);
    let before = fs::read_to_string(&source).unwrap();
    assert_eq!(before.matches(project.from).count(), 1, "{before}");
    let began = Instant::now();
    fs::write(&source, before.replace(project.from, project.to)).unwrap();
    dev.shows("the change takes over", |line| {
        line.contains("Hello again, Ada") || line.contains("Hello; Ada")
    });
    let first = dev.shows("its verdict", |line| line.contains("first verdict of the new code"));
    author.took("change", began);
    let (_, times) = first.split_once("of the new code ").unwrap();
    author.steps.push(format!("({times})"));
    assert!(dev.terminate().success());
    fs::write(&source, before).unwrap();
    if let Some(command) = project.unit_tests {
        author.passes_unit_tests(command);
    }
    // Nothing was built outside of the project.
    assert_eq!(names(&home), [BIN, name]);
    println!("{}: {}", project.language, author.steps.join(", "));
}

#[test]
fn a_project_in_typescript() {
    let (from, to) = ("\"Hello\")},", "\"Hello\")} again,");
    lives(&Project {
        language: "typescript",
        is_compiled: false,
        file: "handler.ts",
        from,
        to,
        unit_tests: None,
    });
}

#[test]
fn a_project_in_python() {
    let (from, to) = ("'Hello')},", "'Hello')} again,");
    lives(&Project {
        language: "python",
        is_compiled: false,
        file: "handler.py",
        from,
        to,
        unit_tests: None,
    });
}

#[test]
fn a_project_in_rust() {
    let (from, to) = ("{word}, {}!", "{word} again, {}!");
    lives(&Project {
        language: "rust",
        is_compiled: true,
        file: "src/lib.rs",
        from,
        to,
        unit_tests: Some("cargo test"),
    });
}

#[test]
fn a_project_in_go() {
    let (from, to) = ("\"%s, %s!\"", "\"%s again, %s!\"");
    lives(&Project {
        language: "go",
        is_compiled: true,
        file: "main.go",
        from,
        to,
        unit_tests: Some("go vet ./... && go test ./..."),
    });
}

#[test]
fn a_project_in_assemblyscript() {
    let (from, to) = ("word + \", \"", "word + \" again, \"");
    lives(&Project {
        language: "assemblyscript",
        is_compiled: true,
        file: "assembly/index.ts",
        from,
        to,
        unit_tests: Some("npm test"),
    });
}

#[test]
fn a_project_in_c() {
    let (from, to) = ("DUEBOX(\", \")", "DUEBOX(\" again, \")");
    lives(&Project {
        language: "c",
        is_compiled: true,
        file: "handler.c",
        from,
        to,
        unit_tests: None,
    });
}

#[test]
fn a_project_in_wat() {
    let (from, to) = ("(i32.const 0x2c))) ;; ','", "(i32.const 0x3b))) ;; ';'");
    lives(&Project {
        language: "wat",
        is_compiled: false,
        file: "handler.wat",
        from,
        to,
        unit_tests: None,
    });
}
