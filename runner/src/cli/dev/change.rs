//! How long a change takes from the save of a file to the first verdict of the new code.

use std::time::{Duration, SystemTime};

/// A change that is on its way into service.
#[derive(Debug)]
pub(super) struct Change {
    saved_at: SystemTime,
    /// How long the language's compiler ran; `None` without a build. All else counts as time of `duebox`.
    pub(super) compiler: Option<Duration>,
    /// The digest of the new code, once it serves.
    pub(super) serves: Option<String>,
}

impl Change {
    pub(super) fn saved(saved_at: SystemTime) -> Self {
        Self { saved_at, compiler: None, serves: None }
    }

    /// The time since the save.
    pub(super) fn describe(&self) -> String {
        let since = self.saved_at.elapsed().unwrap_or_default();
        let of_compiler =
            self.compiler.map(|took| format!(", {} of them for the compiler", millis(took)));
        format!("{} after the save{}", millis(since), of_compiler.unwrap_or_default())
    }
}

fn millis(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}
