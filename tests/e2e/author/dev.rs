//! `duebox dev`: changes, mistakes, keys, and every way out.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use duebox_harness::{duebox_binary, eventually, send_signal};
use tempfile::TempDir;

use super::dev_session::{DevSession, is_verdict};
use crate::support::terminal::Terminal;

/// What `duebox dev` may add to the time of the compiler on a machine with nothing else to do.
const BESIDES_COMPILER_MS: f64 = 200.0;

/// A project that `duebox new` wrote.
struct Project {
    dir: TempDir,
}

impl Project {
    fn new(language: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("duebox-dev-").tempdir().unwrap();
        let new = Command::new(duebox_binary())
            .args(["new", language, "order-close"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(new.status.success(), "{new:?}");
        Self { dir }
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("order-close")
    }

    fn start(&self, args: &[&str]) -> DevSession {
        DevSession::start(&self.folder(), args, &path())
    }

    fn change(&self, file: &str, from: &str, to: &str) {
        let path = self.folder().join(file);
        let before = fs::read_to_string(&path).unwrap();
        assert!(before.contains(from), "{before}");
        fs::write(&path, before.replacen(from, to, 1)).unwrap();
    }

    /// Whether a daemon or a managed Redis of the project runs.
    fn is_running(&self) -> bool {
        let folder = self.folder().canonicalize().unwrap();
        let is_of_project = |process: fs::DirEntry| {
            let file = |name: &str| fs::read_link(process.path().join(name)).unwrap_or_default();
            let program = file("exe");
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_wanted = name.contains("redis") || name.contains("valkey") || name == "duebox";
            is_wanted && file("cwd").starts_with(&folder)
        };
        fs::read_dir("/proc").unwrap().flatten().any(is_of_project)
    }
}

fn path() -> OsString {
    std::env::var_os("PATH").unwrap()
}

/// The milliseconds before a word of a line.
fn ms_before(line: &str, word: &str) -> f64 {
    let (before, _) = line.split_once(word).unwrap_or_else(|| panic!("{line:?} has no {word:?}"));
    before.trim_end_matches(" ms").rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_change_is_built_and_a_mistake_leaves_what_serves() {
    let project = Project::new("c");
    let dev = project.start(&["--push"]);
    dev.shows("the first verdict", |line| is_verdict(line, "ack"));
    let module = project.folder().join("build/handler.wasm");
    let before = fs::read(&module).unwrap();

    let seen = dev.count();
    project.change("handler.c", "return duebox_ack();", "return duebox_ack()");
    dev.shows_after(seen, "the compiler's words", |line| line.contains("error: expected ';'"));
    let failed =
        dev.shows_after(seen, "the failed build", |line| line.contains("the build failed after"));
    assert!(failed.contains("keeps serving"), "{failed}");
    assert_eq!(fs::read(&module).unwrap(), before);

    // Five changes, each with its time. What is not the compiler's is noticing the change, checking the module, taking
    // it over and one job. A part of it is what a run of `inspect` takes.
    let began = Instant::now();
    let inspected =
        Command::new(duebox_binary()).arg("inspect").arg(&module).arg("--json").output();
    assert!(inspected.unwrap().status.success());
    let (inspect, mut rests) = (began.elapsed().as_secs_f64() * 1e3, Vec::new());
    project.change("handler.c", "return duebox_ack()", "return duebox_ack();");
    dev.shows_after(seen, "the same module", |line| line.contains("is the one that serves"));
    let mut known = ", ".to_owned();
    for number in 0..5 {
        let (seen, next) = (dev.count(), format!(" {number}, "));
        project.change(
            "handler.c",
            &format!("DUEBOX(\"{known}\")"),
            &format!("DUEBOX(\"{next}\")"),
        );
        known = next;
        let line = dev.shows_after(seen, "the new code's verdict", |line| {
            line.contains("first verdict of the new code")
        });
        dev.shows(&format!("change {number}"), |line| line.contains(&format!("Hello {number}, ")));
        let (all, compiler) = (ms_before(&line, " ms after"), ms_before(&line, " ms of them"));
        assert!(0.0 < compiler && compiler < all, "{line}");
        rests.push(all - compiler);
    }
    println!(
        "besides the compiler from the save to the verdict: {rests:?} ms; inspect: {inspect} ms"
    );
    let least = rests.into_iter().fold(f64::INFINITY, f64::min);
    assert!(least < BESIDES_COMPILER_MS + 10.0 * inspect, "{least} ms, inspect took {inspect} ms");
    assert!(dev.terminate().success());
    eventually("nothing of it runs", || !project.is_running());
}

#[test]
fn a_source_that_is_refused_names_its_line_and_the_other_serves() {
    let project = Project::new("typescript");
    let dev = project.start(&["--push"]);
    dev.shows("the first verdict", |line| is_verdict(line, "ack"));
    let seen = dev.count();
    project.change("handler.ts", "export default", "export default function (");
    dev.shows_after(seen, "its place", |line| line.contains("is refused: handler.ts:11:"));
    dev.shows_after(seen, "the other one", |line| line.contains("the module in service stays"));
    project.change("handler.ts", "export default function (", "export default");
    project.change("handler.ts", "Hello", "Moin");
    dev.shows_after(seen, "the change", |line| line.contains("first verdict of the new code"));
    // A test case that is added is pushed next.
    let seen = dev.count();
    let case = "[[case]]\npayload = { name = \"Grace\" }\nexpect = \"ack\"\n";
    fs::write(project.folder().join("tests/added.toml"), case).unwrap();
    dev.shows_after(seen, "the change", |line| line.contains("tests/added.toml"));
    project.change("handler.ts", "Moin", "Ahoi");
    dev.shows_after(seen, "its job", |line| is_verdict(line, "push") && line.contains("Grace"));
    assert!(dev.terminate().success());
}

const TRAP: &str = r#"(module
    (func $divide (param i32) (result i32) (i32.div_u (i32.const 1) (local.get 0)))
    (memory (export "memory") 1)
    (func (export "handle") (param i32) (result i32) (call $divide (i32.const 0))))"#;

#[test]
fn a_trap_comes_with_its_trace() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("handler.wat"), TRAP).unwrap();
    let manifest = "[redis]\nurl = \"managed\"\n[topics.t]\nhandler = \"handler.wat\"\n";
    fs::write(dir.path().join("duebox.toml"), manifest).unwrap();
    let dev = DevSession::start(dir.path(), &["--push", "--payload", "one"], &path());
    dev.shows("its frame", |line| line.contains("divide"));
    let verdict = dev.shows("the verdict", |line| is_verdict(line, "nack"));
    assert!(verdict.contains("trap: ") && verdict.contains("next attempt"), "{verdict}");
    assert!(dev.terminate().success());
}

#[test]
fn the_daemon_and_its_redis_end_on_every_way_out() {
    let project = Project::new("wat");
    for signal in ["INT", "HUP", "KILL"] {
        let dev = project.start(&[]);
        dev.shows("the daemon serves", |line| line.ends_with(" ready"));
        assert!(project.is_running());
        send_signal(signal, dev.pid());
        let ended = dev.ended();
        assert!(ended.success() || signal == "KILL", "{signal}: {ended}");
        eventually("nothing of it runs", || !project.is_running());
    }
}

/// Runs it to its end, and returns its exit code and what it printed.
fn fails(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(duebox_binary())
        .arg("dev")
        .args(args)
        .current_dir(folder)
        .env("DUEBOX_LISTEN", "127.0.0.1:0")
        .env_remove("DUEBOX_MANIFEST")
        .env_remove("DUEBOX_REDIS_URL")
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (code, error) = fails(dir.path(), &[]);
    assert!(code == Some(2) && error.contains("there is no manifest"), "{code:?} {error}");
    assert!(error.contains("duebox new"), "{error}");
    fs::write(dir.path().join("duebox.toml"), "[redis]\nurl = \"redis://127.0.0.1:1/0\"\n")
        .unwrap();
    let (code, error) = fails(dir.path(), &[]);
    assert!(code == Some(2) && error.contains("binds no handler"), "{code:?} {error}");
    let project = Project::new("wat");
    let (code, error) = fails(&project.folder(), &["--redis-url", "redis://127.0.0.1:1/0"]);
    assert!(code == Some(1) && error.contains("redis://127.0.0.1:1/0"), "{code:?} {error}");
    assert!(error.contains("hint: ") && error.matches("error: ").count() == 1, "{error}");
}

#[test]
fn keys_push_samples_on_a_terminal() {
    let project = Project::new("typescript");
    for size in [(80, 24), (120, 40)] {
        let command = format!("{} dev {}", duebox_binary().display(), project.folder().display());
        let mut terminal = Terminal::open(&command, size);
        terminal.shows("serves");
        // Cells that do not change are not written: each of these is a word of its own.
        terminal.press("\r");
        terminal.shows("ack");
        // The fifth case has no name to greet.
        for _ in 0..4 {
            terminal.press("\t");
        }
        terminal.shows("without");
        terminal.press("\r");
        terminal.shows("drop");
        terminal.press("a");
        terminal.shows("after");
        // Ctrl-C is a key here.
        terminal.press("\x03");
        eventually("it has ended", || terminal.ended().is_some());
        assert!(terminal.ended().unwrap().success(), "{}", terminal.all());
        eventually("nothing of it runs", || !project.is_running());
    }
}
