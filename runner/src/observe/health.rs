//! The health of the daemon: its phase, whether its control threads are responsive, which tasks are down,
//! and whether the manifest on disk is in service. The daemon writes it; probes, metrics and systemd read it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::counters::{add, read};
use super::supervision::Supervision;
use crate::millis::millis;
use parking_lot::{Mutex, MutexGuard};

/// How often the control threads report.
pub const BEAT_EVERY: Duration = Duration::from_secs(1);
/// After so long without a report the process counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The longest reason, in bytes.
const REASON_MAX: usize = 4 << 10;

/// The phase of the daemon's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It does not serve yet.
    Starting,
    /// It serves.
    Serving,
    /// It leases no more jobs and finishes those it has.
    Draining,
}

/// The health of this process.
#[derive(Debug)]
pub struct Health {
    phase: AtomicU8,
    began_at: Instant,
    /// When the control threads last reported, in ms since the start.
    beat_at_ms: AtomicU64,
    manifest: Mutex<ManifestState>,
    applied: AtomicU64,
    refused: AtomicU64,
    supervision: Supervision,
}

#[derive(Debug)]
struct ManifestState {
    /// Why the manifest on disk is not in service, if it is not.
    refused: Option<String>,
    /// When the manifest in service was applied, in unix seconds.
    since: f64,
}

impl Default for Health {
    fn default() -> Self {
        let since = now_seconds();
        Self {
            phase: AtomicU8::new(Phase::Starting as u8),
            began_at: Instant::now(),
            beat_at_ms: AtomicU64::new(0),
            manifest: Mutex::new(ManifestState { refused: None, since }),
            applied: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            supervision: Supervision::default(),
        }
    }
}

impl Health {
    /// The tasks of the daemon.
    pub fn supervision(&self) -> &Supervision {
        &self.supervision
    }

    /// The current phase.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }

    /// Sets the phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Reports that a control thread runs.
    pub fn beat(&self) {
        let ms = millis(self.began_at.elapsed());
        self.beat_at_ms.store(ms, Ordering::Relaxed);
    }

    /// The time since the last report of a control thread.
    pub fn silence(&self) -> Duration {
        let beat = Duration::from_millis(self.beat_at_ms.load(Ordering::Relaxed));
        self.began_at.elapsed().saturating_sub(beat)
    }

    /// False if the control threads have not reported for 30 s.
    pub fn is_alive(&self) -> bool {
        self.silence() < SILENCE_MAX
    }

    /// Records that a changed manifest is in service.
    pub fn record_applied_manifest(&self) {
        add(&self.applied, 1);
        *self.manifest() = ManifestState { refused: None, since: now_seconds() };
    }

    /// Records that the manifest on disk was refused; the previous one stays in service.
    pub fn record_refused_manifest(&self, reason: &str) {
        add(&self.refused, 1);
        let reason = reason[..reason.floor_char_boundary(REASON_MAX)].to_owned();
        self.manifest().refused = Some(reason);
    }

    /// Why the manifest on disk is not in service, if it is not.
    pub fn manifest_trouble(&self) -> Option<String> {
        self.manifest().refused.clone()
    }

    /// When the manifest in service was applied, in unix seconds.
    pub fn manifest_since(&self) -> f64 {
        self.manifest().since
    }

    /// How many changed manifests were applied, and how many were refused.
    pub fn manifest_reloads(&self) -> (u64, u64) {
        (read(&self.applied), read(&self.refused))
    }

    fn manifest(&self) -> MutexGuard<'_, ManifestState> {
        self.manifest.lock()
    }
}

fn now_seconds() -> f64 {
    jiff::Timestamp::now().as_millisecond() as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_manifest_is_trouble_until_a_good_one_comes() {
        let health = Health::default();
        assert_eq!(health.manifest_trouble(), None);
        health.record_refused_manifest(&"ä".repeat(REASON_MAX));
        assert_eq!(health.manifest_trouble().unwrap().len(), REASON_MAX);
        health.record_applied_manifest();
        assert_eq!((health.manifest_trouble(), health.manifest_reloads()), (None, (1, 1)));
    }

    #[test]
    fn phases_read_back_as_they_were_set() {
        let health = Health::default();
        for phase in [Phase::Starting, Phase::Serving, Phase::Draining] {
            health.enter(phase);
            assert_eq!(health.phase(), phase);
        }
        health.beat();
        assert!(health.is_alive());
    }
}
