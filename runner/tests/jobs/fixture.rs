//! The fixture of these tests: the binary, a manifest, and a Redis for each test.

use std::path::Path;
use std::process::Command;

use duebox_harness::{RedisServer, output_with};
use serde_json::{Value, json};
use tempfile::TempDir;

const NACK: &str = r#"(module (func (export "handle") (param i32) (result i32) (i32.const 1)))"#;
/// No Redis listens there: a command that gets this far has accepted its input.
pub(crate) const NOWHERE: &str = "redis://127.0.0.1:1/0";

/// The output and exit code of a command.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}{}", self.out, self.err))
    }

    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A Redis, and a folder with a manifest that uses it.
pub(crate) struct Fixture {
    pub(crate) redis: RedisServer,
    pub(crate) folder: TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let redis = RedisServer::start();
        let folder = folder(&redis.url());
        Self { redis, folder }
    }

    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        run(self.folder.path(), args, b"")
    }

    /// Runs a command that must succeed; returns its stdout.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.code, 0, "{args:?}: {}{}", output.out, output.err);
        output.out
    }

    /// Runs a command that must be refused; returns its stderr.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.code, 1, "{args:?}: {}{}", output.out, output.err);
        assert!(output.err.contains("hint: "), "{args:?}: {}", output.err);
        output.err
    }

    /// Writes dead jobs as a runner does: id, ms ago, class.
    pub(crate) fn bury(&self, dead: &[(&str, u64, &str)]) {
        let time = self.redis.cli(&["TIME"]);
        let seconds: u64 = time.lines().next().unwrap().trim().parse().unwrap();
        for (id, ago, class) in dead {
            let died = (seconds * 1_000 - ago).to_string();
            let info = json!({"class": class, "reason": "it broke\nbadly", "attempt": 3,
                "log": ["error first", "warn last"]});
            self.redis.cli(&["ZADD", "duebox:{slow}:dead", &died, id]);
            self.redis.cli(&["HSET", "duebox:{slow}:dead:jobs", id, "{\"n\":1}"]);
            self.redis.cli(&["HSET", "duebox:{slow}:dead:info", id, &info.to_string()]);
        }
    }
}

pub(crate) fn run(folder: &Path, args: &[&str], input: &[u8]) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox"));
    for name in ["MANIFEST", "REDIS_URL", "LOG", "LOG_FORMAT", "LISTEN"] {
        command.env_remove(format!("DUEBOX_{name}"));
    }
    command.args(args).current_dir(folder).env_remove("REDIS_URL");
    let output = output_with(&mut command, input).unwrap();
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

pub(crate) fn folder(url: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nack.wat"), NACK).unwrap();
    let manifest = format!(
        "[redis]\nurl = \"{url}\"\n[topics.slow]\nhandler = \"nack.wat\"\ndelay = \"1h\"\n\
         sandbox = {{ payload = \"1KiB\" }}\n[topics.\"sms.*\"]\nhandler = \"nack.wat\"\n"
    );
    std::fs::write(folder.path().join("duebox.toml"), manifest).unwrap();
    folder
}
