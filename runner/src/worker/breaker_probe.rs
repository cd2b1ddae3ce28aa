//! What a worker does while the topic's breaker is open: it leases nothing and releases jobs that have not
//! started. The worker that leases the probe reports its result.

use std::num::NonZero;
use std::time::{Duration, Instant};

use duebox_job::{Outcome, format_duration};
use tracing::{info, warn};

use super::Worker;
use crate::deploy::binding::Binding;
use crate::deploy::breaker::{self, BreakerState, ProbeResult};
use crate::executor::{EndedJob, LeaseNumber};
use crate::monotonic;

/// The probe, as far as this worker is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    /// This worker has no probe.
    None,
    /// The next lease call asks for it.
    Requested,
    /// It is leased.
    Held(LeaseNumber),
}

impl Worker {
    /// How many of the wanted jobs the breaker allows.
    pub(super) fn allowed_by_breaker(&self, wanted: usize, now: Instant) -> usize {
        match self.parts.breaker.state() {
            BreakerState::Closed => wanted,
            BreakerState::Open { probe_at, .. } if probe_at <= now => wanted.min(1),
            BreakerState::Open { .. } | BreakerState::Probing { .. } => 0,
        }
    }

    /// Whether jobs may be leased now. While the breaker is open, this claims the probe.
    pub(super) fn may_lease(&mut self, now: Instant) -> bool {
        match self.parts.breaker.state() {
            BreakerState::Closed => true,
            BreakerState::Open { .. } | BreakerState::Probing { .. } => {
                let claimed = self.parts.breaker.claim_probe(now);
                if claimed {
                    self.probe = Probe::Requested;
                }
                claimed
            }
        }
    }

    /// When the breaker allows the next probe; `None` unless it is open.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        match self.parts.breaker.state() {
            BreakerState::Open { probe_at, .. } => Some(probe_at),
            BreakerState::Closed | BreakerState::Probing { .. } => None,
        }
    }

    /// Releases jobs that have not started while the breaker is open.
    pub(super) fn follow_breaker(&mut self) {
        self.breaker_changes.mark_unchanged();
        if matches!(self.parts.breaker.state(), BreakerState::Open { .. })
            && self.give_back(Duration::ZERO) > 0
        {
            self.look.more = true;
        }
    }

    /// Notes that a job was leased: it is the probe, if one was requested.
    pub(super) fn hold_probe(&mut self, lease: LeaseNumber) {
        if self.probe == Probe::Requested {
            self.probe = Probe::Held(lease);
        }
    }

    /// Returns a requested probe that was not leased.
    pub(super) fn drop_requested_probe(&mut self) {
        if self.probe == Probe::Requested {
            self.drop_probe();
        }
    }

    /// Notes that a job was released: if it was the probe, another job can be.
    pub(super) fn release_probe(&mut self, lease: LeaseNumber) {
        if self.probe == Probe::Held(lease) {
            self.drop_probe();
        }
    }

    /// Returns the probe of a worker that ends, if it has one.
    pub(super) fn give_up_probe(&mut self) {
        if self.probe != Probe::None {
            self.drop_probe();
        }
    }

    fn drop_probe(&mut self) {
        self.probe = Probe::None;
        self.parts.breaker.return_probe(monotonic::now());
    }

    /// Reports the result of the probe, if it is among the ended jobs.
    pub(super) fn report_probe(&mut self, ended: &[EndedJob], binding: &Binding) {
        if let Probe::Held(lease) = self.probe
            && let Some(probe) = ended.iter().find(|ended| ended.lease == lease)
        {
            self.end_probe(probe, binding);
        }
    }

    /// Logs that an attempt opened the breaker.
    pub(super) fn log_opened_breaker(&mut self, ended: &[EndedJob], binding: &Binding) {
        let Some(last) = ended.iter().find(|ended| ended.opened) else { return };
        self.look.more = true;
        let (class, reason) = match &last.outcome {
            Outcome::Failed(failure) => (Some(failure.class.name()), Some(failure.reason.as_str())),
            _ => (None, None),
        };
        let rule = &binding.topic.breaker;
        warn!(
            topic = %self.parts.shard.topic(), digest = %last.digest.short(), class, reason,
            "the breaker is open: {} attempts in a row failed. The topic's jobs wait and lose no attempt; \
            a probe runs in {}, or when another module serves",
            rule.failures.map_or(0, NonZero::get), format_duration(rule.probe)
        );
    }

    fn end_probe(&mut self, probe: &EndedJob, binding: &Binding) {
        let (topic, rule) = (self.parts.shard.topic(), &binding.topic.breaker);
        self.probe = Probe::None;
        let now = monotonic::now();
        let Some(failed) = breaker::is_module_failure(rule, &probe.outcome) else {
            return self.parts.breaker.return_probe(now);
        };
        match self.parts.breaker.record_probe(rule, failed, now) {
            ProbeResult::Closed => info!(%topic, "the breaker is closed: the probe did not fail"),
            ProbeResult::RoundFailed { jobs, next } => {
                warn!(%topic, "the breaker stays open: {jobs} of {jobs} probes failed; the next {next} run in {}",
                    format_duration(rule.probe));
            }
            ProbeResult::NextOfRound | ProbeResult::Ignored => {}
        }
    }
}
