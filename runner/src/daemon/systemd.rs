//! Reports the daemon's state and watchdog beats to systemd, if it asks for them.

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::MissedTickBehavior;
use tracing::debug;

use super::orphans::Orphans;
use crate::observe::health::{BEAT_EVERY, Health};

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
    let mut orphans = Orphans::default();
    loop {
        tick.tick().await;
        health.beat();
        if watchdog.is_some() {
            notify(&[NotifyState::Watchdog]);
        }
        orphans.reap();
    }
}
