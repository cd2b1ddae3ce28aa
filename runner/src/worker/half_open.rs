//! What the topic's breaker lets a worker do: while it is open nothing is leased and what has not started
//! is given back; the worker that gets to lease the probe tells what came of it.

use std::time::{Duration, Instant};

use duebox_job::{Outcome, format_duration};
use tracing::{info, warn};

use super::Worker;
use crate::deploy::binding::Binding;
use crate::deploy::breaker::{BreakerState, End};
use crate::executor::EndedJob;

/// What a worker has to do with the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    /// Nothing.
    None,
    /// It asks Redis for it.
    Requested,
    /// It has it, under this name.
    Held(u64),
}

impl Worker {
    /// Of so many jobs that are wanted, those that the breaker lets through.
    pub(super) fn allowed_by_breaker(&self, wanted: usize, now: Instant) -> usize {
        match self.parts.breaker.state() {
            BreakerState::Closed => wanted,
            BreakerState::Open { probe_at, .. } if probe_at <= now => wanted.min(1),
            BreakerState::Open { .. } | BreakerState::Probing { .. } => 0,
        }
    }

    /// Whether jobs may be leased now; where the breaker is open, this one becomes the probe.
    pub(super) fn may_lease(&mut self, now: Instant) -> bool {
        match self.parts.breaker.state() {
            BreakerState::Closed => true,
            BreakerState::Open { .. } | BreakerState::Probing { .. } => {
                let claimed = self.parts.breaker.claim(now);
                if claimed {
                    self.probe = Probe::Requested;
                }
                claimed
            }
        }
    }

    /// When the breaker lets the probe through, where it waits for that.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        match self.parts.breaker.state() {
            BreakerState::Open { probe_at, .. } => Some(probe_at),
            BreakerState::Closed | BreakerState::Probing { .. } => None,
        }
    }

    /// While the breaker is open, jobs that were leased before go back unstarted.
    pub(super) fn follow_breaker(&mut self) {
        self.breaker_changes.mark_unchanged();
        if matches!(self.parts.breaker.state(), BreakerState::Open { .. })
            && self.give_back(Duration::ZERO) > 0
        {
            self.more = true;
        }
    }

    /// A job was leased that can run: the probe, if one was asked for.
    pub(super) fn hold_probe(&mut self, key: u64) {
        if self.probe == Probe::Requested {
            self.probe = Probe::Held(key);
        }
    }

    /// The probe, if it was asked for, has not come.
    pub(super) fn drop_requested_probe(&mut self) {
        if self.probe == Probe::Requested {
            self.drop_probe();
        }
    }

    /// A job goes back unstarted; if it is the probe, another may be.
    pub(super) fn release_probe(&mut self, key: u64) {
        if self.probe == Probe::Held(key) {
            self.drop_probe();
        }
    }

    fn drop_probe(&mut self) {
        self.probe = Probe::None;
        self.parts.breaker.unclaim(Instant::now());
    }

    /// Tells the breaker what came of attempts, in their order.
    pub(super) fn report_to_breaker(&mut self, ended: &[EndedJob], binding: &Binding) {
        let (rule, now) = (binding.topic.breaker, Instant::now());
        let probe = self.probe;
        let is_probe = |ended: &&EndedJob| Probe::Held(ended.key) == probe;
        if let Some(probe) = ended.iter().find(is_probe) {
            self.report_probe(probe, binding);
        }
        let others = ended.iter().filter(|ended| !is_probe(ended));
        let opened = self.parts.breaker.ended(rule, others.filter_map(end_of), now);
        if opened {
            self.more = true;
            let last = ended.iter().rev().find_map(|ended| match &ended.outcome {
                Outcome::Failed(failure) => Some(failure),
                _ => None,
            });
            warn!(
                topic = %self.parts.topic, digest = %binding.handlers.main.digest().short(),
                class = last.map(|failure| failure.class.name()),
                reason = last.map(|failure| failure.reason.as_str()),
                "the breaker is open: {} attempts failed one after the other. The topic's jobs wait and lose no attempt; \
                one of them is tried in {}, or when another module serves",
                rule.failures, format_duration(rule.probe)
            );
        }
    }

    fn report_probe(&mut self, probe: &EndedJob, binding: &Binding) {
        let (topic, rule) = (&self.parts.topic, binding.topic.breaker);
        self.probe = Probe::None;
        let Some(End { failed, .. }) = end_of(probe) else {
            return self.parts.breaker.unclaim(Instant::now());
        };
        if self.parts.breaker.probed(rule, failed, Instant::now()) {
            info!(%topic, "the breaker is closed: the job that was tried did not fail");
        } else if failed {
            warn!(%topic, "the breaker stays open: the job that was tried failed; the next is tried in {}",
                format_duration(rule.probe));
        }
    }
}

/// What a breaker is to know of an attempt; nothing of a fault of the host. Who names the wait before the
/// next attempt knows what it does: a poll that finds nothing yet, a server that asks for a pause.
fn end_of(ended: &EndedJob) -> Option<End> {
    let failed = match &ended.outcome {
        Outcome::HostFault(_) => return None,
        Outcome::Failed(failure) => failure.retry_after.is_none(),
        Outcome::Acked | Outcome::Snoozed { .. } => false,
    };
    Some(End { started_at: ended.started_at, failed })
}
