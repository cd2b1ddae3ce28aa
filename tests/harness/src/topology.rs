//! On what the tests run: one server, or a cluster. `DUEBOX_TEST_TOPOLOGY` says which.

use std::fs::OpenOptions;
use std::io::Write;

/// The topology of the Redis that a test gets unless it starts another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single,
    /// Three primaries with a replica each.
    Cluster,
}

impl Topology {
    /// The topology of this run: `single` (the default) or `cluster`.
    ///
    /// # Panics
    /// If the variable is something else.
    pub fn of_run() -> Self {
        const NAME: &str = "DUEBOX_TEST_TOPOLOGY";
        match std::env::var(NAME).as_deref() {
            Err(_) | Ok("" | "single") => Self::Single,
            Ok("cluster") => Self::Cluster,
            Ok(other) => panic!("{NAME} is {other:?}; use single or cluster"),
        }
    }
}

/// Whether this run leaves out the calling test, which applies to one server only.
///
/// # Panics
/// If the reason cannot be written.
pub fn is_left_out(why: &str) -> bool {
    let is_cluster = Topology::of_run() == Topology::Cluster;
    if is_cluster {
        leave_out(why);
    }
    is_cluster
}

/// Says that the calling test did nothing here, and why. The reason is added, with the test's name, to the file that
/// `DUEBOX_TEST_LEFT_OUT` names, from which `./dev test` prints and counts them.
///
/// # Panics
/// If that file cannot be written.
pub fn leave_out(why: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {why}\n", thread.name().unwrap_or("a test"));
    #[expect(clippy::print_stdout, reason = "a test says that it did nothing")]
    {
        print!("left out: {line}");
    }
    if let Some(path) = std::env::var_os("DUEBOX_TEST_LEFT_OUT") {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
            panic!("cannot write {}: {error}", path.display());
        }
    }
}

/// Ends a test that applies to one server only, with the reason, if the tests run on a cluster.
#[macro_export]
macro_rules! only_on_one_server {
    ($why:expr) => {
        if $crate::is_left_out($why) {
            return;
        }
    };
}
