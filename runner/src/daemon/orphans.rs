//! Orphans: processes whose parent has ended become children of process 1. If the daemon is that, as in a
//! container, it reaps them, but never a child that some of its own code still waits for.

use std::collections::BTreeSet;

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};
use tracing::debug;

/// The most orphans reaped at once.
#[cfg(target_os = "linux")]
const ORPHANS_MAX: usize = 16;

/// Ended children that no task waits for.
pub(super) struct Orphans {
    is_init: bool,
    /// Those found at the last look. Code that owns a child has waited for it since.
    seen: BTreeSet<i32>,
}

impl Default for Orphans {
    fn default() -> Self {
        Self { is_init: std::process::id() == 1, seen: BTreeSet::new() }
    }
}

impl Orphans {
    /// Reaps those that had ended at the last look, too.
    pub(super) fn reap(&mut self) {
        let ended =
            if self.is_init && has_ended_child() { ended_children() } else { BTreeSet::new() };
        for pid in ended.intersection(&self.seen).filter_map(|pid| Pid::from_raw(*pid)) {
            if let Err(error) = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
                debug!(%error, "an ended child was already reaped");
            }
        }
        self.seen = ended;
    }
}

/// Whether a child has ended and was not waited for; this does not reap it.
fn has_ended_child() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, options), Ok(Some(_)))
}

/// The ended children of this process; none outside Linux.
#[cfg(not(target_os = "linux"))]
fn ended_children() -> BTreeSet<i32> {
    BTreeSet::new()
}

/// The ended children of this process.
#[cfg(target_os = "linux")]
fn ended_children() -> BTreeSet<i32> {
    let Ok(processes) = procfs::process::all_processes() else { return BTreeSet::new() };
    let own = i32::try_from(std::process::id());
    let children = processes.filter_map(|process| process.ok()?.stat().ok());
    let ended = children.filter(|child| child.state == 'Z' && Ok(child.ppid) == own);
    ended.map(|child| child.pid).take(ORPHANS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_orphan_is_reaped_at_the_second_look() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        duebox_harness::eventually("it has ended", || ended_children().contains(&pid));
        let mut orphans = Orphans { is_init: true, seen: BTreeSet::new() };
        orphans.reap();
        assert!(ended_children().contains(&pid), "its parent may still wait for it");
        // The other tests of this process have children that they wait for.
        orphans.seen.retain(|seen| *seen == pid);
        orphans.reap();
        assert!(!ended_children().contains(&pid));
        assert!(child.wait().is_err(), "it was waited for");
    }

    #[test]
    fn only_process_1_reaps() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        duebox_harness::eventually("it has ended", || ended_children().contains(&pid));
        let mut orphans = Orphans { is_init: false, seen: BTreeSet::from([pid]) };
        orphans.reap();
        assert!(child.wait().unwrap().success());
    }
}
