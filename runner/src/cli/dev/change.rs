//! How long a change takes from the save of a file to the first verdict of the new code.

use std::time::{Duration, SystemTime};

/// A change that is on its way into service.
#[derive(Debug)]
pub(super) struct Change {
    saved_at: SystemTime,
    /// How long its build took; `None` without a build.
    pub(super) build: Option<Duration>,
    /// The digest of the new code, once it serves.
    pub(super) serves: Option<String>,
}

impl Change {
    pub(super) fn saved(saved_at: SystemTime) -> Self {
        Self { saved_at, build: None, serves: None }
    }

    /// The time since the save.
    pub(super) fn describe(&self) -> String {
        let since = self.saved_at.elapsed().unwrap_or_default();
        let build = self.build.map(|build| format!(", {} of them for the build", millis(build)));
        format!("{} after the save{}", millis(since), build.unwrap_or_default())
    }
}

fn millis(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
