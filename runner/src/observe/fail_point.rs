//! Fail points: tests let a named part of a running daemon panic.
//!
//! `DUEBOX_FAIL_POINTS` names a directory; it is read once. A part whose name is a file there panics: once, and
//! the file is removed; each time while the file contains `always`. Without the variable a fail point is one
//! load and one branch.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// How often a waiting task looks for its file.
const LOOK_EVERY: Duration = Duration::from_millis(10);

static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();

fn directory() -> Option<&'static PathBuf> {
    let read = || std::env::var_os("DUEBOX_FAIL_POINTS").map(PathBuf::from);
    DIRECTORY.get_or_init(read).as_ref()
}

/// Panics here, if a test wants it.
#[inline]
pub(crate) fn pass(name: &str) {
    if let Some(directory) = directory() {
        pass_armed(directory, name);
    }
}

#[cold]
fn pass_armed(directory: &Path, name: &str) {
    let file = directory.join(name);
    let Ok(content) = fs::read_to_string(&file) else { return };
    let is_first = content.trim() == "always" || fs::remove_file(&file).is_ok();
    assert!(!is_first, "fail point {name}");
}

/// Runs a task that panics at whatever it waits for, if a test wants it.
pub(super) async fn pass_anywhere<T>(name: &str, task: impl Future<Output = T>) -> T {
    if directory().is_none() {
        return task.await;
    }
    let look = async {
        loop {
            pass(name);
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        ended = task => ended,
        () = look => unreachable!("it looks until it panics"),
    }
}
