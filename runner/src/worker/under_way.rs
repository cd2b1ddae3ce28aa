//! Turns under way: sent, and without a reply yet. Usually there is one. Under load there are two, one that settles
//! verdicts and one that leases, so that Redis has the next turn when it ends the first. Meanwhile the worker judges,
//! encodes and reports.
//!
//! Two turns under way have no part in common, so each is planned when the reply to the last one of its kind is known.
//! How much may be leased, and when to look next, depends on what the last lease call returned. Redis may
//! carry out the two in any order, and either may be repeated.
//!
//! Where there is nothing to lease as far as the worker knows, verdicts go alone.
//!
//! One turn at a time has both parts:
//!
//! - while leases are to be renewed: a verdict, or a release, needs the token that the renewal returns;
//! - after an error: only such a turn shows that it is over;
//! - next to other topics: they share Redis by the length of turns.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use duebox_queue::{QueueError, REPLY_MAX, TurnReply};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, MaybeDone, maybe_done};

use super::Worker;
use super::turn::Plan;
use crate::monotonic;

/// The parts of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    Verdicts,
    Leases,
    Both,
}

impl Parts {
    pub(super) fn has_verdicts(self) -> bool {
        self != Self::Leases
    }

    pub(super) fn has_leases(self) -> bool {
        self != Self::Verdicts
    }
}

/// The answer to a turn, with its plan: it may have to be sent again.
pub(super) type Answer = (Plan, Result<TurnReply, QueueError>);

/// A turn that Redis has not replied to.
pub(super) struct TurnUnderWay {
    pub(super) answer: MaybeDone<BoxFuture<'static, Answer>>,
    pub(super) sent_at: Instant,
    pub(super) parts: Parts,
    /// When the worker began to prepare it.
    began_at: Instant,
    is_full: bool,
    /// It was sent before the reply to another one.
    pub(super) is_second: bool,
}

impl Worker {
    /// Prepares a turn that is due, when no other one is under way. It is sent when its answer is first polled.
    pub(super) fn begin_turn(&mut self, now: Instant) -> TurnUnderWay {
        let parts = if self.has_large_turn(Parts::Both, now) { Parts::Leases } else { Parts::Both };
        self.prepare_turn(parts, now)
    }

    fn prepare_turn(&mut self, parts: Parts, now: Instant) -> TurnUnderWay {
        if parts.has_verdicts() {
            self.judge_ended(now);
        }
        let parts = match parts {
            Parts::Both if !self.looks_for_work(now) => Parts::Verdicts,
            parts => parts,
        };
        let plan = self.plan(parts, now);
        self.turn_of(plan, now, false)
    }

    /// The turn of a plan. `is_repeated` says that it was sent before.
    pub(super) fn turn_of(
        &self,
        mut plan: Plan,
        began_at: Instant,
        is_repeated: bool,
    ) -> TurnUnderWay {
        let sent_at = monotonic::now();
        // From then on nothing waits for this reply, so a job that Redis leased would not run.
        plan.lease_until(self.clock.us_at(sent_at + REPLY_MAX));
        let (parts, is_full) = (plan.parts(), plan.is_full());
        let holder = Arc::clone(&self.parts.services.runner_id);
        let (queue, shard) = (self.parts.services.queue.clone(), self.parts.shard.clone());
        let answer = async move {
            let answer = queue.turn(&shard, &plan.turn(&holder, is_repeated)).await;
            (plan, answer)
        };
        let answer = maybe_done(answer.boxed());
        TurnUnderWay { answer, sent_at, parts, began_at, is_full, is_second: false }
    }

    /// Waits for the reply to a turn, applies it, and rests if other topics need it.
    pub(super) async fn end_turn(&mut self, turn: TurnUnderWay) {
        let TurnUnderWay { parts, began_at, is_full, .. } = turn;
        if let Some((plan, reply, sent_at)) = self.reply_to(turn).await {
            self.apply_reply(plan, reply, sent_at);
            self.keep_recordings().await;
        }
        if parts.has_leases() {
            self.drop_requested_probe();
        }
        if is_full && self.drain_until.is_none() {
            let ended = monotonic::now();
            let rest = self.parts.batch_limits.rest(ended - began_at, ended);
            self.not_before = self.not_before.max(ended + rest);
        }
    }

    /// Sends the other part of a turn next to the one under way, which has these parts, if that one is large.
    pub(super) async fn send_second(&mut self, under_way: Parts) {
        let parts = match under_way {
            Parts::Both => return,
            Parts::Verdicts => Parts::Leases,
            Parts::Leases => Parts::Verdicts,
        };
        let now = monotonic::now();
        if self.next.is_some() || !self.has_large_turn(parts, now) {
            return;
        }
        let mut second = self.prepare_turn(parts, now);
        second.is_second = true;
        // Another task writes it to the connection, before the next reply is applied.
        tokio::select! {
            biased;
            () = &mut second.answer => {}
            () = tokio::task::yield_now() => {}
        }
        self.next = Some(second);
    }

    /// Whether a turn with verdicts asks for work, too. A job that comes meanwhile wakes the worker, and a plain push
    /// is found within [`RECLAIM_EVERY`](super::RECLAIM_EVERY) as long as there are turns.
    fn looks_for_work(&self, now: Instant) -> bool {
        let look = &self.look;
        let is_due = look.more || look.suspects || now >= look.at.min(look.reclaim_at);
        let has_limits = || self.parts.bound.borrow().topic.limits().hold_for_leases();
        let comes_back = || self.unsettled.jobs.iter().any(|job| !job.settlement.ends_job());
        is_due || self.has_failed() || self.must_renew(now) || has_limits() || comes_back()
    }

    /// Whether there is enough for a turn with these parts to be large.
    fn has_large_turn(&self, parts: Parts, now: Instant) -> bool {
        let Some(large) = self.parts.batch_limits.large_turn(now) else { return false };
        let is_alone = self.drain_until.is_some() || self.has_failed() || self.must_renew(now);
        if is_alone || now < self.not_before {
            return false;
        }
        let load = self.parts.executor.load();
        let verdicts = load.ended + self.unsettled.jobs.len();
        let leases = || if self.look.more { self.lease_size(load, now).jobs } else { 0 };
        (!parts.has_verdicts() || verdicts >= large) && (!parts.has_leases() || leases() >= large)
    }
}

impl TurnUnderWay {
    /// Waits for its answer.
    pub(super) async fn answered(&mut self) -> Option<Answer> {
        (&mut self.answer).await;
        Pin::new(&mut self.answer).take_output()
    }
}

/// Waits for the answer to the second turn, which is applied when that is the first one. Without one it never ends.
pub(super) async fn second_answered(second: &mut Option<TurnUnderWay>) {
    match second {
        Some(TurnUnderWay { answer: answer @ MaybeDone::Future(_), .. }) => answer.await,
        _ => std::future::pending().await,
    }
}
