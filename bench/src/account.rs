//! The daemon's own account of what it did, checked against what was pushed.

use anyhow::{Context, ensure};
use duebox_harness::{Daemon, LogLine};

/// What is logged where lines a job would be in the way: warnings, and the daemon's closing words.
pub(crate) const QUIET: &str = "warn,duebox::daemon=info";

/// Ends the daemons and fails unless they ended cleanly and acked just `jobs` jobs between them,
/// with nothing retried, buried or lost.
pub(crate) fn close(daemons: &mut [Daemon], jobs: u64) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for daemon in daemons {
        let status = daemon.terminate();
        ensure!(status.success(), "a daemon did not stop cleanly: {status}");
        let said = daemon.lines().into_iter();
        let closing: Vec<LogLine> = said.filter(|line| line.field("leased").is_number()).collect();
        ensure!(!closing.is_empty(), "a daemon ended without its closing account");
        lines.extend(closing);
    }
    for (field, wanted) in [("acked", jobs), ("retried", 0), ("dead", 0), ("lost", 0)] {
        let mut sum = 0;
        for line in &lines {
            let count = line.field(field).as_u64();
            sum += count.with_context(|| format!("no {field} in {}", line.text()))?;
        }
        ensure!(sum == wanted, "{field} is {sum} and not {wanted} by the closing account");
    }
    Ok(())
}
