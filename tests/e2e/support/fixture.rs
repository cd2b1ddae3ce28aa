//! The base of a test: its own Redis, a folder for the manifest and the modules, and daemons. Dropping the
//! fixture removes all of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use duebox_harness::{Daemon, TestRedis, Topology, duebox_binary};
use duebox_queue::Role;
use tempfile::TempDir;

use crate::support::redis_state::Store;

/// The user that daemons of a test log in as.
const USER: &str = "worker";

/// A Redis and a folder.
pub(crate) struct Fixture {
    pub(crate) redis: TestRedis,
    dir: TempDir,
    /// The address in manifests, if it is not the one of `redis`.
    url: Option<String>,
    /// Whether a refusal of Redis (ACL) fails the test.
    has_user: bool,
}

impl Fixture {
    /// A fixture whose Redis does not persist.
    pub(crate) fn new() -> Self {
        Self::on(TestRedis::start())
    }

    /// A fixture whose Redis syncs each write to disk before it replies.
    pub(crate) fn persistent() -> Self {
        Self::with_args(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// A fixture whose Redis has further arguments.
    pub(crate) fn with_args(args: &[&str]) -> Self {
        Self::on(TestRedis::with_args(args))
    }

    /// A fixture on a Redis of the test's own.
    pub(crate) fn on(redis: impl Into<TestRedis>) -> Self {
        let redis = redis.into();
        let dir = tempfile::Builder::new().prefix("duebox-e2e-").tempdir().unwrap();
        let fixture = Self { redis, dir, url: None, has_user: false };
        // Any test can run with the permissions of docs/guide/redis.md alone.
        if std::env::var_os("DUEBOX_TEST_USER").is_some() { fixture.with_user() } else { fixture }
    }

    /// Daemons and commands log in as a user that may do what a daemon needs, and nothing else. A command that
    /// Redis refuses this user fails the test.
    pub(crate) fn with_user(mut self) -> Self {
        self.allow(USER, Role::Daemon);
        self.redis.keep_user(USER, &rules(Role::Daemon));
        self.url = Some(self.url_of(USER));
        self.has_user = true;
        self
    }

    /// Makes a user for a role, until Redis ends.
    pub(crate) fn allow(&self, user: &str, role: Role) {
        let rules = rules(role);
        let rules = rules.iter().map(String::as_str);
        self.redis.cli(&["ACL", "SETUSER", user].into_iter().chain(rules).collect::<Vec<_>>());
    }

    /// The address with the login of a user that [`Self::allow`] made.
    pub(crate) fn url_of(&self, user: &str) -> String {
        self.redis.url_as(user, "secret")
    }

    /// What Redis has refused its users.
    pub(crate) fn refusals(&self) -> String {
        self.redis.cli(&["ACL", "LOG"])
    }

    /// Manifests have this address, with the user that it names.
    pub(crate) fn reached_at(mut self, url: impl Into<String>) -> Self {
        self.has_user = false;
        self.url = Some(url.into());
        self
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file of the folder in place.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// Writes `duebox.toml` with these keys of `[runner]` and these topics.
    pub(crate) fn manifest(&self, runner: &str, topics: &[String]) -> PathBuf {
        self.manifest_named("duebox.toml", runner, topics)
    }

    /// The same under another name: a second runner with other modules.
    pub(crate) fn manifest_named(&self, name: &str, runner: &str, topics: &[String]) -> PathBuf {
        let url = self.url.clone().unwrap_or_else(|| self.redis.url());
        let redis = format!("[redis]\nurl = \"{url}\"\npoll = \"200ms\"\n");
        self.write(name, format!("{redis}[runner]\n{runner}\n{}", topics.concat()))
    }

    /// Starts a daemon on `duebox.toml` and waits until it serves.
    pub(crate) fn start(&self) -> Daemon {
        up(&self.path("duebox.toml"))
    }

    /// Runs `duebox` on `duebox.toml` with these words and returns its stdout.
    pub(crate) fn duebox(&self, words: &[&str]) -> String {
        let output = Command::new(duebox_binary())
            .args(words)
            .current_dir(self.dir.path())
            .env_remove("DUEBOX_MANIFEST")
            .env_remove("DUEBOX_REDIS_URL")
            .output()
            .unwrap();
        let failed = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "duebox {words:?}: {printed}{failed}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn store(&self) -> Store {
        Store::of(&self.redis)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if self.has_user && self.redis.is_running() && !std::thread::panicking() {
            // A test may have frozen it.
            self.redis.resume();
            let refused = self.refusals();
            assert!(refused.is_empty(), "Redis refused commands of the user: {refused}");
        }
    }
}

/// The rules of a user with this role, as docs/guide/redis.md has them.
fn rules(role: Role) -> Vec<String> {
    let cluster: &[&str] = match Topology::of_run() {
        Topology::Single => &[],
        Topology::Cluster => &["+asking", "+cluster|info", "+cluster|slots"],
    };
    let rules = role.acl_rules("duebox");
    let rules = ["reset", "on", ">secret"].into_iter().chain(rules.split_whitespace());
    rules.chain(cluster.iter().copied()).map(str::to_owned).collect()
}

/// Starts a daemon and waits until it serves.
pub(crate) fn up(manifest: &Path) -> Daemon {
    let daemon = Daemon::start(manifest);
    daemon.wait_for_line("ready", |line| line.message() == "ready");
    daemon
}

/// A topic of a manifest, with further keys.
pub(crate) fn topic(name: &str, handler: &str, keys: &str) -> String {
    format!("[topics.\"{name}\"]\nhandler = \"{handler}\"\n{keys}\n")
}

/// A compiled handler from `handlers/build`.
pub(crate) fn built(handler: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = root.join("handlers/build").join(format!("{handler}.wasm"));
    assert!(path.is_file(), "{} is missing; run: ./dev handlers", path.display());
    path.display().to_string()
}
