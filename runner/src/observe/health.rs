//! What the daemon knows of its own health: how far it is in its life, whether its control threads still
//! turn, and whether the manifest on disk is the one in service. Written by the daemon, read by probes,
//! metrics and the system that supervises it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::counters::{add, read};

/// How often the control threads say that they turn.
pub const BEAT_EVERY: Duration = Duration::from_secs(1);
/// How long they may be silent before the process counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The longest reason that is kept, in bytes.
const REASON_MAX: usize = 4 << 10;

/// How far the daemon is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It does not serve yet.
    Starting,
    /// It serves.
    Serving,
    /// It takes no more jobs and finishes those it has.
    Draining,
}

/// The health of this process.
#[derive(Debug)]
pub struct Health {
    phase: AtomicU8,
    began_at: Instant,
    /// When the control threads last turned, in ms since the beginning.
    beat_at_ms: AtomicU64,
    manifest: Mutex<ManifestState>,
    applied: AtomicU64,
    refused: AtomicU64,
}

#[derive(Debug)]
struct ManifestState {
    /// Why the manifest on disk is not the one in service, if it is not.
    refused: Option<String>,
    /// When the one in service was taken, in unix seconds.
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
        }
    }
}

impl Health {
    /// How far the daemon is.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }

    /// It is that far now.
    pub fn enters(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// A control thread turns.
    pub fn beat(&self) {
        let ms = u64::try_from(self.began_at.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.beat_at_ms.store(ms, Ordering::Relaxed);
    }

    /// How long ago a control thread last turned.
    pub fn silence(&self) -> Duration {
        let beat = Duration::from_millis(self.beat_at_ms.load(Ordering::Relaxed));
        self.began_at.elapsed().saturating_sub(beat)
    }

    /// False if no control thread has turned for so long that none ever will.
    pub fn is_alive(&self) -> bool {
        self.silence() < SILENCE_MAX
    }

    /// A changed manifest is in service.
    pub fn manifest_applied(&self) {
        add(&self.applied, 1);
        *self.manifest() = ManifestState { refused: None, since: now_seconds() };
    }

    /// The manifest on disk was refused; the one before serves on.
    pub fn manifest_refused(&self, reason: &str) {
        add(&self.refused, 1);
        let reason = reason[..reason.floor_char_boundary(REASON_MAX)].to_owned();
        self.manifest().refused = Some(reason);
    }

    /// Why the manifest on disk is not the one in service, if it is not.
    pub fn manifest_trouble(&self) -> Option<String> {
        self.manifest().refused.clone()
    }

    /// When the manifest in service was taken, in unix seconds.
    pub fn manifest_since(&self) -> f64 {
        self.manifest().since
    }

    /// How often a changed manifest was taken, and how often one was refused.
    pub fn manifest_reloads(&self) -> (u64, u64) {
        (read(&self.applied), read(&self.refused))
    }

    fn manifest(&self) -> MutexGuard<'_, ManifestState> {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner)
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
        health.manifest_refused(&"ä".repeat(REASON_MAX));
        assert_eq!(health.manifest_trouble().unwrap().len(), REASON_MAX);
        health.manifest_applied();
        assert_eq!((health.manifest_trouble(), health.manifest_reloads()), (None, (1, 1)));
    }

    #[test]
    fn phases_are_told_as_they_were_entered() {
        let health = Health::default();
        for phase in [Phase::Starting, Phase::Serving, Phase::Draining] {
            health.enters(phase);
            assert_eq!(health.phase(), phase);
        }
        health.beat();
        assert!(health.is_alive());
    }
}
