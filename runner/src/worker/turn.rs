//! One turn: what has ended, what is to be renewed and what is wanted, in one pipeline; and what its
//! answers mean.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_job::{FailureClass, JobId, Outcome, Policy};
use duebox_queue::{
    BATCH_MAX, Extension, LeaseCall, Promoted, Promotion, QueueError, ReclaimRule, Reclaimed,
    Settled, Settlement, Turn, TurnReply, Verdict,
};
use tracing::{error, info, warn};

use super::verdict::{Attempt, buried_info};
use super::{DRAIN_GRACE, RECLAIM_EVERY, SLEEP_MAX, Worker};
use crate::deploy::binding::{self, Binding};
use crate::executor::Ended;
use crate::observe::counters::{Fate, add};
use crate::observe::log;
use crate::observe::log::attempt_log::Record;
use crate::redis_host::outage::{self, RETRY_FIRST};

/// What one turn is made of; kept until it has an answer.
struct Plan {
    keys: Vec<u64>,
    extend: Vec<Extension>,
    settle: Vec<Settlement>,
    records: Vec<Record>,
    lease: Option<LeaseCall>,
    looks: bool,
    reclaims: bool,
    /// Jobs that it takes of each kind.
    batch_max: usize,
    skip: u64,
    max_crashes: u32,
    crashed_info: Option<String>,
    discards_bad: bool,
    follow_ups: bool,
}

impl Worker {
    pub(super) async fn take_turn(&mut self, now: Instant) {
        self.take_ended(now);
        let plan = self.plan(now);
        let is_full = plan.settle.len() >= plan.batch_max;
        if let Some((reply, sent_at)) = self.send(&plan).await {
            self.apply(plan, reply, sent_at);
        }
        self.give_up_asked_probe();
        if is_full && self.drain_until.is_none() {
            let ended = Instant::now();
            let rest = self.parts.member.rest(ended - now, ended);
            self.not_before = self.not_before.max(ended + rest);
        }
    }

    /// Takes the verdicts of jobs that have ended, as many as fit into a turn.
    fn take_ended(&mut self, now: Instant) {
        let room = self.parts.member.batch_max(now).saturating_sub(self.verdicts.len());
        let (ended, busy) = self.parts.lanes.take_ended(room);
        let slowest = ended.iter().map(|ended| ended.cost.wall).max().unwrap_or_default();
        self.pace.saw_ended(ended.len(), slowest, busy, now);
        self.settle_at = None;
        if ended.is_empty() {
            return;
        }
        let binding = binding::current(&self.parts.bound);
        self.tell_breaker(&ended, &binding);
        let judged = self.records.len();
        for ended in ended {
            self.judge(ended, &binding);
        }
        let attempts = self.records[judged..].iter();
        for record in attempts.clone().filter(|record| record.digest.is_some()) {
            self.parts.counters.late.add(record.late);
            self.parts.counters.ran.add(record.cost.wall);
        }
        self.parts.figures.ran_all(attempts.filter_map(Record::ran));
    }

    fn judge(&mut self, mut ended: Ended, binding: &Binding) {
        let Some(held) = self.in_flight.take(ended.key) else { return };
        let traced = ended.remains.traced.take();
        let digest = Some(ended.digest);
        let is_fault = matches!(ended.outcome, Outcome::HostFault(_));
        let verdict = if is_fault && held.interrupt.reason().is_some() {
            // Its time was over, not its attempt: others may have it at once.
            Verdict::Release { delay: Duration::ZERO }
        } else {
            let attempt = Attempt {
                topic: &binding.topic,
                options: held.lease.options.as_ref().ok(),
                number: held.attempt,
                digest,
                wall: ended.cost.wall,
            };
            self.follow_ups |= !ended.remains.follow_ups.is_empty();
            attempt.verdict(&ended.outcome, ended.remains)
        };
        self.records.push(Record {
            id: held.lease.id.clone(),
            attempt: held.attempt,
            outcome: ended.outcome,
            digest,
            cost: ended.cost,
            late: self.clock.late(held.lease.due_at_ms, ended.started_at),
            started_at: ended.started_at,
            traced,
        });
        self.verdicts.push(held.lease.settle(verdict));
    }

    fn plan(&mut self, now: Instant) -> Plan {
        let (keys, extend) = self.in_flight.extensions(now, BATCH_MAX);
        let wanted = self.wanted(self.parts.lanes.load(), now);
        let binding = binding::current(&self.parts.bound);
        let batch_max = self.parts.member.batch_max(now);
        let rest = self.verdicts.len().min(batch_max);
        let later = (self.verdicts.split_off(rest), self.records.split_off(rest));
        let settle = std::mem::replace(&mut self.verdicts, later.0);
        let records = std::mem::replace(&mut self.records, later.1);
        let lease = (wanted.jobs > 0 && self.may_lease(now)).then(|| {
            self.calls += 1;
            let call_id = format!("{}:{}", self.parts.runner_id, self.calls);
            LeaseCall {
                jobs: wanted.jobs,
                at_once: wanted.at_once,
                lease: binding.lease,
                call_id,
                bytes_max: None,
                min_age: Duration::ZERO,
                expired_info: buried_info(&binding.topic, FailureClass::Expired),
            }
        });
        let looks = lease.is_some();
        // Where some verdicts wait for the next turn, theirs may be the follow-ups.
        let follow_ups = self.follow_ups;
        self.follow_ups &= !self.verdicts.is_empty();
        Plan {
            keys,
            extend,
            settle,
            records,
            lease,
            looks,
            reclaims: looks && now >= self.reclaim_at,
            batch_max,
            skip: self.skip,
            max_crashes: binding.topic.max_crashes,
            crashed_info: buried_info(&binding.topic, FailureClass::Crashed),
            discards_bad: binding.topic.on.get(&FailureClass::BadDue) == Some(&Policy::Discard),
            follow_ups,
        }
    }

    /// Sends a turn until it is answered. While Redis is away, guests whose lease runs out are ended.
    /// With the answer comes when the try that got it was sent.
    async fn send(&mut self, plan: &Plan) -> Option<(TurnReply, Instant)> {
        let runner_id = Arc::clone(&self.parts.runner_id);
        let turn = plan.turn(&runner_id);
        let mut wait = RETRY_FIRST;
        loop {
            let sent_at = Instant::now();
            let answer = {
                let mut asked = std::pin::pin!(self.parts.queue.turn(&self.parts.topic, &turn));
                loop {
                    let first_end = self.in_flight.first_end(Instant::now());
                    tokio::select! {
                        answer = &mut asked => break answer,
                        () = sleep_until(first_end) => self.interrupt_ended(),
                    }
                }
            };
            let error = match answer {
                Ok(reply) => return Some((reply, sent_at)),
                Err(error) => error,
            };
            self.parts.outage.noticed(&error);
            let given_up = |until: Instant| Instant::now() >= until + DRAIN_GRACE;
            self.follow_orders();
            if self.drain_until.is_some_and(given_up) {
                return None;
            }
            wait = outage::next_retry(wait);
            let again_at = Instant::now() + wait;
            while Instant::now() < again_at {
                let first_end = self.in_flight.first_end(Instant::now()).unwrap_or(again_at);
                sleep_until(Some(first_end.min(again_at))).await;
                self.interrupt_ended();
            }
        }
    }

    fn interrupt_ended(&self) {
        let ended = self.in_flight.interrupt_ended(Instant::now());
        if ended > 0 {
            warn!(topic = %self.parts.topic, jobs = ended,
                "leases ran out and could not be renewed; their guests are ended");
        }
    }

    fn apply(&mut self, plan: Plan, reply: TurnReply, sent_at: Instant) {
        let now = Instant::now();
        let TurnReply { extended, settled, reclaimed, promoted, promoted_at_us, leased, error } =
            reply;
        match extended {
            Some(tokens) => {
                for ((key, extension), token) in plan.keys.iter().zip(plan.extend).zip(tokens) {
                    self.in_flight.extended(*key, extension.by, token);
                }
            }
            None if plan.keys.is_empty() => {}
            None => self.in_flight.beat_again_at(now + self.retry),
        }
        match settled {
            Some(words) => {
                self.settled(&plan.records, &words);
                if plan.follow_ups {
                    self.parts.relay.due(&self.parts.topic);
                }
            }
            None if plan.settle.is_empty() => {}
            None => {
                self.follow_ups |= plan.follow_ups;
                self.keep_verdicts(plan.settle, plan.records, error.as_ref());
            }
        }
        if let Some(reclaimed) = reclaimed {
            self.reclaimed(reclaimed, now);
        }
        if plan.looks {
            // Of leases whose end is not known the poller tells.
            self.look_at = self.expiry.unwrap_or(now + SLEEP_MAX);
            self.more = false;
        }
        if let Some(promoted) = promoted {
            self.clock.add_sample(sent_at, now, promoted_at_us);
            self.promoted(promoted, plan.skip, now, promoted_at_us);
            self.buried_bad(promoted.bad, plan.discards_bad);
        }
        if let (Some(leased), Some(call)) = (leased, plan.lease) {
            self.leased(leased, &call, sent_at, promoted_at_us);
        }
        match error {
            Some(error) => self.refused(&error, now),
            None => {
                self.retry = RETRY_FIRST;
                self.parts.outage.over();
            }
        }
    }

    fn settled(&mut self, records: &[Record], words: &[Settled]) {
        self.parts.latest.note(records, words);
        let is_pressed = log::is_pressed();
        for (record, settled) in records.iter().zip(words) {
            self.parts.counters.settled(*settled, record.class());
            self.parts.events.settled(&self.parts.topic, record, *settled);
            self.parts.traces.settled(&self.parts.topic, record, *settled);
            if self.lines.has(*settled, is_pressed) {
                record.log(&self.parts.topic, *settled);
            }
        }
        if let Some(jobs) = self.lines.left_out(Instant::now()) {
            warn!(topic = %self.parts.topic, jobs,
                "acks that have no line here: stderr is read too slowly for all of them");
        }
    }

    /// Redis refused to settle: the verdicts are kept for the next turn, unless no turn would help.
    fn keep_verdicts(
        &mut self,
        mut settle: Vec<Settlement>,
        mut records: Vec<Record>,
        error: Option<&QueueError>,
    ) {
        if error.is_some_and(QueueError::is_final) {
            error!(topic = %self.parts.topic, jobs = settle.len(), error = ?error,
                "verdicts were refused for good; their leases expire and the jobs run again");
            return;
        }
        settle.append(&mut self.verdicts);
        records.append(&mut self.records);
        (self.verdicts, self.records) = (settle, records);
    }

    fn reclaimed(&mut self, reclaimed: Reclaimed, now: Instant) {
        self.expiry = reclaimed.next_expiry_in.map(|wait| now + wait);
        let soon = now + RECLAIM_EVERY;
        self.reclaim_at = self.expiry.map_or(soon, |expiry| expiry.min(soon));
        let counters = &self.parts.counters;
        add(&counters.reclaimed, reclaimed.jobs.len());
        for (id, became) in reclaimed.jobs {
            match became {
                Settled::Dead => counters.failed(Fate::Dead, FailureClass::Crashed, 1),
                Settled::Discarded => counters.failed(Fate::Discard, FailureClass::Crashed, 1),
                _ => {}
            }
            self.log_reclaimed(&id, became);
            let (topic, events) = (&self.parts.topic, &self.parts.events);
            match became {
                Settled::Dead | Settled::Discarded => {
                    events.failed(topic, &id, became.word(), FailureClass::Crashed);
                }
                _ => events.happened(topic, &id, "reclaimed"),
            }
        }
    }

    fn log_reclaimed(&self, id: &JobId, became: Settled) {
        let topic = &self.parts.topic;
        if matches!(became, Settled::Dead | Settled::Discarded) {
            warn!(%topic, job_id = %id, class = FailureClass::Crashed.name(), settled = became.word(),
                "job {}: its runners died, or lost the lease, as often as max_crashes allows", became.word());
        } else {
            info!(%topic, job_id = %id, settled = became.word(),
                "reclaimed: its runner died or lost the lease; no attempt is spent");
        }
    }

    fn promoted(&mut self, promoted: Promoted, skip: u64, now: Instant, now_us: u64) {
        if let Some(wait) = promoted.next_due_in {
            // The wait is counted from the millisecond that Redis was in when it promoted.
            let gone =
                self.clock.us_at(now).unwrap_or_default().saturating_sub(now_us / 1_000 * 1_000);
            self.look_at = self.look_at.min(now + wait.saturating_sub(Duration::from_micros(gone)));
        }
        self.skip = if promoted.more { skip + promoted.skipped } else { 0 };
        self.more |= promoted.more;
    }

    fn buried_bad(&self, jobs: u64, are_discarded: bool) {
        if jobs > 0 {
            let fate = if are_discarded { Fate::Discard } else { Fate::Dead };
            self.parts.counters.failed(fate, FailureClass::BadDue, jobs as usize);
            let event = if are_discarded { "discarded" } else { "dead" };
            let class = Some(FailureClass::BadDue);
            self.parts.events.happened_to(&self.parts.topic, jobs, event, class);
            warn!(topic = %self.parts.topic, jobs, class = FailureClass::BadDue.name(),
                "dead: their due time is no unix time in milliseconds");
        }
    }

    fn refused(&mut self, error: &QueueError, now: Instant) {
        self.parts.outage.noticed(error);
        self.retry = outage::next_retry(self.retry);
        self.not_before = now + self.retry;
        self.look_at = self.look_at.min(self.not_before);
    }
}

impl Plan {
    fn turn<'a>(&'a self, holder: &'a str) -> Turn<'a> {
        let reclaim = || ReclaimRule {
            max_crashes: self.max_crashes,
            delay: Duration::ZERO,
            info: self.crashed_info.as_deref(),
        };
        Turn {
            holder,
            extend: &self.extend,
            settle: &self.settle,
            reclaim: self.reclaims.then(reclaim),
            promote: self.looks.then_some(Promotion {
                jobs: self.batch_max,
                skip: self.skip,
                discards_bad: self.discards_bad,
            }),
            lease: self.lease.as_ref(),
        }
    }
}

async fn sleep_until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when.into()).await,
        None => std::future::pending().await,
    }
}
