//! Scores of `ready`, which holds three priorities in one zset.

use crate::wire::constants::{DUE_MAX, PRIORITY_STEP};

/// The due time behind a score in `ready`, which is moved by the job's priority.
pub(crate) fn due_of_ready(score: &str) -> u64 {
    let (score, step) = (score.parse::<f64>().unwrap_or(0.0), PRIORITY_STEP as f64);
    let due = if score > DUE_MAX as f64 {
        score - step
    } else if score < 0.0 {
        score + step
    } else {
        score
    };
    due.max(0.0) as u64
}
