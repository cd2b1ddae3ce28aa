//! Process supervision: reports the daemon's state and watchdog beats to systemd, if it asks for them. As
//! process 1 of a container, it also reaps orphaned processes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};
use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;
use tracing::debug;

use crate::observe::health::{BEAT_EVERY, Health};

/// The most orphans reaped at once.
const ORPHANS_MAX: usize = 16;

/// Reports that the daemon serves, also after a reload.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Reports a reload by signal.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => debug!(%error, "cannot report the reload to systemd: no clock"),
    }
}

/// Reports a drain that may take so long.
pub fn stopping(drain: Duration) {
    let us = u32::try_from(drain.as_micros()).unwrap_or(u32::MAX);
    notify(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(us)]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        debug!(%error, "cannot write to NOTIFY_SOCKET");
    }
}

/// Reports that the control threads run, to [`Health`] and to systemd's watchdog, until the task is
/// aborted. As process 1 it also reaps orphans.
pub async fn beat(health: Arc<Health>) {
    let watchdog = sd_notify::watchdog_enabled();
    let every = watchdog.map_or(BEAT_EVERY, |allowed| BEAT_EVERY.min(allowed / 2));
    let mut tick = tokio::time::interval(every.max(Duration::from_millis(10)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut orphans = Orphans { is_init: std::process::id() == 1, seen: BTreeSet::new() };
    loop {
        tick.tick().await;
        health.beat();
        if watchdog.is_some() {
            notify(&[NotifyState::Watchdog]);
        }
        orphans.reap();
    }
}

/// Ended children that no task waits for.
struct Orphans {
    is_init: bool,
    /// Those found at the last look. Code that owns a child has waited for it since.
    seen: BTreeSet<i32>,
}

impl Orphans {
    fn reap(&mut self) {
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

/// The ended children of this process, according to `/proc`.
fn ended_children() -> BTreeSet<i32> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let own = std::process::id();
    pids.filter(|pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name may contain anything; the state and the parent follow it.
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
        fields.starts_with(&format!("Z {own} "))
    })
    .take(ORPHANS_MAX)
    .collect()
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
