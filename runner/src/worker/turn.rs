//! One turn: settles, renewals and leases go out in one pipeline, and its replies are applied.

use std::num::NonZero;
use std::time::{Duration, Instant};

use duebox_job::{FailureClass, Outcome, Policy};
use duebox_queue::{
    BATCH_MAX, CALL_BYTES_MAX, LeaseCall, Promoted, Promotion, QueueError, ReclaimRule, Reclaimed,
    Settled, Token, Turn, TurnReply, Verdict,
};
use tracing::{error, warn};

use super::in_flight::Renewal;
use super::prefetch::LEASED_BYTES_MAX;
use super::settled::SettledJobs;
use super::under_way::Parts;
use super::unsettled::{JudgedJob, Unsettled};
use super::verdict::{EndedAttempt, buried_info};
use super::{RECLAIM_EVERY, SLEEP_MAX, Worker};
use crate::deploy::binding::{self, Binding};
use crate::executor::EndedJob;
use crate::monotonic;
use crate::observe::attempt_record::AttemptRecord;
use crate::observe::counters::{Fate, add};
use crate::observe::events::EventKind;
use crate::observe::log::attempt_log::{log_reclaimed, log_trace};
use crate::observe::sick_topics::TopicLoop;
use crate::redis_host::outage::{self, RETRY_FIRST};

/// The content of one turn, kept until Redis replies.
pub(super) struct Plan {
    parts: Parts,
    renewals: Vec<Renewal>,
    verdicts: Unsettled,
    lease: Option<LeaseCall>,
    promotes: bool,
    reclaims: bool,
    /// The most jobs to settle, and to promote.
    batch_max: usize,
    skip: u64,
    max_crashes: NonZero<u32>,
    renewed_within: Duration,
    crashed_info: Option<String>,
    discards_bad: bool,
}

impl Worker {
    /// Takes ended jobs, as many as fit into a turn, and judges them.
    pub(super) fn judge_ended(&mut self, now: Instant) {
        let room = self.parts.batch_limits.batch_max(now).saturating_sub(self.unsettled.jobs.len());
        let (ended, busy) = self.parts.executor.take_ended(room, CALL_BYTES_MAX);
        let slowest = ended.iter().map(|ended| ended.cost.wall).max().unwrap_or_default();
        self.prefetch.record_ended(ended.len(), slowest, busy, now);
        self.unsettled.settle_at = None;
        if ended.is_empty() {
            return;
        }
        let binding = binding::current(&self.parts.bound);
        self.report_probe(&ended, &binding);
        self.log_opened_breaker(&ended, &binding);
        let earlier = self.unsettled.jobs.len();
        for ended in ended {
            self.judge(ended, &binding);
        }
        self.count_attempts(&self.unsettled.jobs[earlier..]);
    }

    fn count_attempts(&self, judged: &[JudgedJob]) {
        let attempts = judged.iter().map(|job| &job.record);
        for record in attempts.clone().filter(|record| record.digest.is_some()) {
            self.parts.stats.counters.late.add(record.late);
            self.parts.stats.counters.ran.add(record.cost.wall);
        }
        self.parts.stats.module_stats.record_runs(attempts.filter_map(AttemptRecord::module_run));
    }

    fn judge(&mut self, mut ended: EndedJob, binding: &Binding) {
        let Some(held) = self.in_flight.take(ended.lease) else { return };
        if let Some(trace) = &ended.output.trace {
            log_trace(self.parts.shard.topic(), &held.lease.id, held.attempt, trace);
        }
        let traced = ended.output.traced.take();
        let recording = ended.output.recording.take();
        let digest = Some(ended.digest);
        let log = ended.output.log_tail.clone();
        let is_fault = matches!(ended.outcome, Outcome::HostFault(_));
        let mut max_attempts = None;
        let verdict = if is_fault && held.interrupt.reason().is_some() {
            // The runner interrupted it, not the job's own limits: another runner may have it at once.
            Verdict::Release { delay: Duration::ZERO }
        } else {
            let attempt = EndedAttempt {
                topic: &binding.topic,
                options: held.lease.options.as_ref().ok(),
                number: held.attempt,
                snoozes: held.lease.snoozes,
                digest,
                wall: ended.cost.wall,
                runner: &self.parts.services.runner_id,
                started_at_ms: self.clock.latest_us_at(ended.started_at).map(|us| us / 1_000),
            };
            self.unsettled.follow_ups |= !ended.output.follow_ups.is_empty();
            for follow_up in &mut ended.output.follow_ups {
                follow_up.name_parent(self.parts.shard.topic(), &held.lease.id);
            }
            max_attempts = Some(attempt.max_attempts());
            attempt.verdict(&ended.outcome, ended.output)
        };
        let record = AttemptRecord {
            id: held.lease.id.clone(),
            attempt: held.attempt,
            outcome: ended.outcome,
            digest,
            cost: ended.cost,
            late: self.clock.late(held.lease.due_at_ms, ended.started_at),
            max_attempts,
            next_in: next_in(&verdict),
            log,
            started_at: ended.started_at,
            traced,
            is_routine: false,
        };
        let settlement = held.lease.settle(verdict);
        self.unsettled.jobs.push(JudgedJob { settlement, record, recording });
    }

    pub(super) fn plan(&mut self, parts: Parts, now: Instant) -> Plan {
        let batch_max = self.parts.batch_limits.batch_max(now);
        let verdicts = parts.has_verdicts().then(|| self.plan_verdicts(batch_max, now));
        let (renewals, verdicts) = verdicts.unwrap_or_default();
        let (lease, promotes) = match parts.has_leases() {
            true => self.plan_lease(now),
            false => (None, false),
        };
        let binding = binding::current(&self.parts.bound);
        Plan {
            parts,
            renewals,
            verdicts,
            lease,
            promotes,
            reclaims: promotes && now >= self.look.reclaim_at,
            batch_max,
            skip: self.look.skip,
            max_crashes: binding.topic.retries.max_crashes,
            renewed_within: self.retry_max(),
            crashed_info: buried_info(&binding.topic, FailureClass::Crashed),
            discards_bad: binding.topic.policy(FailureClass::BadDue) == Policy::Discard,
        }
    }

    /// The leases to renew, and the verdicts to settle.
    fn plan_verdicts(&mut self, batch_max: usize, now: Instant) -> (Vec<Renewal>, Unsettled) {
        let renewals = self.in_flight.due_renewals(now, BATCH_MAX);
        (renewals, self.unsettled.take(batch_max))
    }

    /// The lease call, and whether to promote.
    fn plan_lease(&mut self, now: Instant) -> (Option<LeaseCall>, bool) {
        let wanted = self.lease_size(self.parts.executor.load(), now);
        // The first turn of a worker leases nothing: a lease call names its last moment, and so needs the clock of Redis.
        let learns_clock = wanted.jobs > 0 && self.clock.us_at(now).is_none();
        let lease = (wanted.jobs > 0 && !learns_clock && self.may_lease(now)).then(|| {
            self.calls += 1;
            let binding = binding::current(&self.parts.bound);
            LeaseCall {
                jobs: wanted.jobs,
                at_once: wanted.at_once,
                lease: binding.lease,
                call_id: format!("{}:{}", self.parts.services.runner_id, self.calls),
                bytes_max: Some(LEASED_BYTES_MAX),
                min_age: Duration::ZERO,
                expired_info: buried_info(&binding.topic, FailureClass::Expired),
                needs_limits: binding.topic.limits().hold_for_leases(),
                last_at_ms: None,
            }
        });
        let promotes = lease.is_some() || learns_clock;
        (lease, promotes)
    }

    pub(super) fn apply_reply(&mut self, plan: Plan, reply: TurnReply, sent_at: Instant) {
        self.report_settled();
        let now = monotonic::now();
        let TurnReply {
            extended,
            settled,
            reclaimed,
            promoted,
            promoted_at_us,
            leased,
            is_repeated,
            error,
        } = reply;
        match extended {
            Some(tokens) => self.apply_extensions(&plan.renewals, &tokens),
            None if plan.renewals.is_empty() => {}
            None => self.in_flight.beat_again_at(now + self.retry),
        }
        match settled {
            Some(became) => self.take_settled(plan.verdicts, became),
            None if plan.verdicts.jobs.is_empty() => {}
            None => self.keep_verdicts(plan.verdicts, is_repeated, error.as_ref()),
        }
        if let Some(reclaimed) = reclaimed {
            self.apply_reclaimed(reclaimed, now);
        }
        if plan.promotes {
            // Leases with an unknown expiry are found by the poller.
            self.look.at = self.look.expiry.unwrap_or(now + SLEEP_MAX);
            self.look.more = plan.lease.is_none();
        }
        if let (Some(promoted), Some(promoted_at_us)) = (promoted, promoted_at_us) {
            self.clock.add_sample(sent_at, now, promoted_at_us);
            self.apply_promoted(promoted, plan.skip, now, promoted_at_us);
            self.report_bad_dues(promoted.bad, plan.discards_bad);
        }
        if let (Some(leased), Some(call)) = (leased, plan.lease) {
            // Without the time of a promotion that failed, the clock of Redis as this process knows it.
            let asked_at_us = promoted_at_us.or_else(|| self.clock.us_at(sent_at));
            self.take_leases(leased, &call, sent_at, asked_at_us);
        }
        match error {
            Some(error) => self.back_off(&error, now),
            // The part that failed is not in this turn.
            None if plan.parts != Parts::Both && self.has_failed() => {}
            None => {
                (self.retry, self.retry_from) = (RETRY_FIRST, None);
                self.unsettled.is_apart = false;
                let services = &self.parts.services;
                services.sick_topics.record_success(&self.parts.shard, TopicLoop::Work);
                services.outage.record_write();
            }
        }
    }

    fn apply_extensions(&mut self, renewals: &[Renewal], tokens: &[Option<Token>]) {
        for (renewal, token) in renewals.iter().zip(tokens) {
            if !self.in_flight.apply_extension(renewal, token.as_ref()) {
                // A drain gave the job back while the turn was under way.
                self.unsettled.apply_extension(&renewal.extension, token.as_ref());
            }
        }
    }

    /// Takes what became of verdicts, which is reported next to the next turn.
    fn take_settled(&mut self, mut verdicts: Unsettled, became: Vec<Settled>) {
        self.collect_recordings(&mut verdicts.jobs, &became);
        self.unreported = Some(SettledJobs { judged: verdicts.jobs, became });
        if verdicts.follow_ups {
            self.parts.services.relay.mark_due(&self.parts.shard);
        }
    }

    /// Keeps refused verdicts for the next turn, unless the error is final.
    fn keep_verdicts(
        &mut self,
        mut verdicts: Unsettled,
        is_repeated: bool,
        error: Option<&QueueError>,
    ) {
        if error.is_some_and(QueueError::is_final) {
            error!(topic = %self.parts.shard.topic(), jobs = verdicts.jobs.len(), error = ?error,
                "Redis refused verdicts with a permanent error; their leases expire and the jobs run again");
            return;
        }
        verdicts.may_be_settled |= is_repeated;
        self.unsettled.is_apart |= error.is_some_and(QueueError::is_of_topic);
        self.unsettled.put_back(verdicts);
    }

    fn apply_reclaimed(&mut self, reclaimed: Reclaimed, now: Instant) {
        self.look.expiry = reclaimed.next_expiry_in.map(|wait| now + wait);
        let soon = now + RECLAIM_EVERY;
        self.look.reclaim_at = self.look.expiry.map_or(soon, |expiry| expiry.min(soon));
        let counters = &self.parts.stats.counters;
        add(&counters.reclaimed, reclaimed.jobs.len());
        for (id, became) in reclaimed.jobs {
            match became {
                Settled::Dead => counters.count_failed(Fate::Dead, FailureClass::Crashed, 1),
                Settled::Discarded => {
                    counters.count_failed(Fate::Discard, FailureClass::Crashed, 1)
                }
                _ => {}
            }
            let (topic, events) = (self.parts.shard.topic(), &self.parts.services.events);
            log_reclaimed(topic, &id, became);
            match EventKind::of(became) {
                Some(event @ (EventKind::Dead | EventKind::Discarded)) => {
                    events.report_failed(topic, &id, event, FailureClass::Crashed);
                }
                _ => events.report(topic, &id, EventKind::Reclaimed),
            }
        }
    }

    fn apply_promoted(&mut self, promoted: Promoted, skip: u64, now: Instant, now_us: u64) {
        if let Some(wait) = promoted.next_due_in {
            // The wait counts from the start of the millisecond in which Redis promoted.
            self.look.at = self.look.at.min(self.clock.start_of_ms(now_us, now) + wait);
        }
        self.look.skip = if promoted.more { skip.saturating_add(promoted.skipped) } else { 0 };
        self.look.more |= promoted.more;
    }

    fn report_bad_dues(&self, jobs: u64, are_discarded: bool) {
        if jobs > 0 {
            let fate = if are_discarded { Fate::Discard } else { Fate::Dead };
            self.parts.stats.counters.count_failed(fate, FailureClass::BadDue, jobs as usize);
            let event = if are_discarded { EventKind::Discarded } else { EventKind::Dead };
            let class = Some(FailureClass::BadDue);
            self.parts.services.events.report_several(self.parts.shard.topic(), jobs, event, class);
            warn!(topic = %self.parts.shard.topic(), jobs, class = FailureClass::BadDue.name(),
                "{event}: their due time is not a unix time in milliseconds");
        }
    }

    /// The last turns had an error, and none with both parts has succeeded since.
    pub(super) fn has_failed(&self) -> bool {
        self.retry != RETRY_FIRST
    }

    fn back_off(&mut self, error: &QueueError, now: Instant) {
        let services = &self.parts.services;
        self.retry_from = if error.is_of_topic() {
            services.sick_topics.record_error(&self.parts.shard, TopicLoop::Work, error);
            None
        } else {
            services.outage.record_error(error);
            Some(now + RETRY_FIRST)
        };
        self.retry = outage::next_retry(self.retry).min(self.retry_max());
        self.not_before = now + self.retry;
        self.look.at = self.look.at.min(self.not_before);
    }
}

/// How long after a verdict the next attempt is due, if the verdict asks for one.
fn next_in(verdict: &Verdict) -> Option<Duration> {
    match verdict {
        Verdict::Nack { delay, .. } | Verdict::Snooze { delay, .. } => Some(*delay),
        _ => None,
    }
}

impl Plan {
    pub(super) fn parts(&self) -> Parts {
        self.parts
    }

    pub(super) fn is_full(&self) -> bool {
        self.verdicts.jobs.len() >= self.batch_max
    }

    /// Names the last moment at which Redis may lease, as the clock of Redis is known.
    pub(super) fn lease_until(&mut self, last_at_us: Option<u64>) {
        if let Some(lease) = &mut self.lease {
            lease.last_at_ms = last_at_us.map(|us| us / 1_000);
        }
    }

    pub(super) fn turn<'a>(&'a self, holder: &'a str, is_repeated: bool) -> Turn<'a> {
        let reclaim = || ReclaimRule {
            max_crashes: Some(self.max_crashes),
            delay: Duration::ZERO,
            info: self.crashed_info.as_deref(),
            renewed_within: self.renewed_within,
        };
        Turn {
            holder,
            extend: self.renewals.iter().map(|renewal| &renewal.extension).collect(),
            settle: self.verdicts.jobs.iter().map(|job| &job.settlement).collect(),
            reclaim: self.reclaims.then(reclaim),
            promote: self.promotes.then_some(Promotion {
                jobs: self.batch_max,
                skip: self.skip,
                discards_bad: self.discards_bad,
            }),
            lease: self.lease.as_ref(),
            is_repeated: is_repeated || self.verdicts.may_be_settled,
        }
    }
}
