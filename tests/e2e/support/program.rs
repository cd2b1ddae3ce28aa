//! Programs of the documentation in the languages of producers. They run with the clients that
//! `tests/producers/setup.sh` installs. A language or a client that is missing fails the test, which names it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The command that runs a program, which is written into an empty folder of its own.
pub(crate) fn program(language: &str, code: &str, folder: &Path) -> Command {
    let script = |interpreter: &str, name: &str| {
        let mut command = interpreted(interpreter);
        command.arg(written(folder, name, code));
        command
    };
    let mut command = match language {
        "php" => script("php", "main.php"),
        "python" => {
            let mut command = Command::new(installed("python/bin/python"));
            command.arg(written(folder, "main.py", code));
            command
        }
        "js" => {
            symlink(installed("node/node_modules"), folder.join("node_modules")).unwrap();
            script("node", "main.mjs")
        }
        "go" => go(code, folder),
        "java" => {
            let mut command = interpreted("java");
            command.arg("-cp").arg(installed("java").join("*"));
            command.arg(written(folder, "Main.java", code));
            command
        }
        "ruby" => script("ruby", "main.rb"),
        other => panic!("no test runs programs in {other:?}"),
    };
    command.current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs a program to its end and returns what it printed.
pub(crate) fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, failed) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}\n{failed}");
    out
}

/// A program that runs until it is dropped.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn written(folder: &Path, name: &str, code: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, code).unwrap();
    path
}

/// What `tests/producers/setup.sh` has installed.
fn installed(name: &str) -> PathBuf {
    let path = Path::new(ROOT).join(".tools/producers").join(name);
    assert!(path.exists(), "{} is missing; run: tests/producers/setup.sh", path.display());
    path
}

fn interpreted(name: &str) -> Command {
    let mut look = Command::new(name);
    let found = look.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(found.is_ok(), "{name} is missing; ./dev test installs it");
    Command::new(name)
}

/// Compiles a program against the modules that `tests/producers/go` names.
fn go(code: &str, folder: &Path) -> Command {
    written(folder, "main.go", code);
    for name in ["go.mod", "go.sum"] {
        fs::copy(Path::new(ROOT).join("tests/producers/go").join(name), folder.join(name)).unwrap();
    }
    let mut build = interpreted("go");
    build.args(["build", "-o", "program", "."]).current_dir(folder);
    build.env("GOFLAGS", "-mod=readonly").env("GOWORK", "off").env("GOTOOLCHAIN", "local");
    run(build);
    Command::new(folder.join("program"))
}
