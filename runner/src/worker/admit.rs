//! Admits leased jobs: each runs exactly as it was pushed, or not at all.

use std::time::{Duration, Instant};

use duebox_job::{Failure, FailureClass, Outcome};
use duebox_queue::{Lease, LeaseCall, Leased, LeasedJobs};
use duebox_sandbox::Invocation;
use tracing::warn;

use super::Worker;
use super::unsettled::JudgedJob;
use super::verdict::EndedAttempt;
use crate::deploy::binding::{self, Binding};
use crate::executor::{AttemptOutput, QueuedJob, Snoozes};
use crate::monotonic;
use crate::observe::attempt_record::AttemptRecord;
use crate::observe::counters::{Fate, add};
use crate::observe::events::EventKind;

/// The wait for the limits of a topic that Redis has lost.
const LIMITS_WRITTEN_IN: Duration = Duration::from_millis(50);

impl Worker {
    /// Takes the reply to a lease call that was sent at `sent_at`, which is `asked_at_us` on Redis' clock, if that is known.
    /// If the reply to an earlier try was lost, the leases are older than this try.
    pub(super) fn take_leases(
        &mut self,
        leased: Leased,
        call: &LeaseCall,
        sent_at: Instant,
        asked_at_us: Option<u64>,
    ) {
        let LeasedJobs { leases, removed, expired, wait, suspects } = match leased {
            Leased::Jobs(jobs) => jobs,
            Leased::Empty { wait } | Leased::Limited { wait } => {
                LeasedJobs { wait, ..LeasedJobs::default() }
            }
            Leased::NoLimits => {
                // They are written again, before anything is leased.
                self.parts.services.lost_limits.record(self.parts.shard.topic());
                self.look.at = self.look.at.min(monotonic::now() + LIMITS_WRITTEN_IN);
                return;
            }
            Leased::Late => {
                // The promotion of the same turn has told the time of Redis: the next call is in time.
                self.look.more = true;
                return;
            }
            Leased::Paused => {
                // Jobs that have not started wait for the end of the pause.
                self.give_back(Duration::ZERO);
                return;
            }
        };
        self.look.suspects = suspects > 0;
        if let Some(wait) = wait {
            self.look.at = self.look.at.min(monotonic::now() + wait);
        }
        self.look.more |= leases.len() == call.jobs || removed + expired > 0;
        if !leases.is_empty() {
            self.parts.batch_limits.record_jobs(leases.len(), monotonic::now());
        }
        self.report_expired(expired, call);
        add(&self.parts.stats.counters.leased, leases.len());
        let binding = binding::current(&self.parts.bound);
        let lease_us = u64::try_from(call.lease.as_micros()).unwrap_or(u64::MAX);
        let expires_at_us = leases.first().map_or(0, |lease| lease.token.expires_at_us());
        let leased_at_us = expires_at_us.saturating_sub(lease_us);
        let age_us = asked_at_us.map_or(0, |asked_at_us| asked_at_us.saturating_sub(leased_at_us));
        let age = Duration::from_micros(age_us);
        let leased_at = sent_at.checked_sub(age).unwrap_or(sent_at);
        let mut jobs = Vec::with_capacity(leases.len());
        for lease in leases {
            self.prefetch.record_payload(lease.payload.len());
            match self.admit(lease, &binding, call.lease, leased_at) {
                Some(job) => jobs.push(job),
                None => self.look.more = true,
            }
        }
        self.parts.executor.push(jobs);
    }

    /// Makes a leased job ready for the executor, or settles it if it cannot run as it was pushed.
    fn admit(
        &mut self,
        mut lease: Lease,
        binding: &Binding,
        lasts: Duration,
        leased_at: Instant,
    ) -> Option<QueuedJob> {
        let attempt = lease.failures.saturating_add(1);
        let options = match &lease.options {
            Ok(options) => options,
            Err(reason) => {
                let reason = format!("the job's options are invalid: {reason}");
                self.settle_unrun(lease, binding, attempt, reason);
                return None;
            }
        };
        let (bytes, allowed) = (lease.payload.len(), binding.topic.limits.payload);
        if bytes > allowed {
            let reason = format!(
                "the payload has {bytes} bytes; the topic allows {allowed} (sandbox.payload)"
            );
            self.settle_unrun(lease, binding, attempt, reason);
            return None;
        }
        let max_attempts = options.max_attempts().unwrap_or(binding.topic.retries.max_attempts);
        let snoozes = Snoozes {
            had: lease.snoozes,
            max: options.max_snoozes().unwrap_or(binding.topic.retries.max_snoozes),
        };
        let headers = options.headers().clone();
        let invocation = Invocation {
            id: lease.id.clone(),
            topic: self.parts.shard.topic().clone(),
            // Settling does not need the payload.
            payload: std::mem::take(&mut lease.payload),
            attempt,
            max_attempts,
            due_at_ms: lease.due_at_ms,
            headers,
            ttr: options.ttr().unwrap_or(binding.topic.ttr),
            span: self.parts.services.traces.attempt_span(options.headers()),
        };
        let (lease, interrupt) = self.in_flight.add(lease, attempt, lasts, leased_at);
        self.hold_probe(lease);
        Some(QueuedJob { lease, invocation, interrupt, snoozes })
    }

    /// Settles a job that was not run. A payload over the limit has the class of invalid options, too: both are wrong
    /// as they were pushed.
    fn settle_unrun(&mut self, lease: Lease, binding: &Binding, attempt: u32, reason: String) {
        let class = FailureClass::BadOptions;
        let outcome = Outcome::Failed(Failure { class, reason, retry_after: None });
        let ended = EndedAttempt {
            topic: &binding.topic,
            options: None,
            number: attempt,
            snoozes: lease.snoozes,
            digest: None,
            wall: Duration::ZERO,
            runner: &self.parts.services.runner_id,
            started_at_ms: None,
        };
        let verdict = ended.verdict(&outcome, AttemptOutput::default());
        let record = AttemptRecord::not_run(lease.id.clone(), attempt, outcome);
        let settlement = lease.settle(verdict);
        self.unsettled.jobs.push(JudgedJob { settlement, record, recording: None });
    }

    fn report_expired(&self, jobs: u64, call: &LeaseCall) {
        if jobs > 0 {
            let fate = if call.expired_info.is_some() { Fate::Dead } else { Fate::Discard };
            self.parts.stats.counters.count_failed(fate, FailureClass::Expired, jobs as usize);
            add(&self.parts.stats.counters.expired, jobs as usize);
            let class = Some(FailureClass::Expired);
            self.parts.services.events.report_several(
                self.parts.shard.topic(),
                jobs,
                EventKind::Expired,
                class,
            );
            warn!(topic = %self.parts.shard.topic(), jobs, class = FailureClass::Expired.name(),
                "expired: not started within their ttl after the due time");
        }
    }
}
