//! Stops daemons and compares the totals that they log at shutdown with what was pushed.

use anyhow::{Context, ensure};
use duebox_harness::{Daemon, LogLine};

/// Log filter for runs in which a line per job would cost time: warnings, and the totals at
/// shutdown.
pub(crate) const QUIET_LOG: &str = "warn,duebox::daemon=info";

/// Stops the daemons. Fails unless they exit cleanly and have acked exactly `jobs` jobs between
/// them, with none retried, dead or lost.
pub(crate) fn stop_and_verify(daemons: &mut [Daemon], jobs: u64) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for daemon in daemons {
        let status = daemon.terminate();
        ensure!(status.success(), "a daemon did not stop cleanly: {status}");
        let lines_logged = daemon.lines().into_iter();
        let closing: Vec<LogLine> =
            lines_logged.filter(|line| line.field("leased").is_number()).collect();
        ensure!(!closing.is_empty(), "a daemon exited without logging its totals");
        lines.extend(closing);
    }
    for (field, wanted) in [("acked", jobs), ("retried", 0), ("dead", 0), ("lost", 0)] {
        let mut sum = 0;
        for line in &lines {
            let count = line.field(field).as_u64();
            sum += count.with_context(|| format!("no {field} in {}", line.text()))?;
        }
        ensure!(sum == wanted, "{field} is {sum} and not {wanted} in the daemons' totals");
    }
    Ok(())
}
