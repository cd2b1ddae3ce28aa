//! A manifest that was refused while an older one stays in use.

use serde::{Deserialize, Serialize};

use super::status::now_ms;
use crate::manifest::ManifestError;

/// Maximum size of a manifest problem in a report, in bytes.
const PROBLEM_BYTES_MAX: usize = 1 << 10;

/// A manifest that was refused at a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRefusal {
    /// Since when the file has been invalid, unix ms by the daemon's clock.
    pub since_ms: u64,
    /// The first problem: one line, at most 1 KiB.
    pub problem: String,
    /// Line of the problem, from 1; `None` if it has no line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<usize>,
    /// Total number of problems.
    pub problems: usize,
}

impl ManifestRefusal {
    /// The refusal of a manifest now; `before` is the previous refusal, if no valid manifest came
    /// since.
    pub fn of(error: &ManifestError, before: Option<&Self>) -> Self {
        let problems = error.problems();
        let first = problems.first();
        let line = first.map_or("", |first| first.message.lines().next().unwrap_or_default());
        let end = line.floor_char_boundary(PROBLEM_BYTES_MAX);
        Self {
            since_ms: before.map_or_else(now_ms, |before| before.since_ms),
            problem: line[..end].to_owned(),
            line: first.and_then(|first| first.line),
            problems: problems.len(),
        }
    }
}
