//! The system around the process: systemd, which is told how far the daemon is and that it lives, where it
//! asks; and the duties of process 1 of a container, which inherits the children of others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};
use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;
use tracing::debug;

use crate::observe::health::{BEAT_EVERY, Health};

/// Children of others that are buried at one look.
const ORPHANS_A_LOOK: usize = 16;

/// The daemon serves, or serves again after a reload.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// The daemon looks at its manifest and its modules because somebody said so.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(error) => debug!(%error, "systemd is not told of the reload: there is no clock"),
    }
}

/// The daemon drains, and needs up to so long for it.
pub fn stopping(drain: Duration) {
    let us = u32::try_from(drain.as_micros()).unwrap_or(u32::MAX);
    tell(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(us)]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        debug!(%error, "NOTIFY_SOCKET is set, and nobody listens there");
    }
}

/// Says on the control threads that they turn, for ever: to who asks for [`Health`], and to systemd where
/// it wants that. As process 1, buries who was left to it.
pub async fn pulse(health: Arc<Health>) {
    let watchdog = sd_notify::watchdog_enabled();
    let every = watchdog.map_or(BEAT_EVERY, |allowed| BEAT_EVERY.min(allowed / 2));
    let mut tick = tokio::time::interval(every.max(Duration::from_millis(10)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut orphans = Orphans { is_init: std::process::id() == 1, seen: BTreeSet::new() };
    loop {
        tick.tick().await;
        health.beat();
        if watchdog.is_some() {
            tell(&[NotifyState::Watchdog]);
        }
        orphans.bury();
    }
}

/// Children that have ended and that nobody waits for.
struct Orphans {
    is_init: bool,
    /// Those that had ended at the last look. Whoever has children of their own has waited for them since.
    seen: BTreeSet<i32>,
}

impl Orphans {
    fn bury(&mut self) {
        let ended =
            if self.is_init && has_ended_child() { ended_children() } else { BTreeSet::new() };
        for pid in ended.intersection(&self.seen).filter_map(|pid| Pid::from_raw(*pid)) {
            if let Err(error) = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
                debug!(%error, "a child that had ended is gone already");
            }
        }
        self.seen = ended;
    }
}

/// Whether any child has ended and was not waited for; it stays one.
fn has_ended_child() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, options), Ok(Some(_)))
}

/// The children of this process that have ended, as `/proc` tells them.
fn ended_children() -> BTreeSet<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = std::process::id();
    pids.filter(|pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name, which may hold anything: the state and the parent.
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
        fields.starts_with(&format!("Z {own} "))
    })
    .take(ORPHANS_A_LOOK)
    .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_that_nobody_waits_for_is_buried_at_the_second_look() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        duebox_harness::eventually("it has ended", || ended_children().contains(&pid));
        let mut orphans = Orphans { is_init: true, seen: BTreeSet::new() };
        orphans.bury();
        assert!(ended_children().contains(&pid), "its parent may still want to wait for it");
        orphans.bury();
        assert!(!ended_children().contains(&pid));
        assert!(child.wait().is_err(), "it was waited for");
    }

    #[test]
    fn no_other_process_than_the_first_buries() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        duebox_harness::eventually("it has ended", || ended_children().contains(&pid));
        let mut orphans = Orphans { is_init: false, seen: BTreeSet::from([pid]) };
        orphans.bury();
        assert!(child.wait().unwrap().success());
    }
}
